"""Bedrock's InvokeModel for Claude, CountTokens, and the lists of its control plane.

A request is Anthropic's without ``model`` and ``stream``, and with its version and its betas in the body.  A
stream is frames, each with one event in base64.  Sources: botocore's service models
``bedrock-runtime/2023-09-30`` and ``bedrock/2023-04-20``, the Anthropic SDK's ``lib/bedrock``.
"""

import base64
import binascii
import json
import re
from typing import Any, Final

import msgspec

from mgw_sim.anthropic.messages import count_tokens as count_message
from mgw_sim.anthropic.messages import messages
from mgw_sim.api import (
    ApiError,
    Json,
    Request,
    Response,
    StreamResponse,
    UnaryResponse,
    dump_json,
    json_response,
)
from mgw_sim.aws.errors import AwsError
from mgw_sim.aws.event_stream import MEDIA_TYPE, event_frame, exception_frame

_BEDROCK_VERSION: Final = "bedrock-2023-05-31"
_USUAL_VERSION: Final = "2023-06-01"
_PROFILE: Final = re.compile(r"(?:us|eu|apac|jp|au|ca|sa|me|global|us-gov)\.|arn:")
_VENDOR: Final = re.compile(r"(?:(?:us|eu|apac|jp|au|ca|sa|me|global|us-gov)\.)?anthropic\.")
_DATED: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_EVENT: Final = re.compile(rb"event: ([a-z_]+)\ndata: (.*)\n\n", re.DOTALL)
_PADDING: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PAGE: Final = 1000
_MODELS: Final = (
    ("anthropic.claude-3-haiku-20240307-v1:0", "ON_DEMAND", "ACTIVE"),
    ("anthropic.claude-3-opus-20240229-v1:0", "ON_DEMAND", "LEGACY"),
    ("anthropic.claude-sonnet-4-5-20250929-v1:0", "INFERENCE_PROFILE", "ACTIVE"),
)
_PROFILES: Final = (
    ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("us.amazon.nova-pro-v1:0", "amazon.nova-pro-v1:0"),
    ("global.anthropic.claude-opus-5", "anthropic.claude-opus-5"),
)


def invoke(request: Request) -> Response:
    """``POST /model/{id}/invoke``."""
    answered = messages(_message_request(request, request.body))
    assert isinstance(answered, UnaryResponse)
    usage = json.loads(answered.body)["usage"]
    headers = (
        ("X-Amzn-Bedrock-Invocation-Latency", "1"),
        ("X-Amzn-Bedrock-Input-Token-Count", str(usage["input_tokens"])),
        ("X-Amzn-Bedrock-Output-Token-Count", str(usage["output_tokens"])),
    )
    return msgspec.structs.replace(answered, headers=headers)


def invoke_stream(request: Request) -> Response:
    """``POST /model/{id}/invoke-with-response-stream``."""
    accept = request.headers.get("accept", MEDIA_TYPE)
    if not any(kind in accept for kind in (MEDIA_TYPE, "*/*", "application/json")):
        raise AwsError("ValidationException", f"The accept header {accept} is not supported.")
    asked = _message_request(request, {**request.body, "stream": True}, has_stream=True)
    answered = messages(asked)
    assert isinstance(answered, StreamResponse)
    events = [match for match in map(_EVENT.fullmatch, answered.pieces) if match and match[1] != b"ping"]
    frames = [_chunk(request, match[2], is_last=match[1] == b"message_stop") for match in events]
    error = exception_frame("modelStreamErrorException", dump_json({"message": "Overloaded"}))
    headers = (("X-Amzn-Bedrock-Content-Type", "application/json"),)
    return StreamResponse(tuple(_damaged(request, frames)), error, MEDIA_TYPE, headers)


def count_tokens(request: Request) -> Response:
    """``POST /model/{id}/count-tokens``: of foundation models alone."""
    if _PROFILE.match(request.model):
        raise AwsError("ValidationException", "The provided model doesn't support counting tokens.")
    try:
        encoded = request.body["input"]["invokeModel"]["body"]
        inner = json.loads(base64.b64decode(encoded, validate=True))
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise AwsError("ValidationException", "The input of CountTokens is malformed.") from None
    if "max_tokens" not in inner:
        raise AwsError("ValidationException", "max_tokens: Field required")
    asked = _message_request(request, inner)
    messages(asked)  # Bedrock checks the body as one of InvokeModel
    without = {name: value for name, value in asked.body.items() if name != "max_tokens"}
    answered = count_message(msgspec.structs.replace(asked, body=without))
    assert isinstance(answered, UnaryResponse)
    return json_response({"inputTokens": json.loads(answered.body)["input_tokens"]})


def foundation_models(request: Request) -> Response:
    """``GET /foundation-models``: without pages."""
    region = "us-east-1"
    summaries = [
        {
            "modelArn": f"arn:aws:bedrock:{region}::foundation-model/{model_id}",
            "modelId": model_id,
            "modelName": model_id,
            "providerName": "Anthropic",
            "inputModalities": ["TEXT", "IMAGE"],
            "outputModalities": ["TEXT"],
            "responseStreamingSupported": True,
            "customizationsSupported": [],
            "inferenceTypesSupported": [inference],
            "modelLifecycle": {"status": status},
        }
        for model_id, inference, status in _MODELS
        if request.query.get("byProvider", "anthropic").lower() == "anthropic"
    ]
    return json_response({"modelSummaries": summaries})


