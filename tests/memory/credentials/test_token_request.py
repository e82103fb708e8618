"""Asking an endpoint for a token: what goes out, what may come back, and what its errors say."""

from __future__ import annotations

from base64 import b64decode

import pytest
from twisted.internet import error as connect_errors
from twisted.internet.defer import CancelledError, Deferred

from mgw.credentials.token_request import (
    ERROR_HINTS,
    MAX_RESPONSE_BYTES,
    MAX_SECONDS,
    MIN_SECONDS,
    REQUEST_SECONDS,
    USUAL_SECONDS,
    Encoding,
    TokenEndpoint,
    TokenRequestError,
    TokenResponse,
    basic_authorization,
)
from mgw.nouns.errors import Reason
from mgw.nouns.secret import Secret
from tests.support.deferreds import result_of
from tests.support.token_endpoints import TOKEN_URL, TokenHosts

NAME = "the token endpoint"
FORM: dict[str, str | Secret] = {
    "grant_type": "client_credentials",
    "client_secret": Secret("canary-secret & more"),
    "scope": "a b",
}


@pytest.fixture
def hosts() -> TokenHosts:
    return TokenHosts()


def asked(
    hosts: TokenHosts, url: str = TOKEN_URL, encoding: Encoding = Encoding.FORM
) -> Deferred[TokenResponse]:
    endpoint = TokenEndpoint(hosts.client, url, NAME, encoding=encoding)
    return Deferred.fromCoroutine(endpoint.request(FORM))


def failure_of(waiting: Deferred[TokenResponse]) -> TokenRequestError:
    with pytest.raises(TokenRequestError) as failure:
        result_of(waiting)
    error = failure.value
    assert error.reason is Reason.CREDENTIAL_SOURCE
    assert error.message.startswith(NAME)
    assert "canary" not in error.message + error.detail + repr(error)
    return error


def test_a_token_is_asked_for_by_a_form(hosts: TokenHosts) -> None:
    waiting = asked(hosts, TOKEN_URL + "/?tenant=a%20b")
    post = hosts.newest()
    assert post.line == b"POST /token/?tenant=a%20b"
    assert post.header(b"content-type") == b"application/x-www-form-urlencoded"
    assert post.header(b"accept") == b"application/json"
    assert post.header(b"accept-encoding") == b"identity"
    assert post.header(b"content-length") == str(len(post.body)).encode()
    assert post.form == {
        "grant_type": "client_credentials",
        "client_secret": "canary-secret & more",
        "scope": "a b",
    }
    post.answer_token("t1", refresh_token="r1", id_token="i1", scope="a b", other=[1])
    token = result_of(waiting)
    assert (token.access_token, token.expires_in) == (Secret("t1"), 3600.0)
    assert (token.refresh_token, token.id_token) == (Secret("r1"), Secret("i1"))


def test_a_token_can_be_asked_for_in_json(hosts: TokenHosts) -> None:
    _ = asked(hosts, encoding=Encoding.JSON).addErrback(lambda _: None)
    assert hosts.newest().header(b"content-type") == b"application/json"
    assert hosts.newest().body == (
        b'{"grant_type":"client_credentials","client_secret":"canary-secret & more","scope":"a b"}'
    )


@pytest.mark.parametrize("origin", ["http://[::1]:8080", "http://my_host", "http://127.0.0.1"])
def test_any_host_is_reached(hosts: TokenHosts, origin: str) -> None:
    waiting = asked(hosts, f"{origin}/t")
    hosts.newest(origin).answer_token("t1")
    assert result_of(waiting).access_token == Secret("t1")


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ({}, USUAL_SECONDS),
        ({"expires_in": None}, USUAL_SECONDS),
        ({"expires_in": 90}, 90.0),
        ({"expires_in": 90.5}, 90.5),
        ({"expires_in": "90"}, 90.0),
        ({"expires_in": 0}, MIN_SECONDS),
        ({"expires_in": -5}, MIN_SECONDS),
        ({"expires_in": "-inf"}, MIN_SECONDS),
        ({"expires_in": 10**15}, MAX_SECONDS),
        ({"expires_in": "9" * 5000}, MAX_SECONDS),
        ({"expires_in": "1e300"}, MAX_SECONDS),
    ],
)
def test_a_tokens_life_is_a_number_within_bounds(
    hosts: TokenHosts, said: dict[str, object], seconds: float
) -> None:
    waiting = asked(hosts)
    hosts.newest().answer({"access_token": "t1", **said})
    assert result_of(waiting).expires_in == seconds


