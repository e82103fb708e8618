"""Tokens with all that may be wrong in one, verified by us, by PyJWT, and by the library of the signatures.

``python -m tests.support.drawn_tokens 100000`` draws as many, and says in how many all agree, and how often
PyJWT differs for which reason.  A difference without a known reason is an error, with the token.
"""

from __future__ import annotations

import hmac
import json
import sys
import warnings
from base64 import urlsafe_b64decode
from collections import Counter
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from random import Random
from time import time
from typing import Any, Final

import jwt
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from msgspec import Struct

from mgw.clients.tokens.key_set import KeySet
from mgw.clients.tokens.token import MAX_TOKEN_BYTES, parse_token
from mgw.clients.tokens.verify import TokenEntry, TokenError, verify_token
from tests.support.signed_tokens import (
    ALGORITHMS,
    CURVES,
    HASHES,
    ISSUER,
    PrivateKey,
    b64,
    entry_with,
    jwk_of,
    key_for,
    keys_of,
    signature,
)

Json = dict[str, Any]
ED25519: Final = ("EdDSA", "Ed25519")
START: Final = int(time())
"""Times of tokens are far from it: PyJWT asks the clock of the machine."""
FAR: Final = 10_000_000
NOT_A_TOKEN: Final = "not a token"
AFTER_SIGNATURE: Final = {None, *("expired", "not_yet_valid", "audience", "claims", "no_rule")}
WRONG_NAMES: Final = ("none", "None", "HS256", "rs256", "ES256K", "", None, ["RS256"], 5)
HEADER_FLAWS: Final[tuple[Json, ...]] = (
    {"crit": ["exp"]},
    {"crit": ["b64"]},
    {"crit": []},
    {"crit": None},
    {"crit": ["b64"], "b64": False},
    {"b64": False},
    {"b64": True},
    {"typ": "JWT"},
    {"typ": 5},
    {"kid": 5},
    {"kid": None},
    {"kid": ["k1"]},
    {"kid": "K1"},
    {"jku": "https://evil.example", "x5c": ["AAAA"], "jwk": {"kty": "oct", "k": "AAAA"}},
)
CLAIM_FLAWS: Final[tuple[tuple[str, str | None], ...]] = (
    *(
        ("exp", text)
        for text in (None, "null", "true", "{}", "[]", "-1", "0", "1e300", "1e400", "NaN", "Infinity")
    ),
    *(("exp", f'"{START + FAR}"'), ("exp", f"{START + FAR}.5"), ("exp", f"{START - FAR}"), ("exp", '" 5 "')),
    *(("exp", f"1{'0' * 400}"), ("exp", f'"{START - FAR}"'), ("exp", f"{START + FAR}e0"), ("exp", '"1_0"')),
    *(("nbf", text) for text in ("null", "true", '"0"', "0", "1e300", "-Infinity", f"{START + FAR}", "[0]")),
    *(("nbf", f"{START - FAR}.25"), ("nbf", f'"{START + FAR}"'), ("nbf", f"1{'0' * 400}"), ("nbf", "-1e400")),
    *(
        ("aud", text)
        for text in (None, "null", '"other"', "[]", '["x","mgw"]', '["mgw",5]', "{}", '"MGW"', "true")
    ),
    *(
        ("sub", text)
        for text in (None, '""', "5", '["ann"]', '"a\\nb"', f'"{"x" * 257}"', '"\\ud800"', '"é"')
    ),
    *(("iss", text) for text in (None, "5", f'"{ISSUER}/"', f'["{ISSUER}"]')),
    *(
        ("jti", "5"),
        ("iat", f"{START + FAR}"),
        ("iat", '"x"'),
        ("role", '"guest"'),
        ("more", f'"{"x" * 13_000}"'),
    ),
)
SIGNATURE_FLAWS: Final = (
    "bit",
    "der",
    "short",
    "long",
    "empty",
    "other key",
    "other algorithm",
    "hmac",
    "zero",
)
FORM_FLAWS: Final = ("padding", "bits", "plus", "newline", "four parts", "cut")
KEY_FLAWS: Final[tuple[Json, ...]] = (
    {"use": "enc"},
    {"use": "sig", "key_ops": ["verify"]},
    {"key_ops": ["sign"]},
    {"alg": "RS384"},
    {"alg": "ES256"},
    {"alg": "EdDSA"},
    {"alg": "Ed25519"},
    {"kid": "k2"},
)


