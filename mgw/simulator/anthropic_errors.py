"""Anthropic's errors: ``{"type": "error", "error": {"type", "message"}, "request_id"}``."""

from typing import Any, Final

from mgw.simulator.answer import Json, Refusal, Unary, dump
from mgw.simulator.checks import Field, Path, Problem, Shape, Trouble, problems

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def error_value(refusal: Refusal, request_id: str) -> Json:
    """The JSON value of a refusal."""
    kind = _TYPES.get(refusal.status) or ("api_error" if refusal.status >= 500 else "invalid_request_error")
    error: Json = {"type": kind, "message": refusal.message}
    if refusal.code is not None:  # the SDK's threads read it, and go on without a thread
        error["details"] = {"error_code": refusal.code, "unsupported": ["thread"]}
    return {"type": "error", "error": error, "request_id": request_id}


def error_answer(refusal: Refusal, request_id: str) -> Unary:
    """The answer for a refusal."""
    return Unary(
        dump(error_value(refusal, request_id)), refusal.status, headers=(("request-id", request_id),)
    )


def spell(path: Path) -> str:
    """A path as Anthropic writes it: ``messages.0.content``."""
    return ".".join(str(step) for step in path)


def require(body: Any, shape: Shape, *, lenient: bool) -> None:  # any JSON value
    """Raise the Refusal for the first problem of a body."""
    for problem in problems(body, Field(("object",), null=False, shape=shape)):
        if not (lenient and problem.trouble is Trouble.UNKNOWN):
            raise refusal_for(problem)


def refusal_for(problem: Problem) -> Refusal:
    """The refusal for a problem."""
    return Refusal(400, f"{spell(problem.path)}: {_words(problem)}")


def _words(problem: Problem) -> str:
    match problem.trouble:
        case Trouble.UNKNOWN:
            return "Extra inputs are not permitted"
        case Trouble.MISSING:
            return "Field required"
        case Trouble.TYPE:
            return f"Input should be {problem.wanted}"
    return f"Input should be {problem.wanted}, got {problem.found}"