@pytest.mark.parametrize("digits", [b"9" * 400, b"1e400", b"1e999999999"])
def test_a_life_beyond_any_number_is_bounded_or_refused(hosts: TokenHosts, digits: bytes) -> None:
    waiting = asked(hosts)
    hosts.newest().answer(b'{"access_token": "t1", "expires_in": %b}' % digits)
    try:
        assert result_of(waiting).expires_in == MAX_SECONDS
    except TokenRequestError as error:
        assert "not a JSON object" in error.message  # noqa: PT017  either is right


@pytest.mark.parametrize("life", ["soon", "nan", [], {}, True, ""])
def test_a_life_that_is_no_number_is_an_error(hosts: TokenHosts, life: object) -> None:
    waiting = asked(hosts)
    hosts.newest().answer({"access_token": "canary-token", "expires_in": life})
    assert "expires_in is not a number" in failure_of(waiting).message


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "access_token is missing"),
        ({"access_token": ""}, "access_token is missing"),
        ({"access_token": ["canary"]}, "access_token is missing or not a string"),
        ({"access_token": "canary two"}, "characters that a token cannot have"),
        ({"access_token": "canary\r\nx: y"}, "characters that a token cannot have"),
        ({"access_token": "canary\u00e9"}, "characters that a token cannot have"),
        ({"access_token": "c" * 70_000}, "longer than 65536 bytes"),
        ({"access_token": "canary", "token_type": "mac"}, "token_type is not Bearer"),
        ({"access_token": "canary", "token_type": ["canary"]}, "token_type is not Bearer"),
        ({"access_token": "canary", "refresh_token": 7}, "refresh_token is missing or not a string"),
        ([], "not a JSON object"),
        (b"", "not a JSON object"),
        (b"<html>canary</html>", "not a JSON object"),
        (b'{"access_token": "canary", "expires_in": NaN}', "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"\xff\xfe", "not a JSON object"),
    ],
)
def test_a_response_without_a_token_that_can_be_sent_is_an_error(
    hosts: TokenHosts, body: object, said: str
) -> None:
    waiting = asked(hosts)
    hosts.newest().answer(body)
    error = failure_of(waiting)
    assert said in error.message
    assert error.response_status == 200


@pytest.mark.parametrize("token_type", ["Bearer", "bearer", "BEARER", "N_A", None])
def test_a_bearer_token_is_one_however_it_is_spelled(hosts: TokenHosts, token_type: str | None) -> None:
    waiting = asked(hosts)
    hosts.newest().answer_token("t1", token_type=token_type)
    assert result_of(waiting).access_token == Secret("t1")


@pytest.mark.parametrize("error", ERROR_HINTS)
@pytest.mark.parametrize("status", [200, 400, 401])
def test_an_error_code_of_the_standards_is_told_with_what_to_do(
    hosts: TokenHosts, error: str, status: int
) -> None:
    waiting = asked(hosts)
    hosts.newest().refuse(error, status)
    failure = failure_of(waiting)
    assert failure.message == f"{NAME} answered {status} {error}: {ERROR_HINTS[error]}"
    assert (failure.response_status, failure.error_code) == (status, error)
    assert failure.detail == "http://idp.example"


@pytest.mark.parametrize("error", ["canary", ["invalid_grant"], {"canary": 1}, 7, None])
def test_any_other_error_code_is_not_repeated(hosts: TokenHosts, error: object) -> None:
    waiting = asked(hosts)
    hosts.newest().answer({"error": error, "access_token": "canary"}, 400)
    failure = failure_of(waiting)
    assert failure.message == f"{NAME} answered 400: check its URL and the settings of the request"
    assert failure.error_code is None


