"""Requests with all that may go wrong in a signature, signed by us and by botocore.

``python -m tests.support.drawn_signatures 100000`` draws as many, and says in how many both agree.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import sha256
from string import ascii_letters, digits
from typing import Final

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec import Struct

from mgw.credentials.aws.clock import HostClock
from mgw.credentials.aws.keys import AwsKeys
from mgw.credentials.aws.signer import SigV4
from mgw.nouns.secret import Secret
from mgw.wire.headers import RawHeaders
from tests.support.signed_requests import SigningHost

_PLAIN: Final = ascii_letters + digits + "-._~"
_ODD: Final = "!$%&'()*+,/:;=@[]\\^`{|}\"<>"
_PATH: Final = st.lists(
    st.one_of(
        st.sampled_from(["", ".", "..", "...", "%2F", "%2f", "%252F", "%3A", ":", "%", "%E1%88%B4", "model"]),
        st.text(_PLAIN + _ODD, max_size=8),
        st.text(st.characters(min_codepoint=0xA1, exclude_categories=("Cs", "Z", "Cc")), max_size=3),
    ),
    max_size=6,
)
_PAIR: Final = st.one_of(
    st.sampled_from(["", "=", "a", "a=", "a=1", "a=2", "a=1=2", "A=1", "a-b=1", "%E1%88%B4=1", "a==", "=a"]),
    st.text(_PLAIN + _ODD.replace("&", "") + "?", max_size=10),
)
_QUERY: Final = st.none() | st.lists(_PAIR, max_size=5).map("&".join)
_WORD: Final = st.text(
    st.characters(min_codepoint=0x21, exclude_categories=("Cs", "Cc", "Z")), min_size=1, max_size=8
)
_BLANKS: Final = st.sampled_from([" ", "  ", "\t", " \t ", ""])
_VALUE: Final = st.lists(st.tuples(_BLANKS, _WORD), max_size=4).map(
    lambda parts: "".join(f"{blank}{word}" for blank, word in parts) + ("  " if len(parts) % 2 else "")
)
_NAME: Final = st.sampled_from(
    [
        *("content-type", "Content-Type", "anthropic-beta", "Anthropic-Beta", "anthropic-version"),
        *("X-Amzn-Bedrock-GuardrailIdentifier", "x-amz-b", "X-AMZ-Meta", "x-amz-contents", "x-amz-z"),
        *("x-amzn-trace-id", "User-Agent", "Accept-Encoding", "traceparent", "Accept", "x-amz", "anthropic-"),
        *("X-Amz-Date", "x-amz-content-sha256", "Authorization", "x-api", "contents", "Hosts"),
    ]
)
_HOST: Final = st.sampled_from(
    ["bedrock-runtime.eu-central-1.amazonaws.com", "127.0.0.1:4000", "[::1]:8080", "a.example:8443"]
)
_REPEATED: Final = st.sampled_from([1, 1, 1, 1, 30_000])
"""How often the bytes of a body are repeated."""
_SECRET: Final = st.text(ascii_letters + digits + "+/=", min_size=1, max_size=40)
_KEYS: Final = st.builds(
    lambda key_id, secret, token: AwsKeys(key_id, Secret(secret), None if token is None else Secret(token)),
    st.text(ascii_letters + digits, min_size=1, max_size=20),
    _SECRET,
    st.none() | _SECRET,
)
_REGION: Final = st.sampled_from(["us-east-1", "eu-central-1", "cn-north-1", "us-isob-east-1"])
_SERVICE: Final = st.sampled_from(["bedrock", "bedrock-mantle", "sts", "aws-external-anthropic"])
_TIME: Final = st.floats(0, 4e9)


class DrawnRequest(Struct, frozen=True):
    """A request, and who signs it when."""

    method: bytes
    target: bytes
    headers: RawHeaders
    body: bytes
    keys: AwsKeys
    region: str
    service: str
    now: float

    def __repr__(self) -> str:
        parts = self.method, self.target, self.headers, self.keys, self.region, self.service, self.now
        return f"DrawnRequest({parts}, {len(self.body)} B)"


@st.composite
def drawn_requests(draw: st.DrawFn) -> DrawnRequest:
    """Return a strategy for requests."""
    query = draw(_QUERY)
    target = "/" + "/".join(draw(_PATH)).replace("?", "").replace("#", "")
    target += "" if query is None else f"?{query}"
    pairs = draw(st.lists(st.tuples(_NAME, _VALUE), max_size=7))
    headers = [(b"Host", draw(_HOST).encode())]
    headers += [(name.encode(), value.encode()) for name, value in pairs]
    return DrawnRequest(
        draw(st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE"])),
        target.encode(),
        headers,
        draw(st.binary(max_size=50)) * draw(_REPEATED),
        draw(_KEYS),
        draw(_REGION),
        draw(_SERVICE),
        draw(_TIME),
    )


def sign_twice(request: DrawnRequest) -> None:
    """Sign a request as it comes and with what is remembered of it; fail unless botocore agrees."""
    signer = SigV4(request.keys, request.region, request.service, HostClock("main"))
    host = SigningHost(request.keys, request.region, request.service)
    digest = sha256(request.body).digest()
    for later in (0.0, 1.0, 86_400.0):
        now = request.now + later
        added = signer.sign(request.method, request.target, request.headers, digest, now)
        names = {name.lower() for name, _ in added}
        sent = [pair for pair in request.headers if pair[0].lower() not in names]
        host.check(request.method, request.target, [*sent, *added], request.body)


def draw_many(count: int, try_one: Callable[[DrawnRequest], None]) -> None:
    """Draw so many requests."""
    run = settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )(given(drawn_requests())(try_one))
    run()


def main(count: int) -> None:
    """Say in how many draws both agree; what they do not agree in is shown."""
    agreed = 0

    def try_one(request: DrawnRequest) -> None:
        nonlocal agreed
        sign_twice(request)
        agreed += 1

    draw_many(count, try_one)
    sys.stdout.write(f"{agreed} of {count} drawn requests have the signatures that botocore makes\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
