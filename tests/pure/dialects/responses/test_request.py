"""Requests of Responses, parsed: what the items, tools and options of one become."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from mgw.canonical.conversation import (
    Conversation,
    OutputKind,
    Role,
    Signature,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolMode,
    ToolResult,
)
from mgw.canonical.features import Feature
from mgw.dialects import provider_side_of
from mgw.dialects.dialect import Parsed, RenderOptions, RequestContext
from mgw.dialects.models import Models
from mgw.dialects.responses.count import COUNT
from mgw.dialects.responses.options import ResponseReplyOptions
from mgw.dialects.responses.request import parse_request
from mgw.dialects.responses.schema import ClientTool, ToolKind
from mgw.dialects.responses.thoughts import (
    seal_call_signature,
    seal_text_signature,
    seal_thought,
)
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName, Effort, Family, Kind

JsonObject = dict[str, Any]  # Any: JSON

_GEMINI: Final = Signature(Family.GEMINI, "c2ln")


def options_of(parsed: Parsed[Conversation]) -> ResponseReplyOptions:
    return ResponseReplyOptions.of(parsed.reply_options)


def parsed(*items: JsonObject, drop: bool = False, **fields: Any) -> Parsed[Conversation]:  # Any: JSON
    body = {"model": "m", "input": list(items), **fields}
    return parse_request(json.dumps(body).encode(), RequestContext("m", drop_hosted_tools=drop))


def refused(*items: JsonObject, **fields: Any) -> GatewayError:  # Any: JSON
    with pytest.raises(GatewayError) as caught:
        parsed(*items, **fields)
    assert caught.value.reason is Reason.MALFORMED
    return caught.value


def user(text: str = "Hello.", **more: Any) -> JsonObject:  # Any: JSON
    return {"role": "user", "content": text, **more}


def message(role: str, text: str) -> JsonObject:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def call(call_id: str = "c1", name: str = "look", **more: Any) -> JsonObject:  # Any: JSON
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}", **more}


def output(call_id: str = "c1", said: Any = "There.", **more: Any) -> JsonObject:  # Any: JSON
    return {"type": "function_call_output", "call_id": call_id, "output": said, **more}


def additional(*tools: JsonObject) -> JsonObject:
    return {"type": "additional_tools", "role": "developer", "tools": list(tools)}


def reasoning(content: str | None, **more: Any) -> JsonObject:  # Any: JSON
    return {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": content, **more}


def shape(conversation: Conversation) -> list[str]:
    """Return each turn as its role and what it holds, in few words."""
    words = {Text: "text", ToolCall: "call", ToolResult: "result", Thinking: "thought"}
    return [
        " ".join([turn.role.value, *(words.get(type(part), "other") for part in turn.parts)])
        for turn in conversation.turns
    ]


def test_items_of_one_side_are_one_turn() -> None:
    found = parsed(
        message("developer", "Be brief."),
        user(),
        user("More."),
        reasoning(seal_thought("Hm.", Signature(Family.ANTHROPIC, "c2ln"))),
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [
            {"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}]},
        call(),
        call("c2"),
        output("c2"),
        output("c1"),
        message("developer", "Be briefer."),
        user("So?"),
        instructions="First.",
    )  # fmt: skip
    assert found.request.system == (Text("First."), Text("Be brief."))
    assert shape(found.request) == [
        "user text text",
        "assistant thought text call call",
        "user result result",
        "system text",
        "user text",
    ]
    assert found.unread == frozenset()


BETWEEN: Final[dict[str, tuple[list[JsonObject], list[str]]]] = {
    "a message and an instruction before the output": (
        [user(), call(), user(), message("developer", "x"), output()],
        ["user text text", "system text", "assistant call", "user result"],
    ),
    "a message between the outputs": (
        [user(), call(), call("c2"), output(), user(), output("c2")],
        ["user text text", "assistant call call", "user result result"],
    ),
    "no output follows": ([user(), call(), user()], ["user text", "assistant call", "user text"]),
    "the assistant goes on first": (
        [user(), call(), user(), message("assistant", "x"), output()],
        ["user text", "assistant call", "user text", "assistant text", "user result"],
    ),
    "an output of an earlier turn": (
        [call(), user(), call("c2"), user(), output()],
        ["assistant call", "user text", "assistant call", "user text result"],
    ),
}


@pytest.mark.parametrize(("items", "turns"), BETWEEN.values(), ids=BETWEEN)
def test_what_stands_between_a_call_and_its_output_goes_before_the_call(
    items: list[JsonObject], turns: list[str]
) -> None:
    assert shape(parsed(*items).request) == turns


def test_the_last_of_two_results_counts() -> None:
    found = parsed(call(), output(said="Old."), output(said="New."))
    (result,) = found.request.turns[1].parts
    assert isinstance(result, ToolResult)
    assert result.parts == (Text("New."),)
    assert found.unread == {"input[function_call_output]"}


def test_signatures_come_back_to_what_they_sign() -> None:
    found = parsed(
        message("assistant", "I look."),
        reasoning(seal_text_signature(_GEMINI)),
        reasoning(seal_call_signature(_GEMINI)),
        call(),
        call("c2"),
        output(),
        reasoning(seal_thought("", Signature(Family.ANTHROPIC, "c2ln", redacted=True))),
    )
    text, first, second = found.request.turns[0].parts
    assert text == Text("I look.", signature=_GEMINI)
    assert first == ToolCall("c1", "look", "{}", _GEMINI)
    assert second == ToolCall("c2", "look", "{}")
    thought = found.request.turns[-1].parts[0]
    assert thought == Thinking("", Signature(Family.ANTHROPIC, "c2ln", redacted=True))
    assert found.unread == frozenset()


@pytest.mark.parametrize(
    "items",
    [
        [reasoning(seal_call_signature(_GEMINI)), user(), call()],
        [call(), reasoning(seal_call_signature(_GEMINI))],
        [reasoning(seal_call_signature(_GEMINI)), reasoning(seal_call_signature(_GEMINI)), call()],
        [user(), reasoning(seal_text_signature(_GEMINI)), message("assistant", "x")],
        [message("assistant", "x"), call(), reasoning(seal_text_signature(_GEMINI))],
        [reasoning("gAAAA")],
        [reasoning(None)],
        [reasoning(seal_thought("Hm.", _GEMINI)[:-4] + "AAAA")],
    ],
)
def test_what_cannot_be_used_of_a_thought_is_reported(items: list[JsonObject]) -> None:
    found = parsed(user(), *items)
    assert found.unread == {"input[reasoning]"}
    assert "thought" not in " ".join(shape(found.request))


FUNCTION: Final[JsonObject] = {"type": "function", "name": "look", "parameters": {"type": "object"}}
CUSTOM: Final[JsonObject] = {
    "type": "custom",
    "name": "look",
    "description": "Looks.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: /x/"},
}
NAMESPACE: Final[JsonObject] = {
    "type": "namespace",
    "name": "eyes",
    "description": "Of eyes.",
    "tools": [{**FUNCTION, "description": "Looks."}, {"type": "custom", "name": "close"}],
}


def test_every_tool_of_the_client_is_a_function() -> None:
    found = parsed(user(), tools=[CUSTOM, NAMESPACE, {**FUNCTION, "name": "eyes__close"}, FUNCTION])
    custom, look, close, *plain = found.request.tools
    assert [tool.name for tool in plain] == ["eyes__close", "look"]
    assert options_of(found).client_tools == {
        custom.name: ClientTool(ToolKind.CUSTOM, "look"),
        look.name: ClientTool(ToolKind.FUNCTION, "look", "eyes"),
        close.name: ClientTool(ToolKind.CUSTOM, "close", "eyes"),
    }
    assert look.name == "eyes__look"
    assert custom.name.startswith("look_")
    assert len(custom.name) == len("look_") + 8
    assert close.name.startswith("eyes__close_")
    assert "start: /x/" in (custom.description or "")
    assert "lark" in (custom.description or "")
    assert look.description == "Of eyes.\n\nLooks."
    assert found.unread == {"tools[].format"}


def test_history_has_the_names_of_functions_that_are_declared_and_of_others() -> None:
    found = parsed(
        call("c1", "look", namespace="eyes"),
        call("c2", "gone", namespace="ears"),
        call("c3", "eyes__look"),
        {"type": "custom_tool_call", "call_id": "c4", "name": "look", "input": "x\n"},
        {"type": "custom_tool_call_output", "call_id": "c4", "output": [{"type": "input_text", "text": "y"}]},
        tools=[NAMESPACE, FUNCTION],
    )
    calls = [part for part in found.request.turns[0].parts if isinstance(part, ToolCall)]
    names = [one.name for one in calls]
    assert names[:3] == ["eyes__look", "ears__gone", "eyes__look"]
    assert options_of(found).client_tools[names[3]] == ClientTool(ToolKind.CUSTOM, "look")
    assert calls[3].arguments == '{"input":"x\\n"}'
    assert options_of(found).client_tools["ears__gone"] == ClientTool(ToolKind.FUNCTION, "gone", "ears")


CLIENT_TOOLS: Final[dict[str, tuple[JsonObject, JsonObject, str, JsonObject, str]]] = {
    "local_shell": (
        {"type": "local_shell"},
        {"action": {"type": "exec", "command": ["ls"], "env": {}, "user": None, "timeout_ms": 5}},
        '{"command":["ls"],"timeout_ms":5}',
        {"type": "local_shell_call_output", "id": "c1", "output": "a"},
        "a",
    ),
    "shell": (
        {"type": "shell", "environment": {"type": "local"}},
        {"action": {"commands": ["ls"]}, "environment": {"type": "local"}},
        '{"commands":["ls"]}',
        {"type": "shell_call_output", "call_id": "c1", "output": [{"stdout": "a"}], "max_output_length": 9},
        '[{"stdout":"a"}]',
    ),
    "apply_patch": (
        {"type": "apply_patch"},
        {"operation": {"type": "delete_file", "path": "a"}},
        '{"operation":{"type":"delete_file","path":"a"}}',
        {"type": "apply_patch_call_output", "call_id": "c1", "status": "completed", "output": "ok"},
        '{"status":"completed","output":"ok"}',
    ),
    "tool_search": (
        {"type": "tool_search", "execution": "client"},
        {"arguments": {"query": "a"}, "execution": "client"},
        '{"query":"a"}',
        {
            "type": "tool_search_output",
            "call_id": "c1",
            "execution": "client",
            "tools": [FUNCTION, NAMESPACE],
        },
        '{"tools":["look","eyes__look","eyes__close"]}',
    ),
}


@pytest.mark.parametrize("kind", CLIENT_TOOLS)
def test_a_tool_of_the_clients_own_is_called_and_answered_as_a_function(kind: str) -> None:
    tool, said, arguments, answer, result = CLIENT_TOOLS[kind]
    item = {"type": f"{kind}_call", "id": "x_1", "call_id": "c1", "status": "completed", **said}
    found = parsed(user(), item, answer, tools=[tool])
    assert found.request.tools[0].name == kind
    assert options_of(found).client_tools[kind] == ClientTool(ToolKind(kind), kind)
    assert found.request.turns[1].parts == (ToolCall("c1", kind, arguments),)
    assert found.request.turns[2].parts == (ToolResult("c1", (Text(result),)),)
    assert found.unread == frozenset()


def test_a_search_tells_of_each_tool_as_often_as_it_found_it() -> None:
    """Not of the whole namespace for each of its tools."""
    other = {**FUNCTION, "name": "other"}
    tools = [{"type": "local_shell", "name": []}, *[{**NAMESPACE, "tools": [other]}] * 3]
    item = {"type": "tool_search_call", "call_id": "c1", "arguments": {}, "execution": "client"}
    output = {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": tools}
    (result,) = parsed(additional(NAMESPACE), item, output).request.turns[1].parts
    assert isinstance(result, ToolResult)
    assert result.parts == (
        Text(json.dumps({"tools": ["local_shell", *["eyes__other"] * 3]}, separators=(",", ":"))),
    )


def test_a_failed_output_is_an_error() -> None:
    item = {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no"}
    (result,) = parsed(call(), item).request.turns[1].parts
    assert isinstance(result, ToolResult)
    assert result.is_error


def test_more_tools_come_last_and_give_way() -> None:
    found = parsed(
        additional(FUNCTION, NAMESPACE, {**FUNCTION, "name": "b"}),
        additional({**FUNCTION, "name": "b"}),
        user(),
        tools=[FUNCTION],
    )
    assert [tool.name for tool in found.request.tools] == ["look", "eyes__look", "eyes__close", "b"]
    assert found.unread == {"input[additional_tools].tools[]"}
    assert options_of(found).echoed["tools"] == [FUNCTION]


def test_hosted_tools_are_refused_or_left_out() -> None:
    tools = [
        {"type": "web_search", "filters": {}},
        {"type": "shell", "environment": {"type": "container_auto"}},
    ]
    error = refused(user(), tools=[FUNCTION, *tools])
    assert (error.code, error.param) == ("unsupported_tool", "tools[1]")
    assert "translation.responses.hosted_tools" in error.message
    allowed: Any = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}  # Any: JSON
    found = parsed(user(), drop=True, tools=[FUNCTION, *tools], tool_choice=allowed)
    assert found.unread == {"tools[web_search]", "tools[shell]", "tool_choice.tools[web_search]"}
    assert found.request.tool_choice == ToolChoice(ToolMode.NONE)
    assert options_of(found).echoed["tools"] == [FUNCTION]
    allowed["tools"].append({"type": "function", "name": "look"})
    refusing = parsed(user(), tools=[FUNCTION], tool_choice=allowed)
    assert refusing.unread == {"tool_choice.tools[web_search]"}
    assert refusing.request.tool_choice == ToolChoice(ToolMode.AUTO, ("look",))


def test_without_tools_nobody_is_told_how_to_call_them() -> None:
    found = parsed(user(), tools=[], tool_choice="auto", parallel_tool_calls=False)
    assert (found.request.tool_choice, found.request.parallel_calls) == (None, None)
    assert found.unread == frozenset()


def test_a_choice_names_the_function_of_a_tool() -> None:
    tools = [FUNCTION, CUSTOM]
    found = parsed(user(), tools=tools, tool_choice={"type": "custom", "name": "look"})
    assert found.request.tool_choice == ToolChoice(ToolMode.ANY, (found.request.tools[1].name,))
    assert (
        refused(user(), tools=tools, tool_choice={"type": "custom", "name": "no"}).param == "tool_choice.name"
    )


def test_the_last_change_of_configuration_counts() -> None:
    found = parsed(
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        user(),
        {"type": "configuration_update", "text": {"format": {"type": "json_object"}}},
        {"type": "configuration_update", "reasoning": {"effort": "high"}},
        reasoning={"effort": "none", "summary": "auto"},
        text={"verbosity": "medium"},
    )
    assert found.request.reasoning.effort is Effort.HIGH
    assert found.request.reasoning.thoughts is True
    assert found.request.output is not None
    assert found.request.output.kind is OutputKind.JSON
    assert options_of(found).echoed["reasoning"] == {
        "effort": "none",
        "summary": "auto",
    }
    assert found.unread == frozenset()


def test_a_change_of_format_may_take_it_back() -> None:
    update = {"type": "configuration_update", "text": {"format": {"type": "text"}}}
    assert parsed(user(), update, text={"format": {"type": "json_object"}}).request.output is None


def test_an_image_in_an_instruction_is_left_out() -> None:
    image = {"type": "input_image", "image_url": "https://example.com/a.png"}
    found = parsed(message("developer", "Be brief."), user(), {"role": "system", "content": [image]})
    assert found.unread == {"input[].content[input_image]"}


def test_log_probabilities_are_asked_for_at_two_places() -> None:
    found = parsed(user(), include=["message.output_text.logprobs"], top_logprobs=2)
    assert (found.request.sampling.logprobs, found.request.sampling.top_logprobs) == (True, 2)
    assert found.said[Feature.LOGPROBS] == {"include[message.output_text.logprobs]"}
    assert found.said[Feature.TOP_LOGPROBS] == {"top_logprobs"}


def test_what_only_openai_knows_is_left_out() -> None:
    found = parsed(
        {"type": "item_reference", "id": "rs_1"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {}},
        {"type": "of_tomorrow", "words": "x"},
        {"type": "agent_message", "author": "a", "content": [
            {"type": "input_text", "text": "Hi."}, {"type": "encrypted_content", "encrypted_content": "x"}]},
        include=["reasoning.encrypted_content", "web_search_call.results"],
        store=True,
        metadata={"a": "b"},
    )  # fmt: skip
    assert shape(found.request) == ["user text"]
    assert found.unread == {
        "input[item_reference]",
        "input[web_search_call]",
        "input[of_tomorrow]",
        "input[].author",
        "input[agent_message].content[encrypted_content]",
        "include[web_search_call.results]",
        "store",
        "metadata",
    }
    assert options_of(found).echoed == {"metadata": {"a": "b"}}


COMPACTION: Final[JsonObject] = {"type": "compaction", "encrypted_content": "x"}
NO_CALL: Final[JsonObject] = {"type": "function_call_output", "output": ""}
REFUSED: Final[dict[str, tuple[JsonObject, str, str | None]]] = {
    "nothing to say": ({"input": []}, "input", None),
    "no input": ({"input": None}, "input", None),
    "an earlier response": ({"previous_response_id": "r"}, "previous_response_id", "unsupported_parameter"),
    "a conversation": ({"conversation": {"id": "conv_1"}}, "conversation", "unsupported_parameter"),
    "a prompt": ({"prompt": {"id": "pmpt_1"}}, "prompt", "unsupported_parameter"),
    "a response for later": ({"background": True}, "background", "unsupported_parameter"),
    "a text by reference": ({"input": [user(), {"id": "msg_1"}]}, "input[1]", "unsupported_item"),
    "a compaction": ({"input": [COMPACTION]}, "input[0]", "unsupported_item"),
    "an output of no call": ({"input": [output("c9")]}, "input[0].call_id", None),
    "an output of nothing": ({"input": [NO_CALL]}, "input[0].call_id", None),
    "two tools of one name": ({"tools": [FUNCTION, FUNCTION]}, "tools[1].name", None),
    "two tools of one namespace": ({"tools": [NAMESPACE, NAMESPACE]}, "tools[1].tools[0].name", None),
    "an unknown part": ({"input": [user(content=[{"type": "smell"}])]}, "input[0].content[0].type", None),
    "an item of no kind": ({"input": [{}]}, "input[0].type", None),
}  # fmt: skip


@pytest.mark.parametrize(("fields", "param", "code"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_translated_is_refused_at_its_place(
    fields: JsonObject, param: str, code: str | None
) -> None:
    error = refused(user(), **fields) if "input" not in fields else refused(**fields)
    assert (error.param, error.code) == (param, code)
    assert param == "input[0].type" or error.message.startswith(param)


def test_an_output_without_a_call_names_it() -> None:
    assert "'c9'" in refused(output("c9")).message


def test_a_request_has_a_model() -> None:
    with pytest.raises(GatewayError, match="model"):
        parse_request(b'{"input": "x"}', RequestContext(""))


def test_a_count_is_asked_like_a_request() -> None:
    found = COUNT.parse_request(b'{"model": "m", "input": "Hi.", "stream": true}', RequestContext("m"))
    assert (found.request.turns[0].role, found.request.stream) == (Role.USER, False)


def test_what_nobody_reads_is_repeated_only_if_clients_can_read_it() -> None:
    odd = {"metadata": {"a": 1}, "max_tool_calls": "many"}
    fine = {"metadata": {"a": "1"}, "max_tool_calls": 3}
    for fields, repeated in ((odd, {}), ({"metadata": 3}, {}), (fine, fine)):
        body = json.dumps({"model": "m", "input": "Hi", **fields}).encode()
        assert options_of(parse_request(body, RequestContext("m"))).echoed == repeated


def test_a_namespace_in_a_namespace_is_refused_for_what_it_is() -> None:
    inner = {"type": "namespace", "name": "b", "tools": [{"type": "function", "name": "f"}]}
    tools = [{"type": "namespace", "name": "a", "tools": [inner]}]
    body = json.dumps({"model": "m", "input": "Hi", "tools": tools}).encode()
    with pytest.raises(GatewayError, match=r"tools\[0\]\.tools\[0\]\.type: a namespace cannot contain"):
        parse_request(body, RequestContext("m"))


def test_messages_of_the_assistant_that_follow_one_another_do_not_run_together() -> None:
    thought = {"type": "reasoning", "id": "rs_1", "summary": []}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "r"}

    def message(text: str, **more: Any) -> dict[str, Any]:
        return {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": text, "annotations": []}],
            **more,
        }

    user = {"role": "user", "content": "u"}
    items = [
        user,
        message("Looking."),
        thought,
        message("Found.", id="msg_1", status="completed"),
        call,
        result,
    ]
    parsed = parse_request(json.dumps({"model": "m", "input": items}).encode(), RequestContext("m"))
    options = RenderOptions("m", Kind.OPENAI_COMPAT, Models(()).row("m", Family.OPENAI))
    body = json.loads(
        provider_side_of(DialectName.OPENAI_CHAT).text.render_request(parsed.request, options).body
    )
    assert [message["role"] for message in body["messages"]] == ["user", "assistant", "tool"]
    assert body["messages"][1]["content"] == "Looking.\n\nFound."
    assert len(body["messages"][1]["tool_calls"]) == 1
