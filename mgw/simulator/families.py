"""The three families: where a client's credential stands, and how a refusal is spelt."""

import re
from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct

from mgw.simulator import anthropic_errors, gemini_errors, openai_errors
from mgw.simulator.answer import Family, Refusal, Unary

_BEARER: Final = re.compile(r"(?:Bearer|Token) +(\S.*)", re.IGNORECASE)


class Credential(Struct, frozen=True):
    """What the client showed, and whether it is a token or a key."""

    value: str
    is_token: bool


def credential_of(family: Family, headers: Mapping[str, str], query: Mapping[str, str]) -> Credential | None:
    """The credential that this family's vendor would look at, or None."""
    key = None
    if family is Family.ANTHROPIC:
        key = headers.get("x-api-key")
    elif family is Family.GEMINI:
        key = headers.get("x-goog-api-key") or query.get("key")
    if key:
        return Credential(key, is_token=False)
    bearer = _BEARER.fullmatch(headers.get("authorization", ""))
    return Credential(bearer[1], is_token=True) if bearer else None


def family_of(path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Family:
    """The family of a path that several have, and of one that nobody has."""
    if "anthropic-version" in headers or path.startswith("/v1/messages"):
        return Family.ANTHROPIC
    shows = "x-goog-api-key" in headers or "x-goog-api-client" in headers or "key" in query
    return Family.GEMINI if shows or re.match(r"/v1(beta|alpha)/", path) else Family.OPENAI


REFUSE: Final[Mapping[Family, Callable[[Refusal, str], Unary]]] = {
    Family.OPENAI: openai_errors.error_answer,
    Family.ANTHROPIC: anthropic_errors.error_answer,
    Family.GEMINI: gemini_errors.error_answer,
}


def no_credential(family: Family) -> Refusal:
    """The client showed none."""
    return {
        Family.OPENAI: Refusal(
            401,
            "You didn't provide an API key. You need to provide your API key in an Authorization header "
            "using "
            "Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        ),
        Family.ANTHROPIC: Refusal(401, "x-api-key header is required"),
        Family.GEMINI: Refusal(
            401,
            "Method doesn't allow unregistered callers (callers without established identity). Please use "
            "API Key "
            "or other form of API consumer identity to call this API.",
        ),
    }[family]


def wrong_credential(family: Family, credential: Credential) -> Refusal:
    """The client showed one that the vendor does not know."""
    if family is Family.GEMINI and not credential.is_token:
        return Refusal(400, "API key not valid. Please pass a valid API key.", code="API_KEY_INVALID")
    return {
        Family.OPENAI: Refusal(401, "Incorrect API key provided.", code="invalid_api_key"),
        Family.ANTHROPIC: Refusal(401, "invalid x-api-key"),
        Family.GEMINI: Refusal(
            401, "Request had invalid authentication credentials.", code="ACCESS_TOKEN_TYPE_UNSUPPORTED"
        ),
    }[family]


def unknown_model(family: Family, model: str) -> Refusal:
    """There is no such model."""
    return {
        Family.OPENAI: Refusal(
            404,
            f"The model `{model}` does not exist or you do not have access to it.",
            code="model_not_found",
        ),
        Family.ANTHROPIC: Refusal(404, f"model: {model}"),
        Family.GEMINI: Refusal(
            404,
            f"models/{model} is not found for API version v1beta, or is not supported for generateContent. "
            "Call ListModels to see the list of available models and their supported methods.",
        ),
    }[family]
