"""Gateways for realtime sessions, and what they leave behind; for tests over real sockets.

All that a test says in a session contains the word ``canary``, as its keys do, so that
:meth:`~tests.support.gateway.GatewayProcess.search_for_keys` finds it in any line that it gets into.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from typing import Any, Final

from tests.support.gateway import CANARY, GatewayProcess
from tests.support.simulator import SeenRequest

EDGE: Final = "edge-canary-1"
OPENAI_KEY: Final = "sk-canary-openai"
GEMINI_KEY: Final = "AIza-canary"
HELLO: Final = "hello canary"
"""What is said in a session."""
ANSWER: Final = f"You said: {HELLO}"


def realtime_config(url: str, *, providers: str = "", edge_auth: bool = True, more: str = "") -> str:
    """Return a gateway's configuration, with providers that all are the simulator at ``url``.

    :param providers: more of them, one a line.
    """
    enabled = str(edge_auth).lower()
    return f"""
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: {OPENAI_KEY}}}
  gem: {{kind: gemini, base_url: "{url}/v1beta", api_key: {GEMINI_KEY}}}
  claude: {{kind: anthropic, base_url: "{url}/v1", api_key: sk-ant-canary}}
  host: {{kind: openai_compat, base_url: "{url}/v1", api_key: sk-canary-1, capabilities: {{realtime: true}}}}
  silent: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary-2, capabilities: {{realtime: false}}}}
{providers}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
aliases: {{voice: main/gpt-realtime, live: gem/gemini-live, quiet: silent/gpt-realtime}}
edge_auth: {{enabled: {enabled}, keys: [{EDGE}, edge-canary-2]}}
{more}
"""


@dataclass
class Traces:
    """What the sessions of a gateway leave behind: events, lines of the log, metrics."""

    gateway: GatewayProcess
    _seen: int = 0

    def event(self) -> dict[str, Any]:  # an event's fields
        """Return the one event since the last time; its lines in the log tell the same."""
        (event,) = self.events(1)
        lines = self.log_lines(event["request_id"])
        assert set(lines) == {"usage", "http"}, lines
        assert f"status={event['http_status']} " in lines["http"]
        assert f"route={event['route']} " in lines["usage"]
        for name in ("tokens_in", "tokens_out", "frames_in", "frames_out", "bytes_in", "bytes_out"):
            assert f" {name}={event.get(name, '-')} " in f"{lines['usage']} " or name not in event, name
        return event

    def events(self, count: int) -> list[dict[str, Any]]:  # as above
        """Return the events since the last time, which are ``count``."""
        found = self.gateway.events(self._seen + count)[self._seen :]
        self._seen += len(found)
        assert len(found) == count, found
        return found

    def log_lines(self, request_id: str) -> dict[str, str]:
        """Return the lines of a request by their first word, once its ``usage`` and ``http`` are there."""
        pattern = re.compile(rf"^(usage|http) .*request_id={request_id}.*$".encode(), re.MULTILINE)

        def find(log: bytes) -> list[bytes] | None:
            found = [match[0] for match in pattern.finditer(log)]
            return found if len(found) >= 2 else None

        lines = self.gateway.stderr.wait_for(find, 60, f"the lines of {request_id}")
        assert len(lines) == 2, lines
        return {line.partition(b" ")[0].decode(): line.decode() for line in lines}


def closed_port() -> int:
    """Return a port on the loopback that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def sent(request: SeenRequest) -> tuple[int, int]:
    """Return the data frames and their payload bytes that a client has sent to the simulator."""
    found = [message for message in request.messages if message.kind in {"text", "binary"}]
    return sum(message.frames for message in found), sum(message.size for message in found)


def has_no_gateway_key(request: SeenRequest) -> bool:
    """Whether nothing of what the provider saw repeats a key of the gateway."""
    values = [value for _, value in request.headers]
    return not any("edge-canary" in text for text in [request.target, *values])


def has_no_canary(text: bytes) -> bool:
    """Whether a text is free of keys and of what was said."""
    return CANARY not in text
