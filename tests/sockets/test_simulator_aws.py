"""The simulator's Amazon: judged by botocore and by the vendors' SDKs for Bedrock, over real sockets."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final

import anthropic
import boto3
import botocore.session
import openai
import pytest
from botocore.config import Config
from botocore.credentials import (
    ContainerProvider,
    InstanceMetadataFetcher,
    InstanceMetadataProvider,
)
from botocore.exceptions import ClientError
from botocore.utils import ContainerMetadataFetcher
from openai.providers import bedrock

from tests.support.operations import ask as ask_host
from tests.support.simulator import SimulatorProcess, start_simulator

KEY: Final = "AKIASIMULATED00000"
SECRET: Final = "secret/of+the=simulator"
REGION: Final = "us-east-1"
MODEL: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
PROFILE: Final = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"


@pytest.fixture(scope="module")
def amazon() -> Iterator[SimulatorProcess]:
    with start_simulator(f"{KEY}:{SECRET}") as simulator:
        yield simulator


def claude(amazon: SimulatorProcess, secret: str = SECRET, **more: str) -> anthropic.AnthropicBedrock:
    return anthropic.AnthropicBedrock(
        aws_access_key=KEY,
        aws_secret_key=secret,
        aws_region=REGION,
        base_url=amazon.url,
        max_retries=0,
        default_headers=more,
    )


def client(
    amazon: SimulatorProcess, service: str, path: str = "", region: str = REGION, **keys: str
) -> Any:  # botocore has no types
    wanted = {"aws_access_key_id": KEY, "aws_secret_access_key": SECRET} | keys
    config = Config(retries={"total_max_attempts": 1})
    return boto3.client(service, region_name=region, endpoint_url=amazon.url + path, config=config, **wanted)


def ask(amazon: SimulatorProcess, text: str = "Hello", model: str = MODEL) -> str:
    message = claude(amazon).messages.create(
        model=model, max_tokens=100, messages=[{"role": "user", "content": text}]
    )
    [block] = message.content
    assert block.type == "text"
    return block.text


class TestInvokeModel:
    """Anthropic's SDK for Bedrock, and botocore's own client."""

    @pytest.mark.parametrize("model", [MODEL, "anthropic.claude-opus-5", PROFILE])
    def test_a_chat(self, amazon: SimulatorProcess, model: str) -> None:
        assert ask(amazon, model=model) == "You said: Hello"

    def test_a_stream(self, amazon: SimulatorProcess) -> None:
        with claude(amazon).messages.stream(
            model=f"{MODEL}+sim-pad", max_tokens=100, messages=[{"role": "user", "content": "repeat:30"}]
        ) as stream:
            text = "".join(stream.text_stream)
        assert text.split() == [f"w{number}" for number in range(1, 31)]

    def test_a_tool_and_a_thought(self, amazon: SimulatorProcess) -> None:
        message = claude(amazon).messages.create(
            model=MODEL,
            max_tokens=5000,
            thinking={"type": "enabled", "budget_tokens": 1024},
            tools=[{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
            messages=[{"role": "user", "content": "use tool look"}],
        )
        assert [block.type for block in message.content] == ["thinking", "tool_use"]

    def test_events_arrive_as_botocore_reads_them(self, amazon: SimulatorProcess) -> None:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        answered = client(amazon, "bedrock-runtime").invoke_model_with_response_stream(
            modelId=MODEL, body=json.dumps(body)
        )
        events = [json.loads(event["chunk"]["bytes"]) for event in answered["body"]]
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        assert "amazon-bedrock-invocationMetrics" in events[-1]
        assert all(event["type"] != "ping" for event in events)

    def test_an_exception_stands_among_the_events(self, amazon: SimulatorProcess) -> None:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        answered = client(amazon, "bedrock-runtime").invoke_model_with_response_stream(
            modelId=f"{MODEL}+sim-exception-throttlingException-2", body=json.dumps(body)
        )
        events = iter(answered["body"])
        assert next(events)
        assert next(events)
        with pytest.raises(ClientError, match="throttlingException"):
            next(events)

    @pytest.mark.parametrize(("fault", "count"), [("frame-crc", 1), ("frame-cut-3", 3)])
    def test_frames_break(self, amazon: SimulatorProcess, fault: str, count: int) -> None:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        answered = client(amazon, "bedrock-runtime").invoke_model_with_response_stream(
            modelId=f"{MODEL}+sim-{fault}", body=json.dumps(body)
        )
        events = []
        try:
            events.extend(answered["body"])
        except Exception as error:
            assert "Checksum" in type(error).__name__  # noqa: PT017  a cut frame raises nothing there
        # botocore parses what it has read before it gives out the first event of it
        assert len(events) <= count

    def test_tokens_are_counted_of_foundation_models_alone(self, amazon: SimulatorProcess) -> None:
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 1,
            "messages": [{"role": "user", "content": "one two three"}],
        }
        runtime = client(amazon, "bedrock-runtime")
        asked = {"invokeModel": {"body": json.dumps(body)}}
        counted = runtime.count_tokens(modelId="anthropic.claude-sonnet-4-5-20250929-v1:0", input=asked)
        assert counted["inputTokens"] == 3
        with pytest.raises(ClientError, match="doesn't support counting"):
            runtime.count_tokens(modelId=MODEL, input=asked)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"model": "x"}, "extraneous key"),
            ({"stream": True}, "extraneous key"),
            ({"anthropic_version": None}, "anthropic_version"),
            ({"anthropic_beta": ["good", "refused-1"]}, "invalid beta flag: `refused-1`"),
            ({"anthropic_beta": ["refused-silently"]}, r"invalid beta flag\Z"),
        ],
    )
    def test_what_bedrock_refuses(
        self, amazon: SimulatorProcess, change: dict[str, Any], message: str
    ) -> None:
        body: dict[str, Any] = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        body = {name: value for name, value in {**body, **change}.items() if value is not None}
        with pytest.raises(ClientError, match=message) as refused:
            client(amazon, "bedrock-runtime").invoke_model(modelId=MODEL, body=json.dumps(body))
        assert refused.value.response["Error"]["Code"] == "ValidationException"

    def test_the_lists_of_the_control_plane(self, amazon: SimulatorProcess) -> None:
        plane = client(amazon, "bedrock")
        models = plane.list_foundation_models(byProvider="anthropic", byOutputModality="TEXT")
        assert {model["modelLifecycle"]["status"] for model in models["modelSummaries"]} == {
            "ACTIVE",
            "LEGACY",
        }
        first = plane.list_inference_profiles(maxResults=2)
        rest = plane.list_inference_profiles(maxResults=2, nextToken=first["nextToken"])
        assert len(first["inferenceProfileSummaries"] + rest["inferenceProfileSummaries"]) == 3


class TestSignatures:
    """What is verified."""

    def test_another_secret(self, amazon: SimulatorProcess) -> None:
        with pytest.raises(anthropic.PermissionDeniedError, match="signature we calculated"):
            claude(amazon, "another").messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )

    @pytest.mark.parametrize(
        ("word", "error_type"),
        [("expired", "ExpiredToken"), ("deny", "AccessDenied"), ("skew-600", "InvalidSignature")],
    )
    def test_faults(self, amazon: SimulatorProcess, word: str, error_type: str) -> None:
        with pytest.raises(anthropic.PermissionDeniedError) as refused:
            claude(amazon, **{"x-sim-aws": word}).messages.create(
                model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
        assert refused.value.response.headers["x-amzn-errortype"].startswith(error_type)

    def test_no_signature(self, amazon: SimulatorProcess) -> None:
        with pytest.raises(anthropic.PermissionDeniedError, match=r"Missing Authentication|requires"):
            anthropic.AnthropicBedrock(
                api_key="key", aws_region=REGION, base_url=amazon.url, max_retries=0
            ).messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])

    def test_an_api_key_where_nothing_is_verified(self, simulator: SimulatorProcess) -> None:
        message = anthropic.AnthropicBedrock(
            api_key="key", aws_region=REGION, base_url=simulator.url
        ).messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
        assert message.stop_reason == "end_turn"

    def test_mantle_and_claude_platform(self, amazon: SimulatorProcess) -> None:
        mantle = anthropic.AnthropicBedrockMantle(
            aws_access_key=KEY,
            aws_secret_key=SECRET,
            aws_region=REGION,
            base_url=f"{amazon.url}/anthropic",
        )
        platform = anthropic.AnthropicAWS(
            aws_access_key=KEY,
            aws_secret_key=SECRET,
            aws_region=REGION,
            workspace_id="wrkspc_1",
            base_url=amazon.url,
        )
        for sdk in (mantle, platform):
            message = sdk.messages.create(
                model="anthropic.claude-opus-5", max_tokens=9, messages=[{"role": "user", "content": "Hi"}]
            )
            assert message.stop_reason == "end_turn"

    def test_openai(self, amazon: SimulatorProcess) -> None:
        provider = bedrock(
            region=REGION, base_url=f"{amazon.url}/openai/v1", access_key_id=KEY, secret_access_key=SECRET
        )
        sdk = openai.OpenAI(provider=provider)
        answer = sdk.chat.completions.create(
            model="openai.gpt-oss-120b", messages=[{"role": "user", "content": "Hi"}]
        )
        assert answer.choices[0].message.content == "You said: Hi"


class TestKeys:
    """STS, containers and instances, as botocore asks them."""

    def test_a_role(self, amazon: SimulatorProcess) -> None:
        sts = client(amazon, "sts", "/sim-aws/sts")
        given = sts.assume_role(
            RoleArn="arn:aws:iam::123456789012:role/llm+sim-expires-900", RoleSessionName="test"
        )["Credentials"]
        runtime = client(
            amazon,
            "bedrock-runtime",
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
        body = {
            "anthropic_version": "bedrock-2023-05-31",
            "max_tokens": 9,
            "messages": [{"role": "user", "content": "Hi"}],
        }
        assert runtime.invoke_model(modelId=MODEL, body=json.dumps(body))["contentType"] == "application/json"

    def test_a_role_by_a_token(self, amazon: SimulatorProcess) -> None:
        sts = client(amazon, "sts", "/sim-aws/sts")
        role = {"RoleArn": "arn:aws:iam::123456789012:role/llm", "RoleSessionName": "test"}
        assert sts.assume_role_with_web_identity(**role, WebIdentityToken="a.b.c")["Credentials"]
        with pytest.raises(ClientError, match="InvalidIdentityToken"):
            sts.assume_role_with_web_identity(**role, WebIdentityToken="wrong")

    def test_sts_verifies(self, amazon: SimulatorProcess) -> None:
        sts = client(amazon, "sts", "/sim-aws/sts", aws_access_key_id="AKIANOBODY0000000")
        with pytest.raises(ClientError, match="InvalidClientTokenId"):
            sts.assume_role(RoleArn="arn:aws:iam::123456789012:role/llm", RoleSessionName="test")

    def test_a_container(self, amazon: SimulatorProcess) -> None:
        environ = {
            "AWS_CONTAINER_CREDENTIALS_FULL_URI": f"{amazon.url}/sim-aws/container/role+sim-key-token",
            "AWS_CONTAINER_AUTHORIZATION_TOKEN": "token",
        }
        found = ContainerProvider(environ, ContainerMetadataFetcher()).load()
        assert found.get_frozen_credentials().token.startswith("simulated/")

    def test_an_instance(self, amazon: SimulatorProcess) -> None:
        fetcher = InstanceMetadataFetcher(
            base_url=f"{amazon.url}/sim-aws/imds/", config={"ec2_metadata_v1_disabled": True}
        )
        found = InstanceMetadataProvider(fetcher).load()
        assert found.get_frozen_credentials().access_key.startswith("ASIASIM")

    def test_keys_expire(self, amazon: SimulatorProcess) -> None:
        given = client(amazon, "sts", "/sim-aws/sts").assume_role(
            RoleArn="arn:aws:iam::123456789012:role/llm+sim-expires-0", RoleSessionName="test"
        )["Credentials"]
        session = botocore.session.Session()
        runtime = session.create_client(
            "bedrock",
            REGION,
            endpoint_url=amazon.url,
            aws_access_key_id=given["AccessKeyId"],
            aws_secret_access_key=given["SecretAccessKey"],
            aws_session_token=given["SessionToken"],
        )
        with pytest.raises(ClientError, match="ExpiredToken"):
            runtime.list_foundation_models()


def test_a_signature_for_another_region_is_refused_where_there_is_one() -> None:
    refusal = r"scoped to a valid region, not 'us-east-1'"
    with start_simulator(f"{KEY}:{SECRET}@eu-west-1") as amazon:
        with pytest.raises(ClientError, match=rf"\(InvalidSignatureException\).*{refusal}"):
            client(amazon, "bedrock").list_foundation_models()
        role = {"RoleArn": "arn:aws:iam::123456789012:role/llm", "RoleSessionName": "test"}
        with pytest.raises(ClientError, match=rf"\(SignatureDoesNotMatch\).*{refusal}"):
            client(amazon, "sts", "/sim-aws/sts").assume_role(**role)
        there = client(amazon, "bedrock", region="eu-west-1")
        assert there.list_foundation_models()["modelSummaries"]


@pytest.mark.parametrize("path", ["sts", "container/role", "imds/latest/api/token"])
def test_what_gives_keys_says_what_time_it_is(amazon: SimulatorProcess, path: str) -> None:
    answer = ask_host(amazon.port, f"/sim-aws/{path}")
    (date,) = [value for name, value in answer.headers if name == b"Date"]
    assert abs(parsedate_to_datetime(date.decode()).timestamp() - time.time()) < 60


def test_errors_of_all_shapes_have_a_type(amazon: SimulatorProcess) -> None:
    scope = b"AKIANOBODY/20260101/us-east-1/bedrock/aws4_request"
    signed = (
        b"Authorization: AWS4-HMAC-SHA256 Credential=%b, SignedHeaders=host, Signature=%b"
        % (scope, b"0" * 64),
        b"X-Amz-Date: 20260101T000000Z",
        b"anthropic-version: 2023-06-01",
    )
    for target in ("/v1/chat/completions", "/v1/messages", "/model/x/invoke"):
        answer = ask_host(amazon.port, target, *signed, body=b"{}")
        assert answer.status == 403, answer.body
        (error_type,) = [value for name, value in answer.headers if name == b"x-amzn-errortype"]
        assert error_type.startswith(b"InvalidSignatureException:")
