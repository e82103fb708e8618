"""What is refused for good is asked once: the vendors' SDKs believe ``x-should-retry``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors, types

from tests.support.gateway import GatewayProcess

CONFIGURATION = """
providers:
  main:
    {kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary, capabilities: {image_gen: false}}
  claude: {kind: anthropic, base_url: "http://127.0.0.1:9/v1", api_key: sk-ant-canary}
  gem:
    {kind: gemini, base_url: "http://127.0.0.1:9/v1beta", api_key: AIza-canary, capabilities: {text: false}}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
edge_auth: {enabled: true, keys: [edge-canary-1]}
max_body_bytes: 2000
"""


@pytest.fixture(scope="module")
def gateway_config() -> str:
    return CONFIGURATION


def of_openai(gateway: GatewayProcess, key: str = "edge-canary-1") -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key, max_retries=2)


def of_anthropic(gateway: GatewayProcess, key: str = "edge-canary-1") -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=gateway.url, api_key=key, max_retries=2)


def of_google(
    gateway: GatewayProcess, ask: Callable[[genai.Client], object], key: str = "edge-canary-1"
) -> None:
    repeating = types.HttpRetryOptions(attempts=3, initial_delay=0.01)
    options = types.HttpOptions(base_url=gateway.url, retry_options=repeating)
    with genai.Client(api_key=key, http_options=options) as client:
        ask(client)


LONG: Any = [{"role": "user", "content": "x" * 3000}]
REFUSED: dict[str, tuple[int, Callable[[GatewayProcess], object]]] = {
    "openai, not implemented": (501, lambda g: of_openai(g).conversations.create()),
    "openai, capability": (403, lambda g: of_openai(g).images.generate(model="i", prompt="x")),
    "openai, model": (404, lambda g: of_openai(g).models.retrieve("gone/x")),
    "openai, key": (401, lambda g: of_openai(g, "sk-canary").models.list()),
    "openai, size": (413, lambda g: of_openai(g).chat.completions.create(model="m", messages=LONG)),
    "openai, body": (400, lambda g: of_openai(g).chat.completions.create(model="", messages=[])),
    "anthropic, key": (401, lambda g: of_anthropic(g, "sk-canary").models.list()),
    "anthropic, size": (
        413,
        lambda g: of_anthropic(g).messages.create(model="m", max_tokens=1, messages=LONG),
    ),
    "anthropic, route": (404, lambda g: of_anthropic(g).post("/v1/nothing", cast_to=object)),
    "anthropic, method": (405, lambda g: of_anthropic(g).put("/v1/messages", cast_to=object)),
    "google, capability": (
        403,
        lambda g: of_google(g, lambda c: c.models.generate_content(model="g", contents="x")),
    ),
    "google, key": (401, lambda g: of_google(g, lambda c: c.models.list(), "AIza-canary")),
}


def test_a_wrong_base_address_is_told_to_each_sdk(gateway: GatewayProcess) -> None:
    key, url = "edge-canary-1", gateway.url
    with pytest.raises(openai.NotFoundError, match="add /v1 to the end of the base URL"):
        openai.OpenAI(base_url=url, api_key=key).responses.create(model="m", input="x")
    with pytest.raises(openai.NotFoundError, match="remove /v1 from the end of the base URL"):
        openai.OpenAI(base_url=f"{url}/v1/v1", api_key=key).models.list()
    with pytest.raises(anthropic.NotFoundError, match="remove /v1 from the end of the base URL"):
        anthropic.Anthropic(base_url=f"{url}/v1", api_key=key).messages.create(
            model="m", max_tokens=1, messages=LONG[:0]
        )
    for wrong in ("v1", "v1beta"):
        options = types.HttpOptions(base_url=f"{url}/{wrong}")
        told = pytest.raises(errors.ClientError, match=f"remove /{wrong} from the end of the base URL")
        with genai.Client(api_key=key, http_options=options) as client, told:
            client.models.generate_content(model="g", contents="x")


@pytest.mark.parametrize(("status", "ask"), REFUSED.values(), ids=REFUSED.keys())
def test_a_refused_request_is_sent_once(
    gateway: GatewayProcess, status: int, ask: Callable[[GatewayProcess], object]
) -> None:
    before = lines_until_now(gateway)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError, errors.APIError)) as caught:
        ask(gateway)
    found = getattr(caught.value, "status_code", None) or getattr(caught.value, "code", None)
    assert found == status
    assert lines_until_now(gateway) - before == 1


def lines_until_now(gateway: GatewayProcess) -> int:
    """Return how many requests the access log has, with one of our own behind the last of them."""
    own = gateway.stderr.data.count(b"path=/readyz")
    gateway.get("/readyz")
    log = gateway.stderr.wait_for(
        lambda data: data.count(b"path=/readyz") > own and data, 10, "the last line"
    )
    return int(log.count(b"http time=") - log.count(b"path=/readyz"))
