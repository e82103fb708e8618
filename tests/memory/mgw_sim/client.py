"""Asks the simulator's dispatcher in memory, in each family's wire."""

import json
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw_sim.api import DownloadResponse, Response, StreamResponse, UnaryResponse, WebSocketResponse
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.faults import Faults
from mgw_sim.http.parser import Head
from mgw_sim.recording import RecordedRequest, Recorder

KEYS: Final = (
    (b"authorization", b"Bearer k"),
    (b"content-type", b"application/json"),
)
CLAUDE: Final = (*KEYS, (b"anthropic-version", b"2023-06-01"))
GOOGLE: Final = (*KEYS, (b"x-goog-api-key", b"k"))


T = TypeVar("T")


def result_of(work: Coroutine[Deferred[Any], Any, T]) -> T:
    """What a coroutine that waits for nothing returns."""
    found: list[T] = []
    done = Deferred.fromCoroutine(work).addCallback(found.append)
    assert done.called
    return found[0]


def ask(
    target: str, body: bytes, headers: tuple[tuple[bytes, bytes], ...] = KEYS, method: str = "POST"
) -> tuple[Response, Faults]:
    """What the dispatcher answers."""
    clock = Clock()
    head = Head(method.encode(), target.encode(), b"HTTP/1.1", headers)
    request = RecordedRequest(1, 1, head, bytearray(body), complete=True)
    answer, faults = result_of(Dispatcher(clock, Recorder(), lambda: 1767322985.0).answer(request))
    assert not isinstance(answer, WebSocketResponse)
    return answer, faults


def post_json(target: str, body: Any, headers: tuple[tuple[bytes, bytes], ...] = KEYS) -> Any:
    """The JSON of a unary answer."""
    answer, _ = ask(target, json.dumps(body).encode(), headers)
    assert isinstance(answer, UnaryResponse)
    return json.loads(answer.body)


def post_stream(target: str, body: Any, headers: tuple[tuple[bytes, bytes], ...] = KEYS) -> list[Any]:
    """The JSON of each event of a stream; comments and ``[DONE]`` left out."""
    answer, _ = ask(target, json.dumps(body).encode(), headers)
    assert isinstance(answer, StreamResponse), answer
    lines = b"".join(answer.pieces).decode().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) for text in data if text != "[DONE]"]


def post_refused(target: str, body: Any, headers: tuple[tuple[bytes, bytes], ...] = KEYS) -> str:
    """The message of a 400."""
    answer, _ = ask(target, json.dumps(body).encode(), headers)
    assert isinstance(answer, UnaryResponse), "it was answered"
    assert answer.status == 400, answer
    return str(json.loads(answer.body)["error"]["message"])


FORM: Final = b"multipart/form-data; boundary=B"


def form_of(*parts: tuple[str, str | None, bytes]) -> bytes:
    """A multipart body: names, file names where there are any, and data."""
    made = []
    for name, filename, data in parts:
        more = "" if filename is None else f'; filename="{filename}"'
        made.append(f'--B\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + data)
    return b"\r\n".join([*made, b"--B--\r\n"])


class Client:
    """Asks one dispatcher several things, one after the other."""

    def __init__(self, headers: tuple[tuple[bytes, bytes], ...] = KEYS) -> None:
        self.recorder = Recorder()
        self.dispatcher = Dispatcher(Clock(), self.recorder, lambda: 1767322985.0)
        self.headers = headers
        self.number = 0

    def ask(self, method: str, target: str, body: Any = None, **headers: str) -> Response:
        """What is answered; a body that is no bytes goes as JSON, and ``x_sim_size`` is ``x-sim-size``."""
        self.number += 1
        more = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
        kept = tuple(pair for pair in self.headers if pair[0] not in more)
        head = Head(method.encode(), target.encode(), b"HTTP/1.1", (*kept, *more.items(), (b"host", b"h:1")))
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        request = RecordedRequest(self.number, 1, head, bytearray(sent), complete=True)
        answer, _ = result_of(self.dispatcher.answer(request))
        assert not isinstance(answer, WebSocketResponse)
        return answer

    def json(self, method: str, target: str, body: Any = None, **headers: str) -> Any:
        """The JSON of an answer that went well."""
        answer = self.ask(method, target, body, **headers)
        assert answer.status == 200, answer
        assert isinstance(answer, UnaryResponse)
        return json.loads(answer.body)

    def error(self, method: str, target: str, body: Any = None, **headers: str) -> tuple[int, str]:
        """Status and message of an answer that did not."""
        answer = self.ask(method, target, body, **headers)
        assert isinstance(answer, UnaryResponse), answer
        assert answer.status >= 400, answer
        return answer.status, str(json.loads(answer.body)["error"]["message"])

    def post_form(self, target: str, *parts: tuple[str, str | None, bytes]) -> Any:
        """The JSON of the answer to a form."""
        return self.json("POST", target, form_of(*parts), content_type=FORM.decode())


def body_of(answer: Response) -> bytes:
    """Every byte of an answer's body."""
    if isinstance(answer, StreamResponse):
        return b"".join(answer.pieces)
    if isinstance(answer, DownloadResponse):
        return answer.content.read(answer.start, answer.size)
    return answer.body


TOOL_NAMES: Final = ("look", "find")
_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"where": {"type": "string"}, "how": {"type": "string"}},
    "required": ["where", "how"],
}


def chat_body(said: str, model: str = "m", **more: Any) -> dict[str, Any]:
    """A chat with two tools."""
    tools = [{"type": "function", "function": {"name": name, "parameters": _SCHEMA}} for name in TOOL_NAMES]
    return {"model": model, "messages": [{"role": "user", "content": said}], "tools": tools, **more}


def message_body(said: str, model: str = "m", **more: Any) -> dict[str, Any]:
    """A message with two tools."""
    tools = [{"name": name, "input_schema": _SCHEMA} for name in TOOL_NAMES]
    messages = [{"role": "user", "content": said}]
    return {"model": model, "max_tokens": 4000, "messages": messages, "tools": tools, **more}


def content_body(said: str, **config: Any) -> dict[str, Any]:
    """A content with two functions; ``config`` is the generationConfig."""
    tools = [{"name": name, "parametersJsonSchema": _SCHEMA} for name in TOOL_NAMES]
    return {
        "contents": [{"role": "user", "parts": [{"text": said}]}],
        "tools": [{"functionDeclarations": tools}],
        "generationConfig": config,
    }


def chat(said: str, model: str = "m", **more: Any) -> Any:
    """The answer of a chat."""
    return post_json("/v1/chat/completions", chat_body(said, model, **more))


def chat_stream(said: str, model: str = "m", **more: Any) -> list[Any]:
    """The chunks of a chat."""
    return post_stream("/v1/chat/completions", chat_body(said, model, stream=True, **more))


def message(said: str, model: str = "m", **more: Any) -> Any:
    """The answer of a message."""
    return post_json("/v1/messages", message_body(said, model, **more), CLAUDE)


def message_stream(said: str, model: str = "m", **more: Any) -> list[Any]:
    """The events of a message."""
    return post_stream("/v1/messages", message_body(said, model, stream=True, **more), CLAUDE)


def content(said: str, model: str = "m", **config: Any) -> Any:
    """The answer of a content."""
    return post_json(f"/v1beta/models/{model}:generateContent", content_body(said, **config), GOOGLE)


def content_stream(said: str, model: str = "m", **config: Any) -> list[Any]:
    """The pieces of a content."""
    target = f"/v1beta/models/{model}:streamGenerateContent?alt=sse"
    return post_stream(target, content_body(said, **config), GOOGLE)
