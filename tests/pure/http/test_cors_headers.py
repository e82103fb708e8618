"""What is said of an origin takes the place of what a provider says, in both forms of a head."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mgw.http.cors_headers import CorsHeaders
from mgw.wire.headers import RawHeaders

OURS = CorsHeaders.of([(b"Access-Control-Allow-Origin", b"https://a.example"), (b"Vary", b"Origin")])
NAMES = st.sampled_from(
    [
        *(b"Access-Control-Allow-Origin", b"ACCESS-CONTROL-MAX-AGE", b"access-control-allow-credentials"),
        *(b"X-Access-Control-Allow-Origin", b"Access-Controls", b"Access-Control", b"Vary", b"a"),
    ]
)
VALUES = st.sampled_from([b"", b"*", b"access-control-allow-origin: *", b"Accept"])


def rendered(pairs: RawHeaders) -> bytes:
    return b"".join(b"%b: %b\r\n" % pair for pair in pairs)


@given(st.lists(st.tuples(NAMES, VALUES)))
def test_both_forms_of_a_head_lose_and_gain_the_same(pairs: RawHeaders) -> None:
    expected = [pair for pair in pairs if not pair[0].lower().startswith(b"access-control-")] + OURS.pairs
    assert OURS.add_to(pairs) == expected
    assert OURS.add_to_lines(rendered(pairs)) == rendered(expected)
