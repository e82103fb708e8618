"""The official SDKs with tokens of an identity provider, in each place where they take a credential.

One gateway process and two workers.  What a refused token gives is what a user sees: one exception, one
sentence, one request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Final

import anthropic
import httpx2
import openai
import pytest
from anthropic.lib.credentials import AccessToken
from google import genai
from google.genai import errors as genai_errors
from google.genai import types

from tests.support.certificates import Authority
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess
from tests.support.tls_front import start_tls_front, trusting
from tests.support.waiting import wait_until
from tools.pages.blocks import ROOT, blocks_of

METRICS: Final = {"Authorization": "Bearer edge-canary-1"}
HELLO: Final = "Hello there"
REPLY: Final = "You said: Hello there"
ANN: Final = "corp:ann@example.com"


@dataclass
class Gate:
    """A gateway whose clients have tokens, and who signs these."""

    gateway: GatewayProcess
    simulator: SimulatorProcess
    idp: Idp
    secure_url: str
    """The gateway behind TLS: some SDKs open no other WebSockets."""
    seen: int = 0

    @property
    def url(self) -> str:
        """Where the gateway is."""
        return self.gateway.url

    def token(self, **more: Any) -> str:
        """Return a token of Ann's."""
        return self.idp.token(**{"email": "ann@example.com", **more})

    def refused(self) -> float:
        """How many requests were refused for their token."""
        name = 'mgw_edge_rejections_total{reason="%s"}'
        return sum(self.gateway.metric(name % reason, METRICS) for reason in ("token", "rule"))

    def check(self, token: str) -> None:
        """The one request since the last time was Ann's, and no token has left the gateway."""
        events = self.gateway.events(self.seen + 1)[self.seen :]
        assert [(event["client"], event["status"]) for event in events] == [(ANN, "ok")]
        self.seen += 1
        self.simulator.wait_for("answered")
        (request,) = [one for one in self.simulator.requests() if not one.target.startswith("/sim/idp")]
        sent = " ".join([request.target, *(value for _, value in request.headers)])
        assert token not in sent
        assert token.rpartition(".")[0] not in sent
        self.simulator.clear()


@pytest.fixture(scope="module", params=["", "workers: 2"], ids=["one process", "two workers"])
def gate(request: pytest.FixtureRequest, simulator: SimulatorProcess, ca: Authority) -> Iterator[Gate]:
    idp = Idp(simulator.url, "sdks")
    text = f"""
providers:
  main: {{kind: openai, base_url: "{simulator.url}/v1", api_key: sk-canary-openai}}
  claude: {{kind: anthropic, base_url: "{simulator.url}/v1", api_key: sk-ant-canary}}
  gem: {{kind: gemini, base_url: "{simulator.url}/v1beta", api_key: AIza-canary}}
defaults: {{openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}}
edge_auth:
  enabled: true
  keys: [edge-canary-1]
  jwt:
    - name: corp
      issuer: "{idp.issuer}"
      audience: mgw
      client: email
      rules: [{{when: {{email: "*@example.com"}}}}]
{request.param}
"""
    with start_gateway(text) as gateway, start_tls_front(gateway.port, ca) as port:
        gateway.log(b"issuer corp: keys added: ")
        yield Gate(gateway, simulator, idp, f"https://localhost:{port}")
        assert b"eyJ" not in gateway.stderr.data + gateway.stdout.data, "as every token begins"


@pytest.fixture(autouse=True)
def cleared(gate: Gate) -> None:
    gate.simulator.clear()


def chat(client: openai.OpenAI) -> str | None:
    answer = client.chat.completions.create(model="gpt-1", messages=[{"role": "user", "content": HELLO}])
    return answer.choices[0].message.content


def chat_stream(client: openai.OpenAI) -> str:
    pieces = client.chat.completions.create(
        model="gpt-1", messages=[{"role": "user", "content": HELLO}], stream=True
    )
    return "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)


def responses(client: openai.OpenAI) -> str:
    return client.responses.create(model="gpt-1", input=HELLO).output_text


