"""The promises of mgw.upstream.request."""

from __future__ import annotations

from mgw.upstream.request import UpstreamRequest


def test_a_request_does_not_print_its_credential_body_or_query() -> None:
    shown = repr(UpstreamRequest(b"POST", b"/v1?key=canary", [(b"Authorization", b"canary")], b"canary"))
    assert "canary" not in shown
