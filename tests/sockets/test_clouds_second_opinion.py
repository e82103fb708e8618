"""What the gateway asks of AWS is what the vendors' own SDKs for AWS ask: same path, same JSON, signed alike.

Each conversation is held twice: by an SDK that calls the simulator itself, and by the vendor's plain SDK
through the gateway.  The simulator verifies both signatures, and has recorded both requests.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import boto3
import openai
import pytest
from openai.providers import bedrock

from tests.support.clouds import (
    AWS_KEY,
    ENVIRON,
    KEY,
    KEY_ID,
    OPUS,
    PROFILE,
    REGION,
    SECRET,
    SONNET,
    TOKEN,
    clouds,
)
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.sdk_conversations import anthropic_client, openai_client
from tests.support.simulator import SeenRequest, SimulatorProcess, start_simulator

_SCOPE: Final = re.compile(r"Credential=(\S+), SignedHeaders=(\S+), Signature=[0-9a-f]{64}")
_KEYS: Final[dict[str, Any]] = {
    "aws_access_key": KEY_ID,
    "aws_secret_key": SECRET,
    "aws_session_token": TOKEN,
    "aws_region": REGION,
    "max_retries": 0,
}
TOOL: Final[dict[str, Any]] = {"name": "get_time", "input_schema": {"type": "object", "properties": {}}}
PNG: Final = "iVBORw0KGgoAAAAAAAAAAAAAAAAAAAAA"
MESSAGES: Final[dict[str, dict[str, Any]]] = {
    "chat": {"messages": [{"role": "user", "content": "Grüße \U0001f600"}]},
    "system": {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "Hello"}],
        "stop_sequences": ["END"],
    },
    "tools": {
        "tools": [TOOL],
        "tool_choice": {"type": "auto"},
        "messages": [
            {"role": "user", "content": "What time is it?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {}}],
            },
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "noon"}],
            },
        ],
    },
    "image": {
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
                    {"type": "text", "text": "see"},
                ],
            }
        ]
    },
    "thinking": {
        "max_tokens": 5000,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "messages": [{"role": "user", "content": "Hello"}],
    },
}
ADAPTIVE: Final = {"thinking": {"thinking": {"type": "adaptive"}, "max_tokens": 5000}}
FIRST: Final = "bedrock-2023-05-31"
whole_and_streamed = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@dataclass(frozen=True)
class Street:
    amazon: SimulatorProcess
    gateway: GatewayProcess

    def both(self, direct: Callable[[], Any], through: Callable[[], Any]) -> tuple[SeenRequest, SeenRequest]:
        """Do both, and return what the simulator has seen and verified of each."""
        self.amazon.clear()
        direct()
        through()
        own, given = self.amazon.requests()
        assert (own.status, given.status) == (200, 200)
        return own, given


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    with start_simulator(AWS_KEY) as amazon, start_gateway(clouds(amazon.url), ENVIRON) as gateway:
        yield Street(amazon, gateway)


def scope(request: SeenRequest) -> str:
    """Return whose key signs, for which day, region and service."""
    match = _SCOPE.search(request.value("authorization") or "")
    assert match is not None
    assert set(match[2].split(";")) >= {"host", "x-amz-date", "x-amz-security-token", "content-type"}
    return match[1]


def assert_alike(own: SeenRequest, given: SeenRequest) -> None:
    assert (given.method, given.target) == (own.method, own.target)
    wanted = own.json()
    if SONNET in given.target:  # an older model: it has the first version alone
        assert wanted["anthropic_version"] != FIRST
        wanted["anthropic_version"] = FIRST
    assert given.json() == wanted
    assert scope(given) == scope(own)
    for name in ("content-type", "x-amz-security-token"):
        assert given.values(name) == own.values(name)


def message(messages: Any, stream: bool, model: str, asked: dict[str, Any], **more: Any) -> None:
    """Ask Anthropic's SDK."""
    fields = {"max_tokens": 99, **asked, **more, "model": model}
    if stream:
        with messages.stream(**fields) as streamed:
            assert streamed.get_final_message().content
    else:
        assert messages.create(**fields).content


@pytest.mark.parametrize("case", MESSAGES)
@pytest.mark.parametrize("model", [SONNET, OPUS, PROFILE])
@whole_and_streamed
def test_invoke_model_as_anthropics_sdk_for_bedrock(
    street: Street, model: str, case: str, stream: bool
) -> None:
    sdk = anthropic.AnthropicBedrock(base_url=street.amazon.url, **_KEYS)
    asked = MESSAGES[case] | (ADAPTIVE.get(case, {}) if model == OPUS else {})
    own, given = street.both(
        lambda: message(sdk.messages, stream, model, asked),
        lambda: message(anthropic_client(street.gateway.url, KEY).messages, stream, f"invoke/{model}", asked),
    )
    assert_alike(own, given)