def openai_clients(gate: Gate, token: str) -> dict[str, openai.OpenAI]:
    url, bearer = f"{gate.url}/v1", {"Authorization": f"Bearer {token}"}
    return {
        "api_key": openai.OpenAI(base_url=url, api_key=token),
        "api_key as a function": openai.OpenAI(base_url=url, api_key=lambda: token),
        "default_headers": openai.OpenAI(base_url=url, api_key="none", default_headers=bearer),
        "x-api-key": openai.OpenAI(base_url=url, api_key="none", default_headers={"x-api-key": token}),
    }


@pytest.mark.parametrize("call", [chat, chat_stream, responses])
@pytest.mark.parametrize("place", ["api_key", "api_key as a function", "default_headers", "x-api-key"])
def test_openai(gate: Gate, call: Callable[[openai.OpenAI], str], place: str) -> None:
    token = gate.token()
    assert call(openai_clients(gate, token)[place]) == REPLY
    gate.check(token)


def messages(client: anthropic.Anthropic) -> str:
    answer = client.messages.create(
        model="claude-1", max_tokens=100, messages=[{"role": "user", "content": HELLO}]
    )
    return "".join(block.text for block in answer.content if block.type == "text")


def messages_stream(client: anthropic.Anthropic) -> str:
    with client.messages.stream(
        model="claude-1", max_tokens=100, messages=[{"role": "user", "content": HELLO}]
    ) as stream:
        return stream.get_final_text()


class Tokens:
    """What Anthropic's SDK asks for tokens."""

    def __init__(self, *tokens: str) -> None:
        self.tokens = list(tokens)
        self.asked: list[bool] = []

    def __call__(self, *, force_refresh: bool = False) -> AccessToken:
        self.asked.append(force_refresh)
        return AccessToken(self.tokens.pop(0), int(time()) + 3600)


def anthropic_clients(gate: Gate, token: str) -> dict[str, anthropic.Anthropic]:
    url, bearer = gate.url, {"Authorization": f"Bearer {token}"}
    return {
        "auth_token": anthropic.Anthropic(base_url=url, auth_token=token),
        "api_key": anthropic.Anthropic(base_url=url, api_key=token),
        "credentials": anthropic.Anthropic(base_url=url, credentials=Tokens(token)),
        "default_headers": anthropic.Anthropic(base_url=url, api_key="none", default_headers=bearer),
    }


@pytest.mark.parametrize("call", [messages, messages_stream])
@pytest.mark.parametrize("place", ["auth_token", "api_key", "credentials", "default_headers"])
def test_anthropic(gate: Gate, call: Callable[[anthropic.Anthropic], str], place: str) -> None:
    token = gate.token()
    assert call(anthropic_clients(gate, token)[place]) == REPLY
    gate.check(token)


def test_a_count_by_anthropic(gate: Gate) -> None:
    client = anthropic.Anthropic(base_url=gate.url, auth_token=gate.token())
    found = client.messages.count_tokens(model="claude-1", messages=[{"role": "user", "content": HELLO}])
    assert found.input_tokens > 0
    gate.seen += 1
    assert gate.gateway.events(gate.seen)[-1]["client"] == ANN


def gemini_clients(gate: Gate, token: str) -> dict[str, genai.Client]:
    def refresh(request: httpx2.Request) -> None:
        request.headers["x-goog-api-key"] = token

    hooks = {"event_hooks": {"request": [refresh]}}
    bearer = {"Authorization": f"Bearer {token}"}
    url = gate.url
    return {
        "api_key": genai.Client(api_key=token, http_options={"base_url": url}),
        "headers": genai.Client(api_key="none", http_options={"base_url": url, "headers": bearer}),
        "a hook": genai.Client(api_key="none", http_options={"base_url": url, "client_args": hooks}),
    }


def content(client: genai.Client) -> str | None:
    return client.models.generate_content(model="gemini-1", contents=HELLO).text


def content_stream(client: genai.Client) -> str:
    pieces = client.models.generate_content_stream(model="gemini-1", contents=HELLO)
    return "".join(piece.text or "" for piece in pieces)


