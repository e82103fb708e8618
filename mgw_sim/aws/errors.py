"""AWS's errors: a type in ``x-amzn-errortype``, and ``{"message": …}``.

Sources: botocore's service models ``bedrock-runtime/2023-09-30`` and ``sts/2011-06-15``, its ``parsers.py``.
"""

from typing import Final
from xml.sax.saxutils import escape

from mgw_sim.api import ApiError, UnaryResponse, dump_json

STATUSES: Final = {
    "ValidationException": 400,
    "ConflictException": 400,
    "ServiceQuotaExceededException": 400,
    "MissingAuthenticationTokenException": 403,
    "UnrecognizedClientException": 403,
    "InvalidSignatureException": 403,
    "ExpiredTokenException": 403,
    "AccessDeniedException": 403,
    "ResourceNotFoundException": 404,
    "ModelTimeoutException": 408,
    "ModelErrorException": 424,
    "ModelStreamErrorException": 424,
    "ThrottlingException": 429,
    "ModelNotReadyException": 429,
    "InternalServerException": 500,
    "ServiceUnavailableException": 503,
}
_TYPES: Final = {
    400: "ValidationException",
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    413: "ValidationException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
    529: "ServiceUnavailableException",
}


class AwsError(ApiError):
    """A refusal by its type."""

    def __init__(self, error_type: str, message: str) -> None:
        super().__init__(STATUSES[error_type], message, code=error_type)


def type_of(api_error: ApiError) -> str:
    """The type of an error, which the simulator's other parts know by its status alone."""
    if api_error.code in STATUSES:
        return str(api_error.code)
    usual = "InternalServerException" if api_error.status >= 500 else "ValidationException"
    return _TYPES.get(api_error.status, usual)


def type_header(api_error: ApiError) -> tuple[str, str]:
    """The header with the type of an error."""
    return "x-amzn-errortype", f"{type_of(api_error)}:http://internal.amazon.com/coral/com.amazon.coral/"


def error_response(api_error: ApiError, request_id: str) -> UnaryResponse:
    """The response for an error."""
    headers = (("x-amzn-requestid", request_id), type_header(api_error))
    return UnaryResponse(dump_json({"message": api_error.message}), api_error.status, headers=headers)


def xml_error_response(code: str, message: str, status: int = 403) -> UnaryResponse:
    """The response for an error of STS, which speaks XML."""
    text = (
        '<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">\n'
        f"  <Error>\n    <Type>Sender</Type>\n    <Code>{escape(code)}</Code>\n"
        f"    <Message>{escape(message)}</Message>\n  </Error>\n"
        "  <RequestId>01234567-89ab-cdef-0123-456789abcdef</RequestId>\n</ErrorResponse>\n"
    )
    return UnaryResponse(text.encode(), status, "text/xml")
