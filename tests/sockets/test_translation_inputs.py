"""What an SDK's user puts in beside text, and structured answers as the SDKs' own helpers read them."""

from __future__ import annotations

import base64
from typing import Any, Final, Literal

import pytest
from anthropic import beta_tool
from google.genai import types
from pydantic import BaseModel

from tests.support.all_kinds import KEY, all_kinds
from tests.support.gateway import GatewayProcess
from tests.support.sdk_conversations import anthropic_client, gemini_client, openai_client
from tests.support.simulator import SimulatorProcess

PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(16)
PDF: Final = b"%PDF-1.7\n" + bytes(16)
PNG_TEXT: Final = base64.b64encode(PNG).decode()
PDF_TEXT: Final = base64.b64encode(PDF).decode()
ADDRESS: Final = "https://example.com/pictures/cat.png"
DOCUMENT: Final = "https://example.com/papers/paper.pdf"
WORDS: Final = "what is it"
REPLY: Final = f"You said: {WORDS}"


class Item(BaseModel):
    """A part of the structure."""

    name: str
    kind: Literal["fruit", "tool"]


class Order(BaseModel):
    """What is asked for: nested, a list, a choice, and something that may be absent."""

    number: int
    price: float
    items: list[Item]
    note: str | None


pytestmark = pytest.mark.gateway_config(make=all_kinds)


def newest(simulator: SimulatorProcess) -> Any:  # the body of a request
    """The body of the newest request that the upstream has seen, which it took."""
    request = simulator.requests()[-1]
    assert request.status == 200, request.body
    return request.json()


def parts_seen(simulator: SimulatorProcess) -> list[Any]:
    """The parts of the only turn, without the text and what says of them how to cache."""
    body = newest(simulator)
    (turn,) = body.get("messages") or body["contents"]
    parts = turn.get("content") or turn["parts"]
    return [part for part in parts if part.get("text") is None]


CHAT_PARTS: Final[dict[str, dict[str, Any]]] = {
    "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG_TEXT}"}},
    "image address": {"type": "image_url", "image_url": {"url": ADDRESS}},
    "pdf": {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF_TEXT}"},
    },
}
BLOCKS: Final[dict[str, dict[str, Any]]] = {
    "image": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG_TEXT},
    },
    "image address": {"type": "image", "source": {"type": "url", "url": ADDRESS}},
    "pdf": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PDF_TEXT},
    },
    "pdf address": {"type": "document", "source": {"type": "url", "url": DOCUMENT}},
}
PARTS: Final[dict[str, dict[str, Any]]] = {
    "image": {"inlineData": {"mimeType": "image/png", "data": PNG_TEXT}},
    "image address": {"fileData": {"mimeType": "image/png", "fileUri": ADDRESS}},
    "pdf": {"inlineData": {"mimeType": "application/pdf", "data": PDF_TEXT}},
    "pdf address": {"fileData": {"mimeType": "application/pdf", "fileUri": DOCUMENT}},
}
SDK_PARTS: Final = {
    "image": types.Part.from_bytes(data=PNG, mime_type="image/png"),
    "image address": types.Part.from_uri(file_uri=ADDRESS, mime_type="image/png"),
    "pdf": types.Part.from_bytes(data=PDF, mime_type="application/pdf"),
    "pdf address": types.Part.from_uri(file_uri=DOCUMENT, mime_type="application/pdf"),
}


@pytest.mark.parametrize("what", CHAT_PARTS)
@pytest.mark.parametrize(("model", "wire"), [("claude/claude-sonnet-5", BLOCKS), ("gem/gemini-3-pro", PARTS)])
def test_openais_sdk_shows_images_and_documents(
    simulator: SimulatorProcess, gateway: GatewayProcess, what: str, model: str, wire: dict[str, Any]
) -> None:
    content: Any = [{"type": "text", "text": WORDS}, CHAT_PARTS[what]]
    said = openai_client(gateway.url, KEY).chat.completions.create(
        model=model, messages=[{"role": "user", "content": content}]
    )
    assert said.choices[0].message.content == REPLY
    (seen,) = parts_seen(simulator)
    assert seen | wire[what] == seen  # a document may have a title beside


@pytest.mark.parametrize("what", ["image", "image address", "pdf"])
@pytest.mark.parametrize(("model", "wire"), [("main/gpt-5", CHAT_PARTS), ("gem/gemini-3-pro", PARTS)])
def test_anthropics_sdk_shows_images_and_documents(
    simulator: SimulatorProcess, gateway: GatewayProcess, what: str, model: str, wire: dict[str, Any]
) -> None:
    content: Any = [{"type": "text", "text": WORDS}, BLOCKS[what]]
    said = anthropic_client(gateway.url, KEY).messages.create(
        model=model, max_tokens=99, messages=[{"role": "user", "content": content}]
    )
    assert [block.text for block in said.content if block.type == "text"] == [REPLY]
    (seen,) = parts_seen(simulator)
    if what == "pdf" and "file" in seen:
        assert seen["file"]["file_data"] == CHAT_PARTS["pdf"]["file"]["file_data"]
    else:
        assert seen == wire[what]


@pytest.mark.parametrize("what", ["image", "image address", "pdf"])
@pytest.mark.parametrize(("model", "wire"), [("main/gpt-5", CHAT_PARTS), ("claude/claude-sonnet-5", BLOCKS)])
def test_googles_sdk_shows_images_and_documents(
    simulator: SimulatorProcess, gateway: GatewayProcess, what: str, model: str, wire: dict[str, Any]
) -> None:
    said = gemini_client(gateway.url, KEY).models.generate_content(
        model=model, contents=[WORDS, SDK_PARTS[what]]
    )
    assert said.text == REPLY
    (seen,) = parts_seen(simulator)
    if what == "pdf" and "file" in seen:
        assert seen["file"]["file_data"] == CHAT_PARTS["pdf"]["file"]["file_data"]
    else:
        assert seen == wire[what]