@pytest.mark.parametrize("call", [content, content_stream])
@pytest.mark.parametrize("place", ["api_key", "headers", "a hook"])
def test_gemini(gate: Gate, call: Callable[[genai.Client], str], place: str) -> None:
    token = gate.token()
    client = gemini_clients(gate, token)[place]
    assert call(client) == REPLY
    gate.check(token)


def test_openai_fetches_a_new_token_for_each_request(gate: Gate) -> None:
    tokens = iter([gate.token(jti="1"), gate.token(jti="2")])
    client = openai.OpenAI(base_url=f"{gate.url}/v1", api_key=lambda: next(tokens))
    assert [chat(client), chat(client)] == [REPLY, REPLY]
    assert next(tokens, None) is None
    gate.seen += 2


def test_anthropic_fetches_a_new_token_after_a_401(gate: Gate) -> None:
    tokens = Tokens(gate.token(expires_in=-3600), gate.token())
    client = anthropic.Anthropic(base_url=gate.url, credentials=tokens)
    assert messages(client) == REPLY
    assert tokens.asked == [False, True]
    gate.seen += 1


def test_the_program_of_the_page_reads_its_token_for_each_request(gate: Gate, tmp_path: Path) -> None:
    text = blocks_of(ROOT / "docs/identity.rst")["Clients", 1].text
    file = tmp_path / "token"
    for shown, here in {"http://127.0.0.1:8787": gate.url, "/var/run/secrets/tokens/mgw": str(file)}.items():
        assert shown in text
        text = text.replace(shown, here)
    made: dict[str, Any] = {}
    exec(text, made)  # the page's own
    calls: list[Callable[[], str | None]] = [
        lambda: chat(made["openai"]),
        lambda: messages(made["anthropic"]),
        lambda: content(made["google"]),
    ]
    for call in calls:
        for number in range(2):
            token = gate.token(jti=str(number))
            file.write_text(f"{token}\n")
            assert call() == REPLY
            gate.check(token)
            file.write_text(gate.token(expires_in=-3600))
    with pytest.raises(openai.AuthenticationError, match="the token has expired"):
        chat(made["openai"])


def test_an_upload_by_google_goes_on_without_the_token(gate: Gate, tmp_path: Path) -> None:
    """Its chunks carry no credential, and may come to another worker."""
    file, size = tmp_path / "file.bin", 9 << 20
    file.write_bytes(b"x" * size)
    client = genai.Client(api_key=gate.token(), http_options={"base_url": gate.url})
    found = client.files.upload(file=str(file), config={"mime_type": "application/octet-stream"})
    assert found.size_bytes == size
    events = gate.gateway.events(gate.seen + 3)[gate.seen :]
    assert [(event["client"], event["status"]) for event in events] == [(ANN, "ok")] * 3
    gate.seen += 3


EXPIRED: Final = "the token has expired: get a new one from its issuer"
ALIEN: Final = "the token is for another audience: ask its issuer for one for this gateway"
NO_RULE: Final = (
    "the token is valid, but its claims do not grant access: ask the operator of this gateway for access"
)


@pytest.mark.parametrize(
    ("claims", "status", "code", "words"),
    [
        ({"expires_in": -3600}, 401, "invalid_token", EXPIRED),
        ({"aud": "other"}, 401, "invalid_token", ALIEN),
        ({"email": "eve@example.org"}, 403, "access_denied", NO_RULE),
    ],
)
def test_a_refused_token_is_one_exception_with_one_sentence_and_one_request(
    gate: Gate, claims: dict[str, Any], status: int, code: str, words: str
) -> None:
    """With each SDK's own default of retries."""
    token, before = gate.token(**claims), gate.refused()
    with pytest.raises(openai.APIStatusError) as by_openai:
        chat(openai.OpenAI(base_url=f"{gate.url}/v1", api_key=token))
    kinds = {401: openai.AuthenticationError, 403: openai.PermissionDeniedError}
    assert type(by_openai.value) is kinds[status]
    assert by_openai.value.code == code
    assert words in by_openai.value.message
    with pytest.raises(anthropic.APIStatusError) as by_anthropic:
        messages(anthropic.Anthropic(base_url=gate.url, auth_token=token))
    assert by_anthropic.value.status_code == status
    assert words in by_anthropic.value.message
    client = genai.Client(api_key=token, http_options={"base_url": gate.url})
    with pytest.raises(genai_errors.ClientError) as by_google:
        content(client)
    assert by_google.value.code == status
    assert words in (by_google.value.message or "")
    wait_until(lambda: gate.refused() == before + 3, "one refusal for each SDK")
    assert not [one for one in gate.simulator.requests() if not one.target.startswith("/sim/idp")]


