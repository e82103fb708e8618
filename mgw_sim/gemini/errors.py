"""Google's errors: ``{"error": {"code", "message", "status", "details"}}``."""

import json
import re
from typing import Final

from mgw_sim.api import ApiError, Json, UnaryResponse
from mgw_sim.validation import Path, Problem, ProblemKind

_STATUSES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
    529: "UNAVAILABLE",
}


def error_value(api_error: ApiError) -> Json:
    """The JSON value of an error: ``code`` as the reason of an ErrorInfo, ``param`` as a field violation."""
    status = _STATUSES.get(api_error.status) or (
        "INTERNAL" if api_error.status >= 500 else "INVALID_ARGUMENT"
    )
    error: Json = {"code": api_error.status, "message": api_error.message, "status": status}
    if api_error.code:
        info = "type.googleapis.com/google.rpc.ErrorInfo"
        error["details"] = [{"@type": info, "reason": api_error.code, "domain": "googleapis.com"}]
    elif api_error.param is not None:
        violation = {"field": api_error.param, "description": api_error.message}
        error["details"] = [
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [violation]}
        ]
    elif api_error.status == 429 and api_error.retry_after is not None:
        retry = {
            "@type": "type.googleapis.com/google.rpc.RetryInfo",
            "retryDelay": f"{api_error.retry_after}s",
        }
        error["details"] = [retry]
    return {"error": error}


def error_response(api_error: ApiError, request_id: str) -> UnaryResponse:  # noqa: ARG001  Google's answers carry none
    """The response for an error."""
    body = json.dumps(error_value(api_error), indent=2).encode() + b"\n"
    return UnaryResponse(body, api_error.status, "application/json; charset=UTF-8")


def _snake_case(name: str) -> str:
    return re.sub(r"[A-Z]", lambda match: f"_{match[0].lower()}", name)


def format_path(path: Path) -> str:
    """A path as Google writes it: ``contents[0].function_call``."""
    path = tuple(step if isinstance(step, int) else _snake_case(step) for step in path)
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")


def error_for(problem: Problem) -> ApiError:
    """The error for a problem, in the words of Google's JSON reader."""
    where = format_path(problem.path[:-1])
    match problem.kind:
        case ProblemKind.UNKNOWN:
            at = f" at '{where}'" if where else ""
            name = problem.path[-1]
            return ApiError(
                400, f'Invalid JSON payload received. Unknown name "{name}"{at}: Cannot find field.', where
            )
        case ProblemKind.MISSING:
            name = format_path(problem.path)
            return ApiError(400, f"* GenerateContentRequest.{name}: {name} is not specified\n", name)
        case ProblemKind.TYPE:
            path = format_path(problem.path)
            message = f"Invalid value at '{path}': expected {problem.wanted}, got {problem.found}"
            return ApiError(400, message, path)
    path = format_path(problem.path)
    return ApiError(400, f"Invalid value at '{path}': {problem.found} is not {problem.wanted}", path)