def inference_profiles(request: Request) -> Response:
    """``GET /inference-profiles``, page by page; ``sim-models-N`` has N of them."""
    count = request.faults.number("models")
    more = [(f"us.anthropic.echo-{number:05d}", "anthropic.echo") for number in range(count or 0)]
    found = more or list(_PROFILES)
    size = int(request.query.get("maxResults", _PAGE))
    if not 1 <= size <= _PAGE:
        raise AwsError("ValidationException", f"maxResults must be between 1 and {_PAGE}.")
    start = int(request.query.get("nextToken", "0"))
    page = [_profile(*pair) for pair in found[start : start + size]]
    answer: Json = {"inferenceProfileSummaries": page}
    if start + size < len(found):
        answer["nextToken"] = str(start + size)
    return json_response(answer)


def _profile(profile_id: str, model_id: str) -> Json:
    region = "us-east-1"
    return {
        "inferenceProfileName": profile_id,
        "inferenceProfileArn": f"arn:aws:bedrock:{region}:123456789012:inference-profile/{profile_id}",
        "inferenceProfileId": profile_id,
        "models": [{"modelArn": f"arn:aws:bedrock:{region}::foundation-model/{model_id}"}],
        "status": "ACTIVE",
        "type": "SYSTEM_DEFINED",
    }


def _message_request(request: Request, body: Json, *, has_stream: bool = False) -> Request:
    """The request as Anthropic's own API has it."""
    if not _VENDOR.match(request.model) and not request.model.startswith("arn:"):
        raise AwsError("ValidationException", "The provided model identifier is invalid.")
    for name in ("model", "stream"):
        if name in body and not (has_stream and name == "stream" and name not in request.body):
            what = f"#: extraneous key [{name}] is not permitted"
            message = f"Malformed input request: {what}, please reformat your input and try again."
            raise AwsError("ValidationException", message)
    inner = dict(body)
    version = inner.pop("anthropic_version", None)
    if version is None:
        raise AwsError("ValidationException", "anthropic_version: Field required")
    if version != _BEDROCK_VERSION and not (isinstance(version, str) and _DATED.fullmatch(version)):
        raise AwsError("ValidationException", f'anthropic_version: "{version}" is not a valid version')
    headers = {name: value for name, value in request.headers.items() if not name.startswith("anthropic-")}
    headers["anthropic-version"] = _USUAL_VERSION if version == _BEDROCK_VERSION else version
    betas = inner.pop("anthropic_beta", None)
    if betas is not None:
        headers["anthropic-beta"] = ",".join(_betas(betas))
    model = _VENDOR.sub("", request.model, count=1)
    return msgspec.structs.replace(request, body={**inner, "model": model}, headers=headers, model=model)


def _betas(betas: Any) -> list[str]:  # any JSON value
    if not isinstance(betas, list) or not all(isinstance(name, str) for name in betas):
        raise AwsError("ValidationException", "anthropic_beta: Input should be a valid list")
    if any("refused-silently" in name for name in betas):
        raise AwsError("ValidationException", "invalid beta flag")
    refused = [name for name in betas if "refused" in name]
    if refused:
        names = ", ".join(f"`{name}`" for name in refused)
        raise AwsError("ValidationException", f"invalid beta flag: {names}")
    return betas


def _chunk(request: Request, event: bytes, *, is_last: bool) -> bytes:
    """The frame of one event; the last has what the invocation cost."""
    if is_last:
        metrics = {"inputTokenCount": 1, "outputTokenCount": 1, "invocationLatency": 1, "firstByteLatency": 1}
        event = dump_json({**json.loads(event), "amazon-bedrock-invocationMetrics": metrics})
    payload: Json = {"bytes": base64.b64encode(event).decode("ascii")}
    if "pad" in request.faults:
        payload["p"] = _PADDING[: 1 + len(event) % len(_PADDING)]
    return event_frame("chunk", dump_json(payload))


def _damaged(request: Request, frames: list[bytes]) -> list[bytes]:
    """The frames with the faults that were asked for."""
    faults, frames = request.faults, list(frames)
    if "frame-crc" in faults and len(frames) > 1:
        frames[1] = frames[1][:-1] + bytes([frames[1][-1] ^ 1])
    cut = faults.number("frame-cut")
    if cut is not None and cut < len(frames):
        frames[cut:] = [frames[cut][: len(frames[cut]) // 2]]
    exception = faults.text("exception")
    if exception is not None:
        name, _, place = exception.rpartition("-")
        if not name or not place.isdigit():
            raise ApiError(400, "sim-exception: expected NAME-N")
        frames[int(place) :] = [
            exception_frame(name, dump_json({"message": f"The simulator was asked for {name}."}))
        ]
    return frames
