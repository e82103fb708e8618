"""Measure what a check of a signed token costs: ``python -m bench.token_checks [--rounds N]``.

The time is that of the thread alone, in the fastest of several rounds.  Each row has what it may cost.  Calls
are those of Python functions beyond what a request with a gateway key makes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, Final

from bench.machines import description
from mgw.clients.tokens.key_set import MAX_KEYS, MAX_SET_BYTES, parse_key_set
from mgw.clients.tokens.token import MAX_TOKEN_BYTES, parse_token
from mgw.clients.tokens.verify import verify_token
from tests.support.signed_tokens import (
    ALGORITHMS,
    NOW,
    claims_with,
    entry_with,
    jwk_of,
    key_for,
    keys_for,
    make_token,
    number,
    parsed,
    part,
)
from tests.support.token_costs import GateCosts

BATCH: Final = 100
HEAD_BYTES: Final = 65_536
_LINE: Final = "{:56} {:>14}   {}"
_RULES: Final = [
    {"when": {"/realm_access/roles": ["llm-research", "llm-admin"], "email_verified": True}},
    {"when": {"email": "*@example.com"}},
]
_CLAIMS: Final[dict[str, Any]] = {  # Any: JSON
    "iat": 1_799_999_000,
    "jti": "onrtro:5f0d5a0b-7d3c-4a54-8f5e-5a3d9c1b2e7f",
    "sub": "5f0d5a0b-7d3c-4a54-8f5e-5a3d9c1b2e7f",
    "typ": "Bearer",
    "azp": "client",
    "sid": "d2a1f0c4-5c1e-4c1f-9a1c-0b9c8f7e6d5a",
    "acr": "1",
    "realm_access": {"roles": ["default-roles-main", "offline_access", "uma_authorization"]},
    "resource_access": {"account": {"roles": ["manage-account", "manage-account-links", "view-profile"]}},
    "scope": "openid email profile",
    "email_verified": True,
    "name": "Ann Example",
    "preferred_username": "ann",
    "email": "ann@example.com",
}
"""The claims of a usual access token of Keycloak."""


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(
        prog="bench.token_checks", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--rounds", type=int, default=10, help="the fastest of so many counts (10)")
    rounds = parser.parse_args().rounds
    print(_LINE.format("what the check of a token costs", "measured", "aim"))
    for name, act, times, aim in _measures():
        seconds = _best(act, times, rounds)
        found = f"{seconds * 1e6:.1f} µs" if seconds < 0.001 else f"{seconds * 1e3:.1f} ms"
        print(_LINE.format(name, found, aim), flush=True)
    for name, found, aim in _at_the_gate(rounds):
        print(_LINE.format(name, found, aim), flush=True)
    facts = description()
    print(f"\n{facts['cores']} cores, {facts['cpu']}, Linux {facts['kernel']}, {facts['python']}")
    return 0


Measure = tuple[str, Callable[[], object], int, str]


def _measures() -> Iterator[Measure]:
    key = b"mgw_" + b"a" * 43
    yield "a key that is not a token", lambda: parse_token(key), BATCH, ""
    entry = entry_with(rules=_RULES)
    claims = claims_with(**_CLAIMS)
    for algorithm in ALGORITHMS[:-1]:
        token, keys = make_token(claims, algorithm=algorithm), keys_for(algorithm)

        def check(token: bytes = token, keys: Any = keys) -> None:
            verify_token(parsed(token), entry, keys, NOW)

        yield (
            f"a token of {len(token):,} bytes, {algorithm}",
            check,
            BATCH,
            "" if algorithm in ("ES384", "ES512") else "0.3 ms",
        )
    yield "… its form alone", lambda: parse_token(token), BATCH, ""
    yield from _large_tokens()
    yield from _key_sets()


def _at_the_gate(rounds: int) -> Iterator[tuple[str, str, str]]:
    claims = {**_CLAIMS, "realm_access": {"roles": ["offline_access", "llm-research"]}}
    for name, is_known, aim in (
        ("a request with a known token and a known head", True, "a comparison"),
        ("… with a known token and another head", False, "3 calls"),
    ):
        yield name, f"+{GateCosts(claims).more_calls(is_known=is_known).total()} calls", aim
    for algorithm in ("RS256", "ES256", "EdDSA"):
        seconds = GateCosts(claims, algorithm).unknown_seconds(BATCH, rounds)
        yield f"an unknown token at the gate, {algorithm}", f"{seconds * 1e6:.1f} µs", "0.3 ms"


def _large_tokens() -> Iterator[Measure]:
    for size in (MAX_TOKEN_BYTES, HEAD_BYTES):
        for unit in ("{},", '"",', '{"":0},'):
            text = '{"a":[' + unit * ((size * 3 // 4 - 200) // len(unit)) + "0]}"
            value = part({"alg": "RS256"}) + b"." + part(text.encode()) + b"." + b"A" * 100

            def parse(value: bytes = value) -> None:
                parse_token(value)

            yield f"a token of {len(value):,} bytes, all of it {unit}", parse, 1, "10 ms"


def _key_sets() -> Iterator[Measure]:
    large = [
        {"kty": "RSA", "n": number(2**8192 - 1), "e": "AQAB", "kid": f"k{place}"} for place in range(MAX_KEYS)
    ]
    rsa = json.dumps({"keys": large}).encode()
    ed25519 = [_jwk(place) for place in range(MAX_KEYS)]
    curve = json.dumps({"keys": ed25519}).encode()
    junk = b'{"keys":[{"kty":"RSA","key_ops":[' + b"{}," * ((MAX_SET_BYTES - 50) // 3) + b"{}]}]}"
    yield f"a set of {MAX_KEYS} keys of RSA with 8,192 bits", lambda: parse_key_set(rsa), 1, "250 ms"
    yield f"a set of {MAX_KEYS} keys of Ed25519", lambda: parse_key_set(curve), 1, "250 ms"
    yield "a set of 1 MiB, all of it objects", lambda: _try(junk), 1, "250 ms"


def _jwk(place: int) -> dict[str, object]:
    return jwk_of(key_for("EdDSA", place + 1), kid=f"k{place}")


def _try(document: bytes) -> None:
    try:
        parse_key_set(document)
    except ValueError:
        return


def _best(act: Callable[[], object], times: int, rounds: int) -> float:
    """Return the seconds of CPU of one time, in the fastest round."""
    found = []
    for _ in range(rounds):
        began = thread_time()
        for _ in range(times):
            act()
        found.append((thread_time() - began) / times)
    return min(found)


if __name__ == "__main__":
    sys.exit(main())
