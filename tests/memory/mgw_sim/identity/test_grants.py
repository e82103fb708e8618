"""Tokens on behalf of somebody: what simulated identity providers give for their own tokens."""

from __future__ import annotations

import base64
import json

import pytest

from mgw_sim.identity.grants import opaque_token
from tests.memory.mgw_sim.identity.idp_in_memory import ISSUER, NOW, IdpInMemory, decoded, parts_of, verify

EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
JWT = "urn:ietf:params:oauth:token-type:jwt"


@pytest.fixture
def idp() -> IdpInMemory:
    return IdpInMemory()


def exchange(idp: IdpInMemory, token: str, **more: str) -> tuple[int, dict[str, object]]:
    form = {"grant_type": EXCHANGE, "subject_token": token, "subject_token_type": ACCESS_TOKEN, **more}
    return idp.exchange(**form)


def bear(idp: IdpInMemory, token: str, **more: str) -> tuple[int, dict[str, object]]:
    return idp.exchange(**{"grant_type": BEARER, "assertion": token, **more})


def chat(idp: IdpInMemory, token: str, model: str = "gpt-5") -> int:
    body = json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"content_type": "application/json", "authorization": f"Bearer {token}"}
    return idp.ask("POST", "/v1/chat/completions", body, **headers)[0].status


def test_a_token_is_exchanged_for_one_that_names_its_subject(idp: IdpInMemory) -> None:
    assert exchange(idp, idp.token(claims={"sub": "ann@example.com"})) == (
        200,
        {
            "access_token": "sim-idp-corp-ann~40example.com-1",
            "issued_token_type": ACCESS_TOKEN,
            "token_type": "Bearer",
            "expires_in": 3600,
        },
    )
    assert exchange(idp, idp.token(claims={"sub": "bob"}))[1]["access_token"] == "sim-idp-corp-bob-2"


def test_subjects_cannot_be_taken_for_each_other() -> None:
    names = ("a@b", "a~40b", "a%40b", "a b", "a-1", "ä", "a/b")
    tokens = {opaque_token("corp", name, 1) for name in names}
    assert len(tokens) == len(names)
    assert all(token.isascii() and "%" not in token and " " not in token for token in tokens)


def test_a_signed_token_is_given_if_asked_for(idp: IdpInMemory) -> None:
    status, said = exchange(
        idp, idp.token(claims={"sub": "ann"}), requested_token_type=JWT, audience="models", client_id="mgw"
    )
    token = str(said["access_token"])
    assert (status, said["issued_token_type"]) == (200, JWT)
    verify(token, idp.get("jwks")["keys"][0])
    claims = parts_of(token)[1]
    assert (claims["iss"], claims["sub"], claims["aud"]) == (ISSUER, "ann", "models")
    assert (claims["act"], claims["exp"]) == ({"sub": "mgw"}, NOW + 3600)


@pytest.mark.parametrize("more", [{}, {"requested_token_use": "on_behalf_of", "scope": "api://x/.default"}])
def test_a_token_is_a_grant(idp: IdpInMemory, more: dict[str, str]) -> None:
    status, said = bear(idp, idp.token(claims={"sub": "ann"}), **more)
    assert status == 200
    assert said == {"access_token": "sim-idp-corp-ann-1", "token_type": "Bearer", "expires_in": 3600}


FLAWS = [
    *("none", "no-signature", "hs256-with-public-key", "bad-signature", "foreign-key", "jwk", "jku", "crit"),
    *("no-kid", "unknown-kid", "expired", "wrong-issuer"),
]


