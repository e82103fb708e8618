"""Google's Live sessions in memory: what each message leads to."""

import base64
from typing import Any, Final

import pytest
from wsproto.events import BytesMessage, CloseConnection

from tests.memory.mgw_sim.websocket import LIVE, WebSocketClient

_TEXT: Final = {"generationConfig": {"responseModalities": ["TEXT"]}}
_TOOLS: Final = [{"function_declarations": [{"name": "look", "parameters_json_schema": {"type": "object"}}]}]


def blob(data: bytes) -> dict[str, Any]:
    return {
        "realtimeInput": {
            "audio": {"mimeType": "audio/pcm;rate=16000", "data": base64.b64encode(data).decode()}
        }
    }


def said(text: str, *, complete: bool = True) -> dict[str, Any]:
    turns = [{"role": "user", "parts": [{"text": text}]}]
    return {"clientContent": {"turns": turns, "turnComplete": complete}}


def session(model: str = "models/m", **setup: Any) -> WebSocketClient:
    client = WebSocketClient(LIVE)
    done, *_ = client.ask({"setup": {"model": model, **_TEXT, **setup}})
    assert set(done) == {"setupComplete"}
    return client


def text_of(messages: list[Any]) -> str:
    contents = [message.get("serverContent", {}) for message in messages]
    return "".join(part["text"] for one in contents for part in one.get("modelTurn", {}).get("parts", ()))


def closed(client: WebSocketClient, value: Any) -> tuple[int, str]:
    """The code and the reason that a message is answered with."""
    client.say(value)
    close = client.events()[-1]
    assert isinstance(close, CloseConnection)
    return close.code, close.reason or ""


def test_what_is_said_is_json_in_binary_frames() -> None:
    client = WebSocketClient(LIVE)
    client.say({"setup": {"model": "models/m"}})
    [event] = client.events()
    assert isinstance(event, BytesMessage)


def test_a_turn_says_when_it_has_been_made_and_when_it_is_over() -> None:
    *words, made, over = session().ask(said("a", complete=False), said("b"))
    assert text_of(words) == "You said: b"
    assert made == {"serverContent": {"generationComplete": True}}
    assert over["serverContent"] == {"turnComplete": True}
    usage = over["usageMetadata"]
    assert (usage["promptTokenCount"], usage["responseTokenCount"], usage["totalTokenCount"]) == (2, 3, 5)


def test_cached_tokens_are_part_of_the_prompts() -> None:
    usage = session("models/m+sim-cached-1").ask(said("a b"))[-1]["usageMetadata"]
    assert (usage["cachedContentTokenCount"], usage["promptTokenCount"]) == (1, 2)


def test_a_path_may_name_the_model() -> None:
    client = WebSocketClient("/v1beta/models/m:bidiGenerateContent", x_goog_api_key="k")
    assert client.ask(said("a"))[-1]["serverContent"] == {"turnComplete": True}
    assert (
        "setupComplete"
        in WebSocketClient("/v1beta/models/m:bidiGenerateContent").ask({"setup": {"model": "models/m"}})[0]
    )


def test_a_call_waits_for_its_response() -> None:
    client = session(tools=_TOOLS)
    [message] = client.ask(said("use tool look"))
    [call] = message["toolCall"]["functionCalls"]
    response = {"id": call["id"], "name": "look", "response": {"result": "a tree"}}
    assert text_of(client.ask({"tool_response": {"function_responses": [response]}})) == (
        "Tool look returned: a tree"
    )


def test_of_two_calls_both_are_waited_for() -> None:
    client = session(tools=[{"functionDeclarations": [{"name": "look"}, {"name": "find"}]}])
    [message] = client.ask(said("use tool look use tool find"))
    responses = [
        {"id": call["id"], "name": call["name"], "response": {"result": "a tree"}}
        for call in message["toolCall"]["functionCalls"]
    ]
    first, second = ({"toolResponse": {"functionResponses": [one]}} for one in responses)
    assert client.ask(first) == []
    assert text_of(client.ask(second)) == "Tool look returned: a tree Tool find returned: a tree"