class DrawnToken(Struct, frozen=True):
    """A token, and the keys of its issuer."""

    value: bytes
    jwks: tuple[Json, ...]
    key: PrivateKey
    flaws: tuple[object, ...]
    is_usable: bool
    """Whether the issuer publishes the key without any flaw."""

    def __repr__(self) -> str:
        kinds = [
            f"{jwk['kid']}: {jwk.get('crv', 'RSA')}, {jwk.get('alg')}, {jwk.get('use')}" for jwk in self.jwks
        ]
        return f"DrawnToken({self.value[:600]!r}, {kinds}, {self.flaws})"


class Drawing:
    """Draws tokens: mostly with one or two flaws."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._flaws: list[object] = []

    def draw(self) -> DrawnToken:
        """Draw a token."""
        self._flaws = []
        algorithm = self._random.choice(ALGORITHMS)
        key = key_for(algorithm)
        header = json.dumps(self._header(algorithm)).encode()
        claims = self._claims()
        header, claims = self._repeat(header, claims)
        signed = b".".join(b64(one).encode() for one in (header, claims))
        value = signed + b"." + b64(self._signature(algorithm, key, signed)).encode()
        form, keys = self._form(value), self._keys(algorithm, key)
        return DrawnToken(form, keys, key, tuple(self._flaws), is_usable=jwk_of(key, kid="k1") in keys)

    def _has(self, flaw_in: int) -> bool:
        return self._random.randrange(flaw_in) == 0

    def _one_of(self, flaws: tuple[Any, ...]) -> Any:
        flaw = self._random.choice(flaws)
        self._flaws.append(flaw)
        return flaw

    def _repeated(self, values: tuple[Any, ...]) -> Any:
        self._flaws.append("a name twice")
        return self._random.choice(values)

    def _header(self, algorithm: str) -> Json:
        header: Json = {"alg": algorithm, "kid": "k1"}
        if self._has(8):
            header["alg"] = self._one_of((*ALGORITHMS, *WRONG_NAMES))
        if self._has(6):
            header |= self._one_of(HEADER_FLAWS)
        if self._has(12):
            del header["kid"]
            self._flaws.append("no kid")
        return header

    def _claims(self) -> bytes:
        claims = {
            "iss": f'"{ISSUER}"',
            "aud": '"mgw"',
            "sub": '"ann"',
            "exp": str(START + FAR),
            "role": '"dev"',
        }
        while self._has(2):
            name, text = self._one_of(CLAIM_FLAWS)
            claims.pop(name, None)
            if text is not None:
                claims[name] = text
        return ("{" + ",".join(f'"{name}":{text}' for name, text in claims.items()) + "}").encode()

    def _repeat(self, header: bytes, claims: bytes) -> tuple[bytes, bytes]:
        if self._has(40):
            return header[:-1] + b',"alg":' + json.dumps(self._repeated(ALGORITHMS)).encode() + b"}", claims
        if self._has(40):
            return header, claims[:-1] + b',"exp":' + str(self._repeated((START + FAR, 0))).encode() + b"}"
        return header, claims

    def _signature(self, algorithm: str, key: PrivateKey, signed: bytes) -> bytes:
        made = signature(algorithm, key, signed)
        if not self._has(4):
            return made
        flaw = self._one_of(SIGNATURE_FLAWS)
        place = self._random.randrange(len(made))
        if flaw == "other algorithm":
            name = self._random.choice([one for one in ALGORITHMS if key_for(one) is key])
            return signature(name, key, signed)
        others: dict[str, Callable[[], bytes]] = {
            "bit": lambda: made[:place] + bytes([made[place] ^ 1 << place % 8]) + made[place + 1 :],
            "der": lambda: _der(made) if algorithm in CURVES else made[::-1],
            "short": lambda: made[:-1],
            "long": lambda: made + b"\0",
            "empty": lambda: b"",
            "other key": lambda: signature(algorithm, key_for(algorithm, 2), signed),
            "hmac": lambda: hmac.digest(json.dumps(jwk_of(key)).encode(), signed, sha256),
            "zero": lambda: bytes(len(made)),
        }
        return others[flaw]()

    def _form(self, value: bytes) -> bytes:
        if not self._has(12):
            return value
        flaw = self._one_of(FORM_FLAWS)
        changed = {
            "padding": value + b"=" * (-len(value.rpartition(b".")[2]) % 4 or 4),
            "bits": value[:-1] + bytes([value[-1] + 1]) if value[-1:] in b"AQgwEIMUYcko048" else value,
            "plus": value.replace(b"-", b"+").replace(b"_", b"/"),
            "newline": value + b"\n",
            "four parts": value + b".AAAA",
            "cut": value[:-1],
        }
        return changed[flaw]

    def _keys(self, algorithm: str, key: PrivateKey) -> tuple[Json, ...]:
        mine = jwk_of(key, kid="k1")
        if self._has(6):
            mine |= self._one_of(KEY_FLAWS)
        others = [
            _jwk(self._random.choice(ALGORITHMS), f"k{place}")
            for place in range(3, 3 + self._random.randrange(3))
        ]
        if self._has(15):
            others.append(_jwk(algorithm, "k1"))
            self._flaws.append("two keys with one id")
        if self._has(30):
            others.append({"kty": "oct", "k": b64(b"secret" * 8), "kid": "k1"})
            self._flaws.append("oct")
        keys = [mine, *others]
        self._random.shuffle(keys)
        return tuple(keys)


@cache
def _other_key(algorithm: str) -> Json:
    return jwk_of(key_for(algorithm, 3))


def _jwk(algorithm: str, key_id: str) -> Json:
    return _other_key(algorithm) | {"kid": key_id}


def _der(made: bytes) -> bytes:
    half = len(made) // 2
    return encode_dss_signature(int.from_bytes(made[:half]), int.from_bytes(made[half:]))


ENTRY: Final[TokenEntry] = entry_with(rules=[{"when": {"role": "dev"}}])


def verdict(drawn: DrawnToken) -> str | None:
    """Return what is wrong with a token for us; ``None``: it is valid."""
    token = parse_token(drawn.value)
    if token is None:
        return NOT_A_TOKEN
    if token.issuer != ISSUER:
        return "another issuer"
    try:
        verify_token(token, ENTRY, _key_set(drawn), START)
    except TokenError as error:
        return error.flaw.value
    return None


def _key_set(drawn: DrawnToken) -> KeySet:
    try:
        return keys_of(*drawn.jwks)
    except ValueError:
        return KeySet(())


def has_valid_signature(drawn: DrawnToken) -> bool:
    """Whether the key of a drawn token has signed it with the algorithm that the header names last."""
    signed, _, text = drawn.value.rpartition(b".")
    name = json.loads(_lenient(signed.partition(b".")[0]))["alg"]
    made, key = _lenient(text), drawn.key
    if not isinstance(name, str) or name not in ALGORITHMS:
        return False
    try:
        return _check(name, key, signed, made)
    except InvalidSignature:
        return False


def _check(name: str, key: PrivateKey, signed: bytes, made: bytes) -> bool:
    if isinstance(key, rsa.RSAPrivateKey) and name[:2] in ("RS", "PS"):
        digest = HASHES[name[2:]]
        mask = padding.PSS(padding.MGF1(digest), digest.digest_size)
        key.public_key().verify(made, signed, mask if name[0] == "P" else padding.PKCS1v15(), digest)
        return True
    if isinstance(key, ec.EllipticCurvePrivateKey) and name in CURVES:
        size = (key.key_size + 7) // 8
        if key.curve.name != CURVES[name][0].name or len(made) != 2 * size:
            return False
        key.public_key().verify(_der(made), signed, ec.ECDSA(HASHES[name[2:]]))
        return True
    if name in ("EdDSA", "Ed25519") and not isinstance(key, rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey):
        key.public_key().verify(made, signed)
        return True
    return False


def _lenient(text: bytes) -> bytes:
    return urlsafe_b64decode(text.strip() + b"==")


def verdict_of_pyjwt(drawn: DrawnToken) -> str | None:
    """Return what is wrong with a token for PyJWT, which is asked as its documentation says."""
    try:
        header = jwt.get_unverified_header(drawn.value)
    except jwt.PyJWTError as error:
        return _short(error)
    found = [jwk for jwk in drawn.jwks if _may_be(jwk, header)]
    said: str | None = "no key"
    for jwk in found:
        said = _ask_pyjwt(drawn.value, _pyjwk(json.dumps(jwk)).key)
        if said is None:
            return None
    return said


def _may_be(jwk: Json, header: Json) -> bool:
    """Whether a key is meant: PyJWT leaves ``use`` and ``key_ops`` to its caller."""
    operations = jwk.get("key_ops", ["verify"])
    asked = header.get("alg")
    alg = jwk.get("alg", asked)
    is_same = alg == asked or (alg in ED25519 and asked in ED25519)
    is_asymmetric = jwk["kty"] != "oct"
    return bool(
        is_asymmetric
        and is_same
        and jwk.get("use", "sig") == "sig"
        and "verify" in operations
        and header.get("kid", jwk["kid"]) == jwk["kid"]
    )


@cache
def _pyjwk(text: str) -> jwt.PyJWK:
    return jwt.PyJWK({name: value for name, value in json.loads(text).items() if name != "alg"})


def _ask_pyjwt(value: bytes, key: Any) -> str | None:
    try:
        claims = jwt.decode(
            value,
            key,
            algorithms=list(ALGORITHMS),
            audience="mgw",
            issuer=ISSUER,
            leeway=30,
            options={"require": ["exp"], "verify_iat": False, "verify_jti": False},
        )
    except jwt.PyJWTError as error:
        return _short(error)
    except (TypeError, ValueError, OverflowError) as error:  # of a key of another type, or of a value
        return f"{_short(error)}, which is not its own"
    return None if claims.get("role") == "dev" else "no rule"


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:60]}"


class Reason(Struct, frozen=True):
    """Why PyJWT has another opinion."""

    what: str
    ours: str | None
    """Our opinion; ``None``: the token is valid."""
    holds: Callable[[DrawnToken, Json, Json], bool]
    """Whether it is the reason for a token with this header and these claims."""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_beyond_floats(value: object) -> bool:
    return _is_number(value) and not -1e308 < value < 1e308  # type: ignore[operator]  # a number


REASONS: Final = (
    Reason("it does not know the name Ed25519", None, lambda _, header, __: header["alg"] == "Ed25519"),
    Reason(
        "b64 without crit is an extension that nobody has to know",
        None,
        lambda _, header, __: "b64" in header,
    ),
    Reason("it takes padding", NOT_A_TOKEN, lambda drawn, _, __: drawn.value.endswith(b"=")),
    Reason("it does not look at unused bits", "malformed", lambda drawn, _, __: "bits" in drawn.flaws),
    Reason(
        "it takes the last of two values", "malformed", lambda drawn, _, __: "a name twice" in drawn.flaws
    ),
    Reason("it takes any size", "malformed", lambda drawn, _, __: len(drawn.value) > MAX_TOKEN_BYTES),
    Reason(
        "it takes half a character", "malformed", lambda drawn, _, __: ("sub", '"\\ud800"') in drawn.flaws
    ),
    Reason(
        "it takes a number that is infinite",
        "malformed",
        lambda drawn, _, __: ("nbf", "-1e400") in drawn.flaws,
    ),
    Reason(
        "it takes an exp that is text", "expired", lambda _, __, claims: not _is_number(claims.get("exp"))
    ),
    Reason(
        "it takes an exp beyond floats", "expired", lambda _, __, claims: _is_beyond_floats(claims.get("exp"))
    ),
    Reason(
        "it takes an nbf that is no number",
        "not_yet_valid",
        lambda _, __, claims: not _is_number(claims["nbf"]),
    ),
    Reason(
        "it asks nobody who the client is",
        "claims",
        lambda _, __, claims: claims.get("sub") not in ("ann", "é"),
    ),
    Reason("without an id any key may have signed", "unknown_key", lambda _, header, __: "kid" not in header),
)


def reason_of(drawn: DrawnToken, ours: str | None) -> str | None:
    """Return why PyJWT has another opinion; ``None``: nobody knows."""
    header, claims = (json.loads(_lenient(part)) for part in drawn.value.split(b".")[:2])
    found = (one.what for one in REASONS if one.ours == ours and one.holds(drawn, header, claims))
    return next(found, None)


def compare(drawn: DrawnToken) -> str | None:
    """Verify a token three times; return why PyJWT differs, or ``None``, if it does not.

    :raises AssertionError: where the signature is another one for the library, or nobody knows why PyJWT
        differs.
    """
    ours, theirs = verdict(drawn), verdict_of_pyjwt(drawn)
    if ours in AFTER_SIGNATURE:
        assert has_valid_signature(drawn), drawn
    elif ours == "signature" and drawn.is_usable:
        assert not has_valid_signature(drawn), drawn
    if (ours is None) == (theirs is None):
        return None
    reason = reason_of(drawn, ours)
    assert reason is not None, (ours, theirs, drawn)
    return reason


def draw_many(count: int, seed: int = 0) -> tuple[Counter[str], Counter[str]]:
    """Draw so many tokens; return how often we said what, and how often PyJWT differed for which reason."""
    drawing = Drawing(seed)
    opinions: Counter[str] = Counter()
    differences: Counter[str] = Counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jwt.warnings.RemovedInPyjwt3Warning)
        for _ in range(count):
            drawn = drawing.draw()
            reason = compare(drawn)
            opinions[verdict(drawn) or "valid"] += 1
            if reason is not None:
                differences[reason] += 1
    return opinions, differences


def main(count: int) -> None:
    """Say in how many draws all agree, and why PyJWT differs in the others."""
    opinions, differences = draw_many(count, Random().randrange(2**32))
    for title, counts in (("our opinion", opinions), ("PyJWT differs", differences)):
        for what, number in counts.most_common():
            sys.stdout.write(f"{title}: {what}: {number}\n")
    agreed = count - differences.total()
    sys.stdout.write(
        f"{agreed} of {count} drawn tokens are the same to PyJWT; each other one has its reason\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
