"""Refusals in each dialect's words, against the table of contract 6.2, written out here."""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google.genai import errors as genai_errors

from mgw.dialects import dialect_of
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName

TABLE: dict[Reason, tuple[int, str, str | None, str, str, str]] = {
    # reason: status, openai type, openai code, anthropic type, gemini status, gemini reason
    Reason.MALFORMED: (
        400,
        "invalid_request_error",
        None,
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "MALFORMED",
    ),
    Reason.EDGE_KEY: (
        401,
        "authentication_error",
        "invalid_api_key",
        "authentication_error",
        "UNAUTHENTICATED",
        "INVALID_API_KEY",
    ),
    Reason.INVALID_TOKEN: (
        401,
        "authentication_error",
        "invalid_token",
        "authentication_error",
        "UNAUTHENTICATED",
        "INVALID_TOKEN",
    ),
    Reason.ACCESS_DENIED: (
        403,
        "invalid_request_error",
        "access_denied",
        "permission_error",
        "PERMISSION_DENIED",
        "ACCESS_DENIED",
    ),
    Reason.NO_ISSUER_KEYS: (
        503,
        "server_error",
        "identity_provider_unavailable",
        "overloaded_error",
        "UNAVAILABLE",
        "IDENTITY_PROVIDER_UNAVAILABLE",
    ),
    Reason.NO_PROVIDER_KEY: (
        401,
        "authentication_error",
        "no_provider_key",
        "authentication_error",
        "UNAUTHENTICATED",
        "NO_PROVIDER_KEY",
    ),
    Reason.CAPABILITY_OFF: (
        403,
        "invalid_request_error",
        "unsupported_modality",
        "permission_error",
        "PERMISSION_DENIED",
        "UNSUPPORTED_MODALITY",
    ),
    Reason.UNSUPPORTED_BY_KIND: (
        400,
        "invalid_request_error",
        "unsupported_provider_capability",
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "UNSUPPORTED_PROVIDER_CAPABILITY",
    ),
    Reason.UNKNOWN_MODEL: (
        404,
        "invalid_request_error",
        "model_not_found",
        "not_found_error",
        "NOT_FOUND",
        "MODEL_NOT_FOUND",
    ),
    Reason.UNKNOWN_ROUTE: (
        404,
        "invalid_request_error",
        "not_found",
        "not_found_error",
        "NOT_FOUND",
        "NOT_FOUND",
    ),
    Reason.WRONG_METHOD: (
        405,
        "invalid_request_error",
        "method_not_allowed",
        "not_found_error",
        "NOT_FOUND",
        "METHOD_NOT_ALLOWED",
    ),
    Reason.NO_WEBSOCKET: (
        426,
        "invalid_request_error",
        "websocket_not_supported",
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "WEBSOCKET_NOT_SUPPORTED",
    ),
    Reason.ONLY_WEBSOCKET: (
        426,
        "invalid_request_error",
        "websocket_required",
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "WEBSOCKET_REQUIRED",
    ),
    Reason.ORIGIN: (
        403,
        "invalid_request_error",
        "origin_not_allowed",
        "permission_error",
        "PERMISSION_DENIED",
        "ORIGIN_NOT_ALLOWED",
    ),
    Reason.MISDIRECTED: (
        421,
        "invalid_request_error",
        "misdirected_request",
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "MISDIRECTED_REQUEST",
    ),
    Reason.CLIENT_TOO_SLOW: (
        408,
        "timeout_error",
        "request_timeout",
        "timeout_error",
        "DEADLINE_EXCEEDED",
        "REQUEST_TIMEOUT",
    ),
    Reason.HEAD_TOO_LARGE: (
        431,
        "invalid_request_error",
        "headers_too_large",
        "invalid_request_error",
        "INVALID_ARGUMENT",
        "HEADERS_TOO_LARGE",
    ),
    Reason.BODY_TOO_LARGE: (
        413,
        "invalid_request_error",
        "request_too_large",
        "request_too_large",
        "INVALID_ARGUMENT",
        "REQUEST_TOO_LARGE",
    ),
    Reason.TOO_MANY_SESSIONS: (
        429,
        "rate_limit_error",
        "too_many_sessions",
        "rate_limit_error",
        "RESOURCE_EXHAUSTED",
        "TOO_MANY_SESSIONS",
    ),
    Reason.CLIENT_LIMIT: (
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limit_error",
        "RESOURCE_EXHAUSTED",
        "RATE_LIMIT_EXCEEDED",
    ),
    Reason.CLIENT_BUDGET: (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "billing_error",
        "RESOURCE_EXHAUSTED",
        "INSUFFICIENT_QUOTA",
    ),
    Reason.MODEL_NOT_PRICED: (
        403,
        "invalid_request_error",
        "model_not_priced",
        "permission_error",
        "PERMISSION_DENIED",
        "MODEL_NOT_PRICED",
    ),
    Reason.ROUTE_NOT_PRICED: (
        403,
        "invalid_request_error",
        "route_not_priced",
        "permission_error",
        "PERMISSION_DENIED",
        "ROUTE_NOT_PRICED",
    ),
    Reason.NOT_IMPLEMENTED: (
        501,
        "not_implemented",
        "not_implemented",
        "api_error",
        "UNIMPLEMENTED",
        "NOT_IMPLEMENTED",
    ),
    Reason.NO_ACCOUNT: (
        429,
        "rate_limit_error",
        "no_account_available",
        "rate_limit_error",
        "RESOURCE_EXHAUSTED",
        "NO_ACCOUNT_AVAILABLE",
    ),
    Reason.INTERNAL: (500, "server_error", "internal_error", "api_error", "INTERNAL", "INTERNAL_ERROR"),
    Reason.UPSTREAM_BROKEN: (502, "upstream_error", None, "api_error", "UNAVAILABLE", "UPSTREAM_BROKEN"),
    Reason.CREDENTIAL_SOURCE: (
        502,
        "upstream_error",
        "credential_source_failed",
        "api_error",
        "UNAVAILABLE",
        "CREDENTIAL_SOURCE_FAILED",
    ),
    Reason.OVERLOADED: (503, "server_error", "overloaded", "overloaded_error", "UNAVAILABLE", "OVERLOADED"),
    Reason.DRAINING: (503, "server_error", "draining", "overloaded_error", "UNAVAILABLE", "DRAINING"),
    Reason.UPSTREAM_TOO_SLOW: (
        504,
        "timeout_error",
        None,
        "timeout_error",
        "DEADLINE_EXCEEDED",
        "UPSTREAM_TOO_SLOW",
    ),
}
GRID = [pytest.param(reason, *row, id=reason.value[0]) for reason, row in TABLE.items()]
OPENAI_DIALECTS = (DialectName.OPENAI_CHAT, DialectName.OPENAI_RESPONSES, DialectName.OPENAI)


