"""Requests to a web server in memory, and two ways in which they fail."""

from __future__ import annotations

from tests.support.channels import LIMITS, post
from tests.support.pipelines import CHAT
from tests.support.web_servers import WebServerHarness

KEY = "x-api-key: edge"
JSON = "Content-Type: application/json"
PATH = "/v1/chat/completions"
UNFINISHED = post(CHAT, KEY, JSON, path=PATH)[:-3]
WHOLE = post(CHAT, KEY, JSON, path=PATH)


def too_slow(harness: WebServerHarness) -> None:
    harness.send(UNFINISHED)
    harness.clock.advance(LIMITS.client_body_idle)


def new_in_a_drain(harness: WebServerHarness) -> None:
    harness.server.draining = True
    harness.send(WHOLE)