def test_the_address_of_a_document_goes_where_documents_have_addresses(
    simulator: SimulatorProcess, gateway: GatewayProcess
) -> None:
    content: Any = [{"type": "text", "text": WORDS}, BLOCKS["pdf address"]]
    anthropic_client(gateway.url, KEY).messages.create(
        model="gem/gemini-3-pro", max_tokens=99, messages=[{"role": "user", "content": content}]
    )
    assert parts_seen(simulator) == [PARTS["pdf address"]]
    gemini_client(gateway.url, KEY).models.generate_content(
        model="claude/claude-sonnet-5", contents=[WORDS, SDK_PARTS["pdf address"]]
    )
    assert parts_seen(simulator) == [BLOCKS["pdf address"]]


@pytest.mark.parametrize("model", ["main/gpt-5", "gem/gemini-3-pro"])
def test_an_image_that_a_tool_gave_reaches_the_model(
    simulator: SimulatorProcess, gateway: GatewayProcess, model: str
) -> None:
    call = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
    given = [{"type": "text", "text": "here"}, BLOCKS["image"]]
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": given}
    messages: Any = [
        {"role": "user", "content": WORDS},
        {"role": "assistant", "content": [call]},
        {"role": "user", "content": [result]},
    ]
    anthropic_client(gateway.url, KEY).messages.create(
        model=model,
        max_tokens=99,
        messages=messages,
        tools=[{"name": "look", "input_schema": {"type": "object"}}],
    )
    newest(simulator)
    assert PNG_TEXT.encode() in simulator.requests()[-1].body


MODELS: Final = (
    "main/gpt-5",
    "host/m",
    "claude/claude-sonnet-5",
    "claude/claude-sonnet-4-5",
    "gem/gemini-3-pro",
)


@pytest.mark.parametrize("model", MODELS)
def test_openais_sdk_parses_a_structured_answer(gateway: GatewayProcess, model: str) -> None:
    chats = openai_client(gateway.url, KEY).chat.completions
    messages: Any = [{"role": "user", "content": "an order"}]
    parsed = chats.parse(model=model, messages=messages, response_format=Order)
    assert isinstance(parsed.choices[0].message.parsed, Order)
    with chats.stream(model=model, messages=messages, response_format=Order) as stream:
        streamed = stream.get_final_completion()
    assert streamed.choices[0].message.parsed == parsed.choices[0].message.parsed


@pytest.mark.parametrize("model", MODELS)
def test_anthropics_sdk_parses_a_structured_answer(gateway: GatewayProcess, model: str) -> None:
    messages = anthropic_client(gateway.url, KEY).messages
    turns: Any = [{"role": "user", "content": "an order"}]
    parsed = messages.parse(model=model, max_tokens=999, messages=turns, output_format=Order)
    assert isinstance(parsed.parsed_output, Order)
    with messages.stream(model=model, max_tokens=999, messages=turns, output_format=Order) as stream:
        streamed = stream.get_final_message()
    assert streamed.parsed_output == parsed.parsed_output


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", ["response_schema", "response_json_schema"])
def test_googles_sdk_parses_a_structured_answer(gateway: GatewayProcess, model: str, name: str) -> None:
    config: Any = {"response_mime_type": "application/json"}
    config[name] = Order if name == "response_schema" else Order.model_json_schema()
    said = gemini_client(gateway.url, KEY).models.generate_content(
        model=model, contents="an order", config=config
    )
    assert Order.model_validate_json(said.text or "").items
    if name == "response_schema":
        assert isinstance(said.parsed, Order)


@pytest.mark.parametrize("model", MODELS)
def test_types_in_capitals_become_types(gateway: GatewayProcess, model: str) -> None:
    """Google's CLI sends them where Google takes a JSON Schema."""
    schema = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]}
    config: Any = {"response_mime_type": "application/json", "response_json_schema": schema}
    said = gemini_client(gateway.url, KEY).models.generate_content(model=model, contents="n", config=config)
    assert said.parsed == {"n": 1} or said.text == '{"n": 1}'


@pytest.mark.parametrize("model", ["main/gpt-5", "claude/claude-sonnet-5"])
def test_googles_sdk_calls_python_functions_by_itself(gateway: GatewayProcess, model: str) -> None:
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"sunny in {city}"

    said = gemini_client(gateway.url, KEY).models.generate_content(
        model=model, contents='use tool get_weather with {"city": "Paris"}', config={"tools": [get_weather]}
    )
    assert said.text == "Tool get_weather returned: sunny in Paris"


@pytest.mark.parametrize("model", ["main/gpt-5", "gem/gemini-3-pro", "claude/claude-sonnet-5"])
def test_anthropics_sdk_runs_python_functions_by_itself(gateway: GatewayProcess, model: str) -> None:
    @beta_tool
    def get_weather(city: str) -> str:
        """Tell the weather of a city."""
        return f"sunny in {city}"

    runner = anthropic_client(gateway.url, KEY).beta.messages.tool_runner(
        model=model,
        max_tokens=999,
        tools=[get_weather],
        messages=[{"role": "user", "content": 'use tool get_weather with {"city": "Paris"}'}],
    )
    last = runner.until_done()
    assert [b.text for b in last.content if b.type == "text"] == ["Tool get_weather returned: sunny in Paris"]