@whole_and_streamed
def test_betas_and_a_users_profile_as_anthropics_sdk_for_bedrock(street: Street, stream: bool) -> None:
    sdk = anthropic.AnthropicBedrock(base_url=street.amazon.url, **_KEYS)
    plain = anthropic_client(street.gateway.url, KEY)
    asked = {
        **MESSAGES["chat"],
        "betas": ["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"],
        "extra_headers": {"anthropic-user-profile-id": "uprof_1"},
    }
    own, given = street.both(
        lambda: message(sdk.beta.messages, stream, OPUS, asked),
        lambda: message(plain.beta.messages, stream, f"invoke/{OPUS}", asked),
    )
    assert given.json()["anthropic_beta"] == asked["betas"]
    assert_alike(own, given)


@pytest.mark.parametrize("case", MESSAGES)
@whole_and_streamed
def test_messages_as_anthropics_sdk_for_mantle(street: Street, case: str, stream: bool) -> None:
    sdk = anthropic.AnthropicBedrockMantle(base_url=f"{street.amazon.url}/anthropic", **_KEYS)
    plain = anthropic_client(street.gateway.url, KEY)
    asked = MESSAGES[case] | ADAPTIVE.get(case, {})
    own, given = street.both(
        lambda: message(sdk.messages, stream, OPUS, asked),
        lambda: message(plain.messages, stream, f"mantle/{OPUS}", asked),
    )
    assert_alike(own, given)


@pytest.mark.parametrize("speaks", ["chat", "responses"])
@whole_and_streamed
def test_openais_apis_as_openais_provider_for_bedrock(street: Street, speaks: str, stream: bool) -> None:
    provider = bedrock(
        region=REGION,
        base_url=f"{street.amazon.url}/openai/v1",
        access_key_id=KEY_ID,
        secret_access_key=SECRET,
        session_token=TOKEN,
    )

    def ask(sdk: openai.OpenAI, model: str) -> None:
        create: Any = sdk.chat.completions.create if speaks == "chat" else sdk.responses.create
        asked = {"messages" if speaks == "chat" else "input": [{"role": "user", "content": "Grüße"}]}
        answer = create(model=model, stream=stream, **asked)
        if stream:
            assert list(answer)

    own, given = street.both(
        lambda: ask(openai.OpenAI(provider=provider, max_retries=0), "openai.gpt-5.5"),
        lambda: ask(openai_client(street.gateway.url, KEY), "gpt/openai.gpt-5.5"),
    )
    assert_alike(own, given)


def botocore_client(street: Street, service: str) -> Any:  # botocore has no types
    return boto3.client(
        service,
        region_name=REGION,
        endpoint_url=street.amazon.url,
        aws_access_key_id=KEY_ID,
        aws_secret_access_key=SECRET,
        aws_session_token=TOKEN,
    )


@pytest.mark.parametrize("model", [SONNET, PROFILE])
@whole_and_streamed
def test_invoke_model_as_botocore(street: Street, model: str, stream: bool) -> None:
    runtime = botocore_client(street, "bedrock-runtime")
    asked = {"max_tokens": 99, **MESSAGES["chat"]}
    body = json.dumps({"anthropic_version": FIRST, **asked})

    def direct() -> None:
        if stream:
            answer = runtime.invoke_model_with_response_stream(
                modelId=model, body=body, contentType="application/json"
            )
            assert list(answer["body"])
        else:
            assert runtime.invoke_model(modelId=model, body=body, contentType="application/json")[
                "body"
            ].read()

    plain = anthropic_client(street.gateway.url, KEY)
    own, given = street.both(direct, lambda: message(plain.messages, stream, f"invoke/{model}", asked))
    # botocore writes a colon as %3A, which is the same path
    assert (given.method, given.target) == (own.method, own.target.replace("%3A", ":"))
    assert given.json() == own.json() | {"anthropic_version": given.json()["anthropic_version"]}
    assert scope(given) == scope(own)


def test_tokens_are_counted_as_by_botocore(street: Street) -> None:
    runtime = botocore_client(street, "bedrock-runtime")
    body = {"anthropic_version": FIRST, "max_tokens": 1, **MESSAGES["tools"]}
    model = "anthropic.claude-sonnet-4-5-20250929-v1:0"
    plain = anthropic_client(street.gateway.url, KEY)
    own, given = street.both(
        lambda: runtime.count_tokens(modelId=model, input={"invokeModel": {"body": json.dumps(body)}}),
        lambda: plain.messages.count_tokens(model=f"invoke/{SONNET}", **MESSAGES["tools"]),
    )
    assert (given.method, given.target) == (own.method, own.target.replace("%3A", ":"))
    assert scope(given) == scope(own)
    inner = [b64decode(seen.json()["input"]["invokeModel"]["body"]) for seen in (own, given)]
    assert json.loads(inner[1]) == json.loads(inner[0])