class TestWebSockets:
    """Sessions by the SDKs' own clients."""

    def test_realtime_by_openai(self, gate: Gate, ca: Authority) -> None:
        async def run() -> None:
            async def fetch() -> str:
                return gate.token()

            client = openai.AsyncOpenAI(base_url=f"{gate.secure_url}/v1", api_key=fetch)
            options: Any = {"ssl": trusting(ca)}
            async with client.realtime.connect(
                model="gpt-realtime", websocket_connection_options=options
            ) as connection:
                assert (await connection.recv()).type == "session.created"

        asyncio.run(run())
        self.check(gate)

    def test_responses_by_openai(self, gate: Gate, ca: Authority) -> None:
        async def run() -> Any:
            client = openai.AsyncOpenAI(base_url=f"{gate.secure_url}/v1", api_key=gate.token())
            options: Any = {"ssl": trusting(ca)}
            async with client.responses.connect(websocket_connection_options=options) as connection:
                await connection.response.create(model="gpt-1", input=HELLO, store=False)
                async for event in connection:
                    if event.type == "response.completed":
                        return event.response.output_text
            return None

        assert asyncio.run(run()) == REPLY
        self.check(gate)

    def test_live_by_gemini(self, gate: Gate, ca: Authority) -> None:
        options = types.HttpOptions(
            base_url=gate.secure_url, async_client_args={"ssl": trusting(ca), "proxy": None}
        )

        async def run() -> str:
            client = genai.Client(api_key=gate.token(), http_options=options)
            async with client.aio.live.connect(
                model="gemini-live", config={"response_modalities": [types.Modality.TEXT]}
            ) as session:
                await session.send_client_content(turns=types.Content(parts=[types.Part(text=HELLO)]))
                return "".join([message.text or "" async for message in session.receive()])

        assert asyncio.run(run()) == REPLY
        self.check(gate)

    def test_an_expired_token_opens_no_live_session(self, gate: Gate, ca: Authority) -> None:
        options = types.HttpOptions(
            base_url=gate.secure_url, async_client_args={"ssl": trusting(ca), "proxy": None}
        )
        before, token = gate.refused(), gate.token(expires_in=-3600)

        async def run() -> None:
            client = genai.Client(api_key=token, http_options=options)
            async with client.aio.live.connect(model="gemini-live"):
                pass

        with pytest.raises(Exception, match="HTTP 401"):  # of the library for WebSockets
            asyncio.run(run())
        assert gate.refused() == before + 1

    def test_an_expired_token_opens_no_session(self, gate: Gate, ca: Authority) -> None:
        before, token = gate.refused(), gate.token(expires_in=-3600)

        async def run() -> str:
            client = openai.AsyncOpenAI(base_url=f"{gate.secure_url}/v1", api_key=token)
            options: Any = {"ssl": trusting(ca)}
            try:
                async with client.realtime.connect(
                    model="gpt-realtime", websocket_connection_options=options
                ):
                    return "open"
            except Exception as error:  # of the library for WebSockets that the SDK takes
                return str(error)

        assert "HTTP 401" in asyncio.run(run())
        assert gate.refused() == before + 1

    @staticmethod
    def check(gate: Gate) -> None:
        gate.seen += 1
        event = gate.gateway.events(gate.seen)[-1]
        assert (event["client"], event["status"], event["transport"]) == (ANN, "ok", "websocket")
