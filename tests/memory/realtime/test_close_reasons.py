"""Close frames of the gateway's own: their codes, and their reasons, which say first what is wrong."""

from __future__ import annotations

import pytest

from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime.relay import refusal_code
from tests.support.configs import THREE_FAMILIES
from tests.support.memory_sessions import LIVE, RESPONSES, SessionHarness
from tests.support.raw_sessions import frame

LIMITED = f"""{THREE_FAMILIES}
edge_auth: {{enabled: true, keys: [{{name: alice, key: edge, models: ["fast", "gem/*"]}}]}}
"""
LONG_NAME = "a-name-of-some-length-for-" + "a-" * 20 + "provider"
LONG_PROVIDER = THREE_FAMILIES.replace("  main:", f"  {LONG_NAME}:").replace(" main", f" {LONG_NAME}")
CODES = {
    Reason.DRAINING: 1001,
    Reason.OVERLOADED: 1013,
    Reason.INTERNAL: 1011,
    Reason.UPSTREAM_BROKEN: 1011,
    Reason.UPSTREAM_TOO_SLOW: 1011,
    Reason.CREDENTIAL_SOURCE: 1011,
    Reason.NO_ISSUER_KEYS: 1011,
}
"""Contract 10.3; what else is refused is the client's to change."""
LIVE_OF_EDGE = f"{LIVE}?key=edge"


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.name.lower())
def test_the_code_says_whose_fault_it_is(reason: Reason) -> None:
    assert refusal_code(GatewayError(reason, "no")) == CODES.get(reason, 1008)


def reason_of(path: str, text: str, *payloads: bytes) -> str:
    """Return the reason of the close frame that answers the last of these messages."""
    harness = SessionHarness(path, text)
    harness.take_head()
    for number, payload in enumerate(payloads):
        if number == 1:
            harness.switch()
        harness.channel.dataReceived(frame(0x81, payload))
    said = harness.client_frames()[-1]
    assert said.code == 1008
    assert len(said.payload) <= 125
    return said.payload[2:].decode()


@pytest.mark.parametrize(
    ("path", "text", "payloads", "point"),
    [
        pytest.param(
            LIVE_OF_EDGE,
            LONG_PROVIDER,
            [b'{"setup":{"model":"models/fast"}}'],
            "realtime sessions are not translated",
            id="a bridge",
        ),
        pytest.param(
            RESPONSES,
            THREE_FAMILIES,
            [b'{"model":"gem/x"}'],
            "realtime sessions are not translated",
            id="a bridge the other way",
        ),
        pytest.param(
            RESPONSES, LIMITED, [b'{"model":"%b"}' % (b"x" * 300)], "no model is named", id="a long model"
        ),
        pytest.param(
            LIVE_OF_EDGE,
            LIMITED,
            [b'{"setup":{"model":"models/gem/a"}}', b'{"setup":{"model":"fast"}}'],
            "this session uses provider 'gem'",
            id="another provider",
        ),
        pytest.param(
            LIVE_OF_EDGE,
            LIMITED,
            [b'{"setup":{"model":"models/gem/a","Model":"b"}}'],
            "'setup.model' appears more than once",
            id="two cases",
        ),
        pytest.param(RESPONSES, THREE_FAMILIES, [b"{}"], "JSON that names the model", id="no model"),
    ],
)
def test_the_reason_begins_with_its_point(path: str, text: str, payloads: list[bytes], point: str) -> None:
    assert point in reason_of(path, text, *payloads)