class TestRefusals:
    """What is not exchanged, and with which error."""

    @pytest.mark.parametrize("flaw", FLAWS)
    def test_a_flawed_token(self, idp: IdpInMemory, flaw: str) -> None:
        token = idp.token(flaw=flaw)
        assert bear(idp, token)[0:2] == (400, bear(idp, token)[1])
        assert bear(idp, token)[1]["error"] == "invalid_grant"
        assert exchange(idp, token)[1]["error"] == "invalid_request"  # RFC 8693 2.2.2

    @pytest.mark.parametrize("algorithm", ["ES256", "ES512"])
    def test_a_signature_in_der(self, idp: IdpInMemory, algorithm: str) -> None:
        assert bear(idp, idp.token(alg=algorithm))[0] == 200
        assert bear(idp, idp.token(alg=algorithm, flaw="der"))[1]["error"] == "invalid_grant"

    def test_a_signature_that_is_too_long(self, idp: IdpInMemory) -> None:
        signed, _, signature = idp.token(alg="ES256").rpartition(".")
        raw = decoded(signature)
        padded = base64.urlsafe_b64encode(raw[:32] + b"\0" + raw[32:]).rstrip(b"=").decode()
        assert bear(idp, f"{signed}.{signature}")[0] == 200
        assert bear(idp, f"{signed}.{padded}")[1]["error"] == "invalid_grant"

    @pytest.mark.parametrize("token", ["opaque", "a.b.c", "e30.e30.", "W10.W10.AA", "é.é.é", "...."])
    def test_what_is_no_token(self, idp: IdpInMemory, token: str) -> None:
        assert bear(idp, token)[1]["error"] == "invalid_grant"

    @pytest.mark.parametrize(
        "wanted",
        [
            {"without": ["exp"]},
            {"claims": {"exp": True}},
            {"claims": {"exp": "1900000000"}},
            {"payload": f'{{"iss": "{ISSUER}", "exp": NaN}}'},
            {"payload": "[]"},
        ],
        ids=str,
    )
    def test_claims_without_an_end(self, idp: IdpInMemory, wanted: dict[str, object]) -> None:
        assert bear(idp, idp.token(**wanted))[1]["error"] == "invalid_grant"

    def test_a_token_of_another_provider(self, idp: IdpInMemory) -> None:
        body = b'{"claims": {"iss": "%b"}}' % ISSUER.encode()
        other, _ = idp.ask("POST", "/sim/idp/other/token", body, content_type="application/json")
        assert bear(idp, json.loads(other.body)["token"])[1]["error"] == "invalid_grant"

    def test_a_token_ends(self, idp: IdpInMemory) -> None:
        token = idp.token(expires_in=60)
        idp.now += 59
        assert bear(idp, token)[0] == 200
        idp.now += 1
        assert bear(idp, token)[1]["error"] == "invalid_grant"

    def test_a_token_of_a_key_that_has_left_the_set(self, idp: IdpInMemory) -> None:
        token = idp.token()
        idp.set_state("rotate", keep_old=True)
        assert bear(idp, token)[0] == 200
        idp.set_state("rotate")
        assert bear(idp, token)[1]["error"] == "invalid_grant"

    @pytest.mark.parametrize(
        ("form", "error"),
        [
            ({}, "invalid_request"),
            ({"grant_type": "password"}, "unsupported_grant_type"),
            ({"grant_type": BEARER}, "invalid_request"),
            ({"grant_type": EXCHANGE, "subject_token": "GOOD"}, "invalid_request"),
            ({"grant_type": EXCHANGE, "subject_token_type": ACCESS_TOKEN}, "invalid_request"),
            (
                {"grant_type": EXCHANGE, "subject_token": "GOOD", "subject_token_type": "saml2"},
                "invalid_request",
            ),
            (
                {
                    "grant_type": EXCHANGE,
                    "subject_token": "GOOD",
                    "subject_token_type": JWT,
                    "requested_token_type": "saml2",
                },
                "invalid_request",
            ),
            (
                {"grant_type": BEARER, "assertion": "GOOD", "requested_token_use": "other"},
                "invalid_request",
            ),
        ],
    )
    def test_a_request_that_is_wrong(self, idp: IdpInMemory, form: dict[str, str], error: str) -> None:
        token = idp.token()
        status, said = idp.exchange(**{name: value.replace("GOOD", token) for name, value in form.items()})
        assert (status, said["error"]) == (400, error)

    def test_a_client_whose_secret_is_wrong(self, idp: IdpInMemory) -> None:
        status, said = bear(idp, idp.token(), client_id="mgw", client_secret="wrong")
        assert (status, said["error"]) == (401, "invalid_client")

    def test_an_error_that_was_asked_for(self, idp: IdpInMemory) -> None:
        idp.set_state("ok", error="interaction_required")
        assert bear(idp, idp.token())[1]["error"] == "interaction_required"


class TestRecords:
    """What a test sees of exchanges."""

    def test_who_asked_for_whom(self, idp: IdpInMemory) -> None:
        token = idp.token(claims={"sub": "ann"})
        idp.exchange("mgw:secret", grant_type=BEARER, assertion=token)
        bear(idp, "bad", client_id="mgw", client_secret="s")
        bear(idp, token, client_id="mgw")
        bear(idp, token, client_id="mgw", client_assertion="x")
        found = idp.get("state")["exchanges"]
        assert [exchange["client_auth"] for exchange in found] == ["basic", "form", "none", "assertion"]
        assert {exchange["client_id"] for exchange in found} == {"mgw"}
        assert [exchange["subject"] for exchange in found] == ["ann", None, "ann", "ann"]
        assert [exchange["error"] for exchange in found] == [None, "invalid_grant", None, None]
        assert found[0]["access_token"] == "sim-idp-corp-ann-1"
        assert found[0]["form"]["assertion"] == token
        assert idp.get("state")["counts"] == {"token": 4}


class TestVendors:
    """The vendors' routes know the tokens."""

    @pytest.mark.parametrize("kind", [ACCESS_TOKEN, JWT])
    def test_a_token_opens_them_until_it_ends(self, idp: IdpInMemory, kind: str) -> None:
        idp.set_state("ok", expires_in=60)
        _, said = exchange(idp, idp.token(), requested_token_type=kind)
        token = str(said["access_token"])
        assert said["expires_in"] == 60
        assert chat(idp, token, "gpt-5+sim-issued") == 200
        idp.now += 60
        assert chat(idp, token, "gpt-5+sim-issued") == 401

    def test_the_token_of_the_caller_itself_does_not(self, idp: IdpInMemory) -> None:
        idp.ask("PUT", "/_sim/tokens?required=on")
        token = idp.token()
        assert chat(idp, token) == 401
        assert chat(idp, str(exchange(idp, token)[1]["access_token"])) == 200

    def test_tokens_can_be_revoked(self, idp: IdpInMemory) -> None:
        idp.ask("PUT", "/_sim/tokens?required=on")
        token = str(exchange(idp, idp.token())[1]["access_token"])
        idp.ask("DELETE", "/_sim/tokens")
        assert chat(idp, token) == 401