@pytest.mark.parametrize(
    ("status", "said"), [(429, "too many requests"), (500, "an internal error"), (503, "an internal error")]
)
def test_a_fault_of_the_endpoint_is_told_as_such(hosts: TokenHosts, status: int, said: str) -> None:
    waiting = asked(hosts)
    hosts.newest().answer({}, status)
    assert said in failure_of(waiting).message


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(hosts: TokenHosts, status: int) -> None:
    waiting = asked(hosts)
    hosts.newest().answer({"access_token": "t"}, status, "Location: http://other.example/canary\r\n")
    assert "redirect" in failure_of(waiting).message
    assert list(hosts.endpoints) == ["http://idp.example"]


def test_a_response_is_read_up_to_a_limit(hosts: TokenHosts) -> None:
    waiting = asked(hosts)
    connection = hosts.newest().connection
    connection.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(MAX_RESPONSE_BYTES // 0x4000 + 1):
        connection.send(b"4000\r\n" + b" " * 0x4000 + b"\r\n")
    assert "more than" in failure_of(waiting).message
    assert connection.aborted


@pytest.mark.parametrize("more", [0, 1])
def test_a_response_may_have_so_many_bytes(hosts: TokenHosts, more: int) -> None:
    waiting = asked(hosts)
    body = b'{"access_token":"t"}'.ljust(MAX_RESPONSE_BYTES + more)
    hosts.newest().connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    if more:
        assert "more than" in failure_of(waiting).message
    else:
        assert result_of(waiting).access_token == Secret("t")


def test_an_endpoint_has_20_seconds_for_its_whole_response(hosts: TokenHosts) -> None:
    waiting = asked(hosts)
    connection = hosts.newest().connection
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    hosts.clock.advance(REQUEST_SECONDS - 1)
    connection.send(b" ")
    assert not waiting.called
    hosts.clock.advance(1)
    assert "within 20 s" in failure_of(waiting).message
    assert connection.aborted


@pytest.mark.parametrize(
    ("refusal", "word"),
    [
        (connect_errors.ConnectionRefusedError(), "refused_connection"),
        (connect_errors.DNSLookupError(), "dns"),
    ],
)
def test_an_endpoint_that_cannot_be_reached_is_told_with_the_cause(
    hosts: TokenHosts, refusal: Exception, word: str
) -> None:
    hosts.endpoint().refusal = refusal
    failure = failure_of(asked(hosts))
    assert f"cannot be reached ({word})" in failure.message
    assert failure.response_status is None


def test_a_response_that_breaks_off_is_an_error(hosts: TokenHosts) -> None:
    waiting = asked(hosts)
    connection = hosts.newest().connection
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
    connection.reset()
    assert "cannot be reached" in failure_of(waiting).message


@pytest.mark.parametrize("moment", [0, REQUEST_SECONDS])
def test_a_request_that_is_cancelled_closes_its_connection(hosts: TokenHosts, moment: float) -> None:
    begun: list[Deferred[TokenResponse]] = []

    def stop() -> None:
        begun[0].cancel()

    hosts.clock.callLater(moment, stop)  # before the request's own limit has its turn
    begun.append(waiting := asked(hosts))
    hosts.clock.advance(moment)
    with pytest.raises(CancelledError):
        result_of(waiting)
    assert hosts.newest().connection.aborted
    assert not hosts.clock.getDelayedCalls()


def test_a_client_shows_itself_with_both_halves_encoded() -> None:
    name, value = basic_authorization("my client", Secret("a:b%+é"))
    assert name == b"Authorization"
    assert b64decode(value.removeprefix(b"Basic ")) == b"my+client:a%3Ab%25%2B%C3%A9"  # RFC 6749 2.3.1


def test_nothing_of_a_token_prints() -> None:
    token = TokenResponse(Secret("canary"), 1.0, Secret("canary"), Secret("canary"))
    assert "canary" not in repr(token)
