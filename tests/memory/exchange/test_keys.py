"""Law: whatever carries it, an edge key reaches no provider, and a client's own key only where it belongs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.nouns.secret import Secret
from mgw.nouns.vocabulary import Family
from mgw.web.edge_auth import EdgeGate
from mgw.wire.headers import RawHeaders
from tests.support.pipelines import CHAT, Pipeline

EDGE, OWN, CONFIGURED = b"edge-canary-1", b"own-canary-2", "main-canary-3"
GATE = EdgeGate(EdgeAuthSettings(enabled=True, keys=(Secret(EDGE.decode()),)))
REQUESTS = {
    Family.OPENAI: ("/v1/chat/completions", CHAT.replace(b"fast", b"m")),
    Family.ANTHROPIC: ("/v1/messages", b'{"model":"m"}'),
    Family.GEMINI: ("/v1beta/models/m:generateContent", b"{}"),
}
CREDENTIALS = (b"authorization", b"x-api-key", b"x-goog-api-key")


def providers(key: str) -> str:
    of_kind = "\n".join(f"  {kind}: {{kind: {kind}{key}}}" for kind in Family)
    defaults = ", ".join(f"{kind}_dialect: {kind}" for kind in Family)
    return f"providers:\n{of_kind}\ndefaults: {{{defaults}}}"


def in_any_case(name: bytes) -> st.SearchStrategy[bytes]:
    return st.sampled_from([name, name.lower(), name.upper(), name.title(), name.swapcase()])


CARRIERS = st.sampled_from(
    [b"Authorization", b"x-api-key", b"X-Goog-Api-Key", b"api-key", b"Proxy-Authorization", b"Cookie"]
).flatmap(in_any_case)
VALUES = st.builds(
    bytes.__add__,
    st.sampled_from([b"", b"Bearer ", b"bearer  ", b"Token ", b"Basic ", b"Bearer\t"]),
    st.sampled_from([EDGE, OWN, EDGE + b", Bearer " + OWN, OWN + b"," + EDGE]),
)
CARRIED = st.tuples(CARRIERS, VALUES)
NOISE = st.sampled_from(
    [
        (b"Connection", b"authorization, x-api-key, content-type, anthropic-version"),
        (b"Connection", b"keep-alive"),
        (b"anthropic-beta", b"a,b"),
        (b"X-Forwarded-For", b"10.0.0.1"),
        (b"Expect", b"100-continue"),
        (b"TE", b"trailers"),
    ]
)
FIELDS = st.builds(
    lambda name, value: name + b"=" + value,
    st.sampled_from([b"key", b"%6bey", b"k%65y", b"%6B%65%79"]),
    st.sampled_from([EDGE, OWN, EDGE.replace(b"-", b"%2D"), b""]),
) | st.sampled_from([b"alt=sse", b"", b"x=%7e"])


@pytest.mark.slow
@given(
    family=st.sampled_from(Family),
    headers=st.lists(CARRIED | NOISE, max_size=6),
    fields=st.none() | st.lists(FIELDS, max_size=4),
    configured=st.booleans(),
)
def test_no_carrier_takes_an_edge_key_to_a_provider(
    family: Family, headers: RawHeaders, fields: list[bytes] | None, configured: bool
) -> None:
    pipeline = Pipeline(providers(f", api_key: {CONFIGURED}" if configured else ""))
    query = None if fields is None else b"&".join(fields)
    path, body = REQUESTS[family]
    caller = GATE.admit(family, [*headers, (b"x-api-key", EDGE)], query)
    _, work = pipeline.ask(path, body, headers, caller.raw_query, caller.key)
    _ = work.addErrback(lambda _: None)
    if not pipeline.endpoint.connections:  # nothing is left to send
        assert not configured
        assert pipeline.event().http_status == 401
        return
    line, sent, _ = pipeline.received()
    assert EDGE not in pipeline.connection.received
    assert EDGE.replace(b"-", b"%2D") not in pipeline.connection.received
    carriers = [value for name, value in sent if name.lower() in CREDENTIALS]
    assert len(carriers) == 1
    assert carriers[0].endswith(CONFIGURED.encode() if configured else OWN)
    if configured:
        assert all(OWN not in value for _, value in sent)
    if family is Family.GEMINI:
        assert OWN not in line
    assert not {b"te", b"expect", b"connection", b"x-forwarded-for"} & {name.lower() for name, _ in sent}