def said(dialect: DialectName, error: GatewayError) -> Any:  # Any: JSON
    return json.loads(dialect_of(dialect).render_refusal(error, "req_1"))


def test_the_table_here_has_every_reason() -> None:
    assert set(TABLE) == set(Reason)


@pytest.mark.parametrize(
    ("reason", "status", "openai_type", "code", "anthropic_type", "gemini_status", "gemini_reason"), GRID
)
def test_each_refusal_is_said_as_the_contract_has_it(
    reason: Reason,
    status: int,
    openai_type: str,
    code: str | None,
    anthropic_type: str,
    gemini_status: str,
    gemini_reason: str,
) -> None:
    error = GatewayError(reason, "do otherwise")
    for dialect in OPENAI_DIALECTS:
        assert said(dialect, error) == {
            "error": {"message": "do otherwise", "type": openai_type, "param": None, "code": code}
        }
    assert said(DialectName.ANTHROPIC, error) == {
        "type": "error",
        "error": {"type": anthropic_type, "message": "do otherwise"},
        "request_id": "req_1",
    }
    assert said(DialectName.GEMINI, error) == {
        "error": {
            "code": status,
            "message": "do otherwise",
            "status": gemini_status,
            "details": [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": gemini_reason,
                    "domain": "mgw",
                }
            ],
        }
    }


def test_an_error_of_its_own_code_keeps_it() -> None:
    error = GatewayError(Reason.NOT_IMPLEMENTED, "no bridge", code="unsupported_realtime_bridge")
    openai_error = said(DialectName.OPENAI, error)["error"]
    assert (openai_error["type"], openai_error["code"]) == ("not_implemented", "unsupported_realtime_bridge")
    assert said(DialectName.GEMINI, error)["error"]["details"][0]["reason"] == "UNSUPPORTED_REALTIME_BRIDGE"


def test_openai_clients_learn_the_field_at_fault() -> None:
    error = GatewayError(Reason.MALFORMED, "name a model", param="model")
    assert said(DialectName.OPENAI_CHAT, error)["error"]["param"] == "model"


@pytest.mark.parametrize("dialect", DialectName)
def test_a_quoted_lone_surrogate_does_not_break_the_refusal(dialect: DialectName) -> None:
    error = GatewayError(Reason.UNKNOWN_MODEL, "no model is named 'a\ud800'", param="a\ud800")
    assert "no model is named 'a?'" in json.dumps(said(dialect, error))


def answering(reason: Reason, dialect: DialectName) -> httpx2.MockTransport:
    """An upstream end that says one refusal to whoever asks."""
    error = GatewayError(reason, "do otherwise", param="model")
    body = dialect_of(dialect).render_refusal(error, "req_1")

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(error.status, content=body, headers={"content-type": "application/json"})

    return httpx2.MockTransport(answer)


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value[0])
def test_openais_sdk_reads_the_refusal(reason: Reason) -> None:
    http = httpx2.Client(transport=answering(reason, DialectName.OPENAI))
    client = openai.OpenAI(api_key="k", http_client=http, max_retries=0)
    with client, pytest.raises(openai.APIStatusError) as caught:
        client.models.list()
    raised = caught.value
    status, kind, code = TABLE[reason][:3]
    assert (raised.status_code, raised.type, raised.code, raised.param) == (status, kind, code, "model")
    assert isinstance(raised.body, dict)
    assert raised.body["message"] == "do otherwise"


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value[0])
def test_anthropics_sdk_reads_the_refusal(reason: Reason) -> None:
    http = httpx2.Client(transport=answering(reason, DialectName.ANTHROPIC))
    client = anthropic.Anthropic(api_key="k", http_client=http, max_retries=0)
    with client, pytest.raises(anthropic.APIStatusError) as caught:
        client.models.list()
    raised = caught.value
    assert (raised.status_code, raised.type) == (TABLE[reason][0], TABLE[reason][3])
    assert raised.api_message == "do otherwise"
    assert isinstance(raised.body, dict)
    assert raised.body["request_id"] == "req_1"


@pytest.mark.parametrize("reason", Reason, ids=lambda reason: reason.value[0])
def test_googles_sdk_reads_the_refusal(reason: Reason) -> None:
    status = TABLE[reason][0]
    body = said(DialectName.GEMINI, GatewayError(reason, "do otherwise"))
    with pytest.raises(genai_errors.APIError) as caught:
        genai_errors.APIError.raise_error(status, body, None)
    raised = caught.value
    assert (raised.code, raised.status, raised.message) == (status, TABLE[reason][4], "do otherwise")
