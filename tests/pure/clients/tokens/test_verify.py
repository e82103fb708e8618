"""Which tokens are valid, in which order they are checked, and what follows from a valid one."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mgw.clients.tokens.verify import TokenError, check_before_key, verify_token
from mgw.nouns.token_flaw import TokenFlaw
from tests.support.signed_tokens import (
    ALGORITHMS,
    ENTRY,
    ISSUER,
    NOW,
    claims_with,
    entry_with,
    flaw_of,
    jwk_of,
    key_for,
    keys_for,
    keys_of,
    make_token,
    parsed,
    verified,
)

HEADER: Final = {"alg": "RS256", "kid": "k1"}


def flaw_with(**claims: object) -> TokenFlaw | None:
    """Return what is wrong with a token that has other claims."""
    return flaw_of(make_token(claims_with(**claims)))


def flaw_with_raw(name: str, value: str) -> TokenFlaw | None:
    """Return what is wrong with a token with a claim as it is written."""
    claims = claims_with(**{name: "VALUE"})
    text = str(claims).replace("'VALUE'", value).replace("'", '"')
    return flaw_of(make_token(text.encode()))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_valid_token_names_its_client(algorithm: str) -> None:
    keys = keys_for(algorithm)
    found = verified(make_token(algorithm=algorithm), keys=keys)
    assert (found.entry, found.value, found.groups, found.tags) == ("corp", "ann", (), ())
    assert (found.until, found.expires) == (NOW + 300 + 30, NOW + 300)
    assert found.thumbprint == keys.keys[0].thumbprint


def test_a_valid_token_shows_only_its_entry() -> None:
    assert repr(verified(make_token())) == "VerifiedToken('corp')"


FLAWS: Final[list[tuple[str, TokenFlaw]]] = [
    ("size", TokenFlaw.MALFORMED),
    ("crit", TokenFlaw.MALFORMED),
    ("typ", TokenFlaw.MALFORMED),
    ("alg", TokenFlaw.ALGORITHM),
    ("no keys", TokenFlaw.KEYS_UNAVAILABLE),
    ("kid", TokenFlaw.UNKNOWN_KEY),
    ("signature", TokenFlaw.SIGNATURE),
    ("exp", TokenFlaw.EXPIRED),
    ("nbf", TokenFlaw.NOT_YET_VALID),
    ("aud", TokenFlaw.AUDIENCE),
    ("sub", TokenFlaw.CLAIMS),
    ("rule", TokenFlaw.NO_RULE),
]
"""What may be wrong, in the order in which it is found."""


def token_with(flaws: list[str]) -> bytes:
    claims: dict[str, Any] = {"nbf": NOW, "email": "ann@example.com"}
    claims |= {"exp": NOW - 31} if "exp" in flaws else {}
    claims |= {"nbf": NOW + 31} if "nbf" in flaws else {}
    claims |= {"aud": "other"} if "aud" in flaws else {}
    claims |= {"sub": ""} if "sub" in flaws else {}
    claims |= {"email": "ann@example.org"} if "rule" in flaws else {}
    claims |= {"padding": "x" * 13_000} if "size" in flaws else {}
    algorithm = "RS384" if "alg" in flaws else "RS256"
    header: dict[str, Any] = {"alg": algorithm, "kid": "k2" if "kid" in flaws else "k1"}
    header |= {"crit": ["exp"]} if "crit" in flaws else {}
    header |= {"typ": "JWT" if "typ" in flaws else "at+jwt"}
    made = make_token(claims_with(**claims), header, algorithm=algorithm)
    return made[:-8] + b"AAAAAAAA" if "signature" in flaws else made


@pytest.mark.parametrize("first", range(len(FLAWS)), ids=[name for name, _ in FLAWS])
def test_the_first_check_that_fails_is_the_reason(first: int) -> None:
    entry = entry_with(typ=["at+jwt"], algorithms=["RS256"], rules=[{"when": {"email": "*@example.com"}}])
    for last in range(first + 1, len(FLAWS) + 1):
        flaws = [name for name, _ in FLAWS[first:last]]
        keys = None if "no keys" in flaws else keys_for()
        with pytest.raises(TokenError) as caught:
            verify_token(parsed(token_with(flaws)), entry, keys, NOW)
        assert caught.value.flaw is FLAWS[first][1], flaws
    assert flaw_of(token_with([]), entry) is None


def test_what_needs_no_key_can_be_checked_before_there_is_one() -> None:
    check_before_key(parsed(token_with(["kid", "signature", "exp", "nbf", "aud", "sub", "rule"])), ENTRY)
    for flaws, flaw in ((["size", "alg"], TokenFlaw.MALFORMED), (["alg"], TokenFlaw.ALGORITHM)):
        with pytest.raises(TokenError) as caught:
            check_before_key(parsed(token_with(flaws)), entry_with(algorithms=["RS256"]))
        assert caught.value.flaw is flaw


def test_a_token_of_another_issuer_is_not_verified() -> None:
    assert flaw_of(make_token(claims_with(iss=ISSUER + "/"))) is TokenFlaw.MALFORMED
    assert flaw_of(make_token(claims_with(iss=None))) is TokenFlaw.MALFORMED


@pytest.mark.parametrize("crit", [["exp"], [], None, ["b64"], {}, "exp"])
def test_nothing_may_be_critical(crit: object) -> None:
    assert flaw_of(make_token(header=HEADER | {"crit": crit})) is TokenFlaw.MALFORMED


@pytest.mark.parametrize(
    ("typ", "is_accepted"),
    [
        *(("at+jwt", True), ("AT+JWT", True), ("application/at+jwt", True), ("Application/At+Jwt", True)),
        *(("JWT", False), ("", False), (None, False), (["at+jwt"], False), ("at+jwt ", False), ("at", False)),
        *(("application/application/at+jwt", False), ("text/at+jwt", False), ("logout+jwt", False)),
    ],
)
@pytest.mark.parametrize("setting", ["at+jwt", "application/AT+jwt"])
def test_the_type_is_compared_without_case_and_prefix(typ: object, is_accepted: bool, setting: str) -> None:
    entry = entry_with(typ=["secevent+jwt", setting])
    flaw = None if is_accepted else TokenFlaw.MALFORMED
    assert flaw_of(make_token(header=HEADER | {"typ": typ}), entry) is flaw
    assert flaw_of(make_token(header=HEADER), entry) is TokenFlaw.MALFORMED


@pytest.mark.parametrize("typ", ["JWT", "at+jwt", "", 5, None])
def test_without_the_setting_any_type_is_accepted(typ: object) -> None:
    assert flaw_of(make_token(header=HEADER | {"typ": typ})) is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_only_the_algorithms_of_the_entry_are_accepted(algorithm: str) -> None:
    keys, token = keys_for(algorithm), make_token(algorithm=algorithm)
    name = "EdDSA" if algorithm == "Ed25519" else algorithm
    assert flaw_of(token, entry_with(algorithms=[name]), keys) is None
    others = [one for one in ALGORITHMS if one not in (name, "Ed25519")]
    assert flaw_of(token, entry_with(algorithms=others), keys) is TokenFlaw.ALGORITHM


def test_a_token_without_a_key_id_is_valid_if_exactly_one_key_suits() -> None:
    token = make_token(header={"alg": "RS256"})
    mine, other = jwk_of(key_for("RS256"), kid="k1"), jwk_of(key_for("RS256", 2), kid="k2")
    assert flaw_of(token, keys=keys_of(mine)) is None
    assert flaw_of(token, keys=keys_of(mine, jwk_of(key_for("ES256")))) is None
    assert flaw_of(token, keys=keys_of(mine, other)) is TokenFlaw.UNKNOWN_KEY
    assert flaw_of(token, keys=keys_of(other)) is TokenFlaw.SIGNATURE


@pytest.mark.parametrize("kid", [None, 1, ["k1"], {}, True])
def test_the_id_of_a_key_is_text(kid: object) -> None:
    assert flaw_of(make_token(header=HEADER | {"kid": kid})) is TokenFlaw.MALFORMED


def test_each_of_few_keys_with_one_id_is_tried() -> None:
    keys = keys_of(*(jwk_of(key_for("RS256", serial), kid="k1") for serial in (2, 1, 3)))
    found = verified(make_token(), keys=keys)
    assert found.thumbprint == keys_for().keys[0].thumbprint
    assert flaw_of(make_token(key=key_for("RS256", 4)), keys=keys) is TokenFlaw.SIGNATURE


def test_the_algorithm_of_a_key_holds() -> None:
    token = make_token(algorithm="RS384")
    assert flaw_of(token, keys=keys_for(alg="RS384")) is None
    assert flaw_of(token, keys=keys_for(alg="RS256")) is TokenFlaw.UNKNOWN_KEY


@pytest.mark.parametrize(
    ("exp", "flaw"),
    [
        ("1800000300", None),
        ("1.8000003e9", None),
        ("1800000300.5", None),
        ("1799999970.5", None),
        ("1799999971", None),
        ("1799999970", TokenFlaw.EXPIRED),
        ("1799999969.9", TokenFlaw.EXPIRED),
        ("1e300", None),
        ("1" + "0" * 400, TokenFlaw.EXPIRED),
        ("1" + "0" * 300, None),
        ("0", TokenFlaw.EXPIRED),
        ("-1", TokenFlaw.EXPIRED),
        ("-1e300", TokenFlaw.EXPIRED),
        ("true", TokenFlaw.EXPIRED),
        ("null", TokenFlaw.EXPIRED),
        ('"1800000300"', TokenFlaw.EXPIRED),
        ('"NaN"', TokenFlaw.EXPIRED),
        ('""', TokenFlaw.EXPIRED),
        ("[1800000300]", TokenFlaw.EXPIRED),
        ("{}", TokenFlaw.EXPIRED),
        ("NaN", TokenFlaw.MALFORMED),
        ("Infinity", TokenFlaw.MALFORMED),
        ("1e400", TokenFlaw.MALFORMED),
        ("1" * 5_000, TokenFlaw.MALFORMED),
    ],
)
def test_a_token_says_as_a_number_when_it_expires(exp: str, flaw: TokenFlaw | None) -> None:
    assert flaw_with_raw("exp", exp) is flaw


def test_a_token_without_an_end_is_not_valid() -> None:
    assert flaw_with(exp=None) is TokenFlaw.EXPIRED


@pytest.mark.parametrize("skew", [0, 30, 300])
def test_the_clocks_may_differ_by_so_much(skew: int) -> None:
    entry, token = entry_with(clock_skew=skew), make_token(claims_with(exp=NOW, nbf=NOW))
    assert verified(token, entry).until == NOW + skew if skew else flaw_of(token, entry) is TokenFlaw.EXPIRED
    ends = make_token(claims_with(exp=NOW - skew))
    assert flaw_of(ends, entry, now=NOW - 0.001) is None
    assert flaw_of(ends, entry, now=NOW) is TokenFlaw.EXPIRED
    begins = make_token(claims_with(nbf=NOW + skew))
    assert flaw_of(begins, entry, now=NOW - 0.001) is TokenFlaw.NOT_YET_VALID
    assert flaw_of(begins, entry, now=NOW) is None


@pytest.mark.parametrize(
    ("nbf", "flaw"),
    [
        ("0", None),
        ("-1e300", None),
        ("1800000030", None),
        ("1800000030.5", TokenFlaw.NOT_YET_VALID),
        ("1e300", TokenFlaw.NOT_YET_VALID),
        ("1" + "0" * 400, TokenFlaw.NOT_YET_VALID),
        ("-1" + "0" * 400, TokenFlaw.NOT_YET_VALID),
        ("false", TokenFlaw.NOT_YET_VALID),
        ("null", TokenFlaw.NOT_YET_VALID),
        ('"0"', TokenFlaw.NOT_YET_VALID),
        ("[0]", TokenFlaw.NOT_YET_VALID),
        ("NaN", TokenFlaw.MALFORMED),
    ],
)
def test_a_token_may_say_as_a_number_when_it_begins(nbf: str, flaw: TokenFlaw | None) -> None:
    assert flaw_with_raw("nbf", nbf) is flaw


@pytest.mark.parametrize(
    ("aud", "is_ours"),
    [
        ("mgw", True),
        (["mgw"], True),
        (["other", "mgw"], True),
        (["api://mgw"], True),
        ("MGW", False),
        ("mgw ", False),
        ("mg", False),
        ("xmgwx", False),
        ("", False),
        (None, False),
        ([], False),
        ([["mgw"]], False),
        (["mgw", 5], False),
        (["mgw", None], False),
        ({"mgw": 1}, False),
        (True, False),
        ("*", False),
    ],
)
def test_one_audience_must_be_ours(aud: object, is_ours: bool) -> None:
    entry = entry_with(audience=["mgw", "api://mgw"])
    assert flaw_of(make_token(claims_with(aud=aud)), entry) is (None if is_ours else TokenFlaw.AUDIENCE)


def test_no_other_claim_is_an_audience() -> None:
    assert flaw_with(aud=None, azp="mgw", client_id="mgw") is TokenFlaw.AUDIENCE


@pytest.mark.parametrize(
    "value", ["a", "ann@example.com", "repo:a/b:ref:refs/heads/x", " ", "é", "名前", "x" * 256]
)
def test_text_names_a_client(value: str) -> None:
    assert verified(make_token(claims_with(sub=value))).value == value


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "x" * 257,
            "é" * 257,
            "a\nb",
            "a\rb",
            "a\0",
            "\t",
            "\x1b[31m",
            "a\x7f",
            "a\x80",
            "a\x9f",
            "a\x85b",
        ),
        *("a\u2028b", "a\u2029b", "a\u202eb", "\u202aa", "a\u2066b", "a\u2069"),
        *(1, 1.5, True, ["ann"], {"a": "b"}, [], None),
    ],
)
def test_anything_else_does_not_name_a_client(value: object) -> None:
    claims = claims_with() | {"sub": value}
    assert flaw_of(make_token(claims)) is TokenFlaw.CLAIMS


def test_the_client_may_be_in_another_claim() -> None:
    claims = claims_with(sub=None, a={"b": ["x", "bob"]}, email="bob@example.com")
    assert verified(make_token(claims), entry_with(client="/a/b/1")).value == "bob"
    assert verified(make_token(claims), entry_with(client="email")).value == "bob@example.com"
    assert flaw_of(make_token(claims)) is TokenFlaw.CLAIMS


RULES: Final = [
    {"when": {"/realm_access/roles": ["research", "admin"], "email_verified": True}, "groups": ["a", "b"]},
    {"when": {"email": "*@example.com"}},
    {"when": {"email": "*"}, "groups": ["c"]},
]


@pytest.mark.parametrize(
    ("claims", "groups"),
    [
        ({"realm_access": {"roles": ["x", "admin"]}, "email_verified": True}, ("a", "b")),
        ({"realm_access": {"roles": "admin"}, "email_verified": True, "email": "a@b"}, ("a", "b")),
        ({"realm_access": {"roles": ["admin"]}, "email_verified": "true", "email": "a@b"}, ("c",)),
        ({"realm_access": {"roles": ["admin"]}, "email": "a@example.com"}, ()),
        ({"email": "a@EXAMPLE.com"}, ("c",)),
        ({"email": ["x", "a@example.com"]}, ()),
        ({"email": None}, None),
        ({"realm_access": {"roles": ["admin"]}}, None),
        ({}, None),
    ],
)
def test_the_first_rule_that_holds_counts(claims: dict[str, Any], groups: tuple[str, ...] | None) -> None:
    token, entry = make_token(claims_with() | claims), entry_with(rules=RULES)
    if groups is None:
        assert flaw_of(token, entry) is TokenFlaw.NO_RULE
    else:
        assert verified(token, entry).groups == groups


@pytest.mark.parametrize(
    ("value", "tag"),
    [
        ("nlp", "nlp"),
        ("", ""),
        ("x" * 300, "x" * 256),
        (4711, "4711"),
        (-1.5, "-1.5"),
        (10**300, str(10**300)[:256]),
        (True, "true"),
        (False, "false"),
        ("a\nb\x7f\u2028", "a\ufffdb\ufffd\ufffd"),
        (None, None),
        (["a"], None),
        ({"a": 1}, None),
    ],
)
def test_claims_give_tags(value: object, tag: str | None) -> None:
    entry = entry_with(tags={"cost_center": "/a/b", "team": "team", "none": "nowhere"})
    claims = claims_with(team="t") | {"a": {"b": value}}
    expected = (("team", "t"),) if tag is None else (("cost_center", tag), ("team", "t"))
    assert verified(make_token(claims), entry).tags == expected


def test_no_refusal_shows_a_value_of_the_token_or_the_configuration() -> None:
    entry = entry_with(audience="secret-audience", client="secret_claim", rules=[{"when": {"x": "secret"}}])
    said = set()
    for claims in ({}, {"aud": "secret-audience"}, {"aud": "secret-audience", "secret_claim": "secret-name"}):
        with pytest.raises(TokenError) as caught:
            verified(make_token(claims_with(**claims)), entry)
        said.add(caught.value.what)
    assert len(said) == 3
    assert not any("secret" in what or '"' in what or "\\" in what for what in said)