def test_a_call_is_taken_back_when_the_client_goes_on() -> None:
    client = session(tools=_TOOLS)
    [message] = client.ask(said("use tool look"))
    cancellation, *rest = client.ask(said("never mind"))
    names = [call["id"] for call in message["toolCall"]["functionCalls"]]
    assert cancellation == {"toolCallCancellation": {"ids": names}}
    assert text_of(rest) == "You said: never mind"


def test_what_is_said_in_between_interrupts() -> None:
    client = session("models/m+sim-chunk-delay-10")
    client.clock.advance(0.01)
    client.ask(said("a b c d"))
    client.clock.pump([0.01] * 3)
    client.ask(blob(b"\1\1" * 160))
    client.clock.pump([0.01] * 9)
    *_, interrupted, over = client.messages()
    assert interrupted == {"serverContent": {"interrupted": True}}
    assert over["usageMetadata"]["responseTokenCount"] < 6


def test_speech_is_heard_and_transcribed() -> None:
    client = session(inputAudioTranscription={}, generationConfig={})
    first, *pieces, _, over = client.ask(blob(b"\1\1" * 1600), {"realtimeInput": {"audioStreamEnd": True}})
    assert first == {"serverContent": {"inputTranscription": {"text": "100 ms of audio"}}}
    assert all("inlineData" in one["serverContent"]["modelTurn"]["parts"][0] for one in pieces)
    details = over["usageMetadata"]["promptTokensDetails"]
    assert {"modality": "AUDIO", "tokenCount": 3} in details
    assert over["usageMetadata"]["responseTokensDetails"][0]["modality"] == "AUDIO"


def test_activities_are_marked_by_hand() -> None:
    client = session(realtimeInputConfig={"automaticActivityDetection": {"disabled": True}})
    assert not client.ask({"realtimeInput": {"activityStart": {}}}, blob(b"\1\1" * 800), blob(bytes(1600)))
    messages = client.ask({"realtimeInput": {"activityEnd": {}}})
    assert text_of(messages) == "You said: 100 ms of audio"
    usage = messages[-1]["usageMetadata"]
    assert usage["promptTokenCount"] == sum(one["tokenCount"] for one in usage["promptTokensDetails"]) == 7


def test_a_session_says_how_to_take_it_up_again_and_when_it_ends() -> None:
    client = WebSocketClient(LIVE)
    setup = {"model": "models/m+sim-go-away-50", "sessionResumption": {}, **_TEXT}
    _, go_away, _ = client.ask({"setup": setup})
    assert go_away == {"goAway": {"timeLeft": "50s"}}
    update = client.ask(said("a"))[-1]["sessionResumptionUpdate"]
    assert update["resumable"]
    assert update["newHandle"]


@pytest.mark.parametrize(
    ("value", "code", "words"),
    [
        (said("a"), 1007, "setup must be the first"),
        ({"setup": {}}, 1007, "model is not specified"),
        ({"setup": {"model": "models/missing"}}, 1008, "is not found"),
        ({"setup": {"model": "models/m+sim-status-429"}}, 1011, "429"),
        ({"setup": {"model": "models/m", "foo": 1}}, 1007, 'Unknown name "foo"'),
        ({"setup": {"model": "models/m+sim-nonsense"}}, 1007, "unknown simulator fault"),
        ([], 1007, "Invalid JSON"),
    ],
)
def test_an_error_is_the_end(value: Any, code: int, words: str) -> None:
    found, reason = closed(WebSocketClient(LIVE), value)
    assert found == code
    assert words in reason


def test_a_second_setup_is_an_error() -> None:
    assert closed(session(), {"setup": {"model": "models/m"}})[0] == 1007


@pytest.mark.parametrize(
    ("query", "authorization", "status"),
    [
        ("", "Token auth_tokens/a", 101),
        ("?access_token=auth_tokens/a", "", 101),
        ("?key=k", "", 401),
        ("", "", 401),
    ],
)
def test_the_constrained_method_wants_a_token(query: str, authorization: str, status: int) -> None:
    target = LIVE.partition("?")[0] + "Constrained" + query
    assert WebSocketClient(target, Authorization=authorization).status == status
