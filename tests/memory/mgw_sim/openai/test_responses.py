"""OpenAI's responses in memory: what they answer, what they refuse, and what they know again."""

import json
from typing import Any, Final

import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from mgw_sim.api import StreamResponse, UnaryResponse
from tests.memory.mgw_sim.client import Client
from tests.support import codex_requests

TARGET: Final = "/v1/responses"
EVENT: Final[TypeAdapter[Any]] = TypeAdapter(ResponseStreamEvent)
LOOK: Final = {
    "type": "function",
    "name": "look",
    "strict": False,
    "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
}
PATCH: Final = {"type": "custom", "name": "patch"}
SPACE: Final = {
    "type": "namespace",
    "name": "team",
    "description": "d",
    "tools": [LOOK, {**PATCH, "name": "draw"}],
}
TOOLS: Final = [LOOK, PATCH, SPACE]
FORGED: Final = "simulated:WyJyc194IiwgbnVsbF0=.0123456789abcdef"
"""It says ``["rs_x", null]``."""
STATELESS: Final = {
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "reasoning": {"effort": "low", "summary": "auto"},
    "tools": TOOLS,
}


def body(given: Any, model: str = "m", **more: Any) -> dict[str, Any]:
    return {"model": model, "input": given, **more}


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(client: Client, given: Any, **more: Any) -> dict[str, Any]:
    """The response, which must be one by OpenAI's types."""
    found: dict[str, Any] = client.json("POST", TARGET, body(given, **more))
    Response.model_validate(found)
    return found


def stream(client: Client, given: Any, **more: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The events of a stream, each one of OpenAI's, and the one that ends it where an error is asked for."""
    found = client.ask("POST", TARGET, body(given, stream=True, **more))
    assert isinstance(found, StreamResponse), found
    *events, error = [json.loads(one.partition(b"data: ")[2]) for one in (*found.pieces, found.error_piece)]
    for event in (*events, error):
        EVENT.validate_python(event)
    return events, error


def refusal(client: Client, given: Any, **more: Any) -> tuple[int, dict[str, Any]]:
    found = client.ask("POST", TARGET, body(given, **more))
    assert isinstance(found, UnaryResponse), "it was answered"
    error: dict[str, Any] = json.loads(found.body)["error"]
    return found.status, error


def loop(client: Client, text: str, **more: Any) -> list[dict[str, Any]]:
    """A conversation up to the outputs of the calls that a text leads to."""
    items = answer(client, [said(text)], **{**STATELESS, **more})["output"]
    outputs = [
        {"type": f"{item['type']}_output", "call_id": item["call_id"], "output": "a tree"}
        for item in items
        if "call_id" in item
    ]
    return [said(text), *items, *outputs]


class TestAnswers:
    def test_parts_are_items_in_their_order(self) -> None:
        text = "use tool look use tool look preface afterword think between"
        items = answer(Client(), text, **STATELESS)["output"]
        kinds = ["reasoning", "message", *["reasoning", "function_call"] * 2, "message"]
        assert [item["type"] for item in items] == kinds
        assert len({item["id"] for item in items}) == len(items)

    @pytest.mark.parametrize("asked", [True, False])
    def test_a_thought_shows_what_was_asked_for(self, asked: bool) -> None:
        more = STATELESS if asked else {"reasoning": {"effort": "low"}}
        thought = answer(Client(), "hi", **more)["output"][0]
        assert [part["text"] for part in thought["summary"]] == ["The user wants: hi"] * asked
        assert ("encrypted_content" in thought) is asked
        assert answer(Client(), "hi think hidden", **STATELESS)["output"][0]["summary"] == []
        assert [item["type"] for item in answer(Client(), "hi")["output"]] == ["message"]

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('use tool patch with {"a": 1}', ("custom_tool_call", "patch", None, '{"a": 1}')),
            ('use tool team.look with {"a": 1}', ("function_call", "look", "team", '{"a": 1}')),
            ("use tool draw with nothing", ("custom_tool_call", "draw", "team", "")),
        ],
    )
    def test_a_call_is_of_the_kind_of_its_tool(self, text: str, expected: tuple[Any, ...]) -> None:
        client = Client()
        events, _ = stream(client, text, tools=TOOLS)
        [item] = events[-1]["response"]["output"]
        given = item.get("input", item.get("arguments"))
        assert (item["type"], item["name"], item.get("namespace"), given) == expected
        word = "custom_tool_call_input" if "input" in item else "function_call_arguments"
        deltas = [event["delta"] for event in events if event["type"] == f"response.{word}.delta"]
        assert "".join(deltas) == given
        assert [event for event in events if event["type"] == f"response.{word}.done"]

    def test_the_outputs_of_all_kinds_are_results(self) -> None:
        client = Client()
        items = loop(client, "use tool look use tool patch use tool draw")
        assert answer(client, items, **STATELESS)["output"][-1]["content"][0]["text"] == (
            "Tool look returned: a tree Tool patch returned: a tree Tool draw returned: a tree"
        )

    def test_the_tools_of_an_input_item_can_be_called(self) -> None:
        extra = {"type": "additional_tools", "role": "developer", "tools": [SPACE]}
        [call] = answer(Client(), [extra, said("use tool look")])["output"]
        assert call["namespace"] == "team"

    def test_an_output_may_have_parts_and_a_file_an_address(self) -> None:
        client = Client()
        *items, output = loop(client, "use tool look")
        parts = [
            {"type": "input_text", "text": "a bush"},
            {"type": "input_image", "image_url": "https://a.example/b.png"},
            {"type": "input_file", "file_url": "https://a.example/b.pdf"},
        ]
        found = answer(client, [*items, {**output, "output": parts}], **STATELESS)
        assert found["output"][-1]["content"][0]["text"] == "Tool look returned: a bush"
        plain = answer(client, [*items, {**output, "output": "a bush"}], **STATELESS)
        assert found["usage"]["input_tokens"] == plain["usage"]["input_tokens"] + 2

    def test_strict_is_what_the_schema_allows_where_nothing_is_said(self) -> None:
        free = {"type": "object", "properties": {"a": {"type": "object", "additionalProperties": True}}}
        tools = [
            {"type": "function", "name": "closed", "parameters": LOOK["parameters"]},
            {"type": "function", "name": "free", "parameters": free},
            LOOK,
        ]
        closed, open_, said_so = answer(Client(), "hi", tools=tools)["tools"]
        assert closed["strict"] is True
        assert closed["parameters"]["required"] == ["where"]
        assert closed["parameters"]["additionalProperties"] is False
        assert (open_["strict"], open_["parameters"]) == (False, free)
        assert said_so == LOOK

    def test_only_what_was_cut_is_incomplete(self) -> None:
        found = answer(Client(), "use tool look preface", tools=TOOLS, max_output_tokens=4)
        assert [item["status"] for item in found["output"]] == ["completed", "incomplete"]
        thinking = answer(Client(), "a b c", max_output_tokens=2, **STATELESS)
        assert [item["type"] for item in thinking["output"]] == ["reasoning"]
        assert thinking["incomplete_details"] == {"reason": "max_output_tokens"}
        assert answer(Client(), "a", model="sim-block-x")["incomplete_details"]["reason"] == "content_filter"

    def test_noise_and_unknown_things_stand_beside_the_answer(self) -> None:
        plain, _ = stream(Client(), "use tool look preface", **STATELESS)
        given = body("use tool look preface", "m+sim-noise+sim-unknown", stream=True, **STATELESS)
        found = Client().ask("POST", TARGET, given)
        assert isinstance(found, StreamResponse)
        assert b": still here\n\n" in found.pieces
        events = [json.loads(one.partition(b"data: ")[2]) for one in found.pieces if one[:1] != b":"]
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert [event["type"] for event in events][2] == "response.future"
        deltas = [[one["delta"] for one in flow if "delta" in one] for flow in (plain, events)]
        assert [delta for delta in deltas[1] if delta] == deltas[0]
        assert len(deltas[1]) == 2 * len(deltas[0])
        *items, unknown = events[-1]["response"]["output"]
        assert items == plain[-1]["response"]["output"]
        assert unknown["type"] == "future_call"
        added, done = [event["type"] for event in events if event.get("item", {}).get("id") == unknown["id"]]
        assert (added, done) == ("response.output_item.added", "response.output_item.done")

    @pytest.mark.parametrize(
        ("words", "kind", "code"),
        [
            ("", "response.failed", "server_error"),
            ("+sim-error-code-rate_limit_exceeded", "response.failed", "rate_limit_exceeded"),
            ("+sim-odd-error+sim-error-code-rate_limit_exceeded", "error", "rate_limit_exceeded"),
        ],
    )
    def test_a_stream_fails_as_it_is_told(self, words: str, kind: str, code: str) -> None:
        _, error = stream(Client(), "a", model=f"m+sim-error-in-stream-after-3{words}")
        assert (error["type"], error["sequence_number"]) == (kind, 3)
        assert error.get("response", {}).get("error", error)["code"] == code


class TestHistory:
    """Without a store only its own encrypted thoughts are known; with one, the items that it has kept."""

    @pytest.mark.parametrize("keeps_ids", [True, False])
    def test_a_loop_goes_on_with_its_thought(self, keeps_ids: bool) -> None:
        client = Client()
        items = loop(client, "use tool look use tool patch think between preface")
        if not keeps_ids:
            items = [{key: value for key, value in item.items() if key != "id"} for item in items]
        assert answer(client, items, **STATELESS)["output"][-1]["type"] == "message"

    def test_a_thought_that_led_to_nothing_needs_nothing_behind_it(self) -> None:
        client = Client()
        thought, _ = answer(client, "say nothing", **STATELESS)["output"]
        items = [said("say nothing"), thought, said("a")]
        assert answer(client, items, **STATELESS)["status"] == "completed"

    def test_encrypted_content_is_whole_only_when_its_item_is_done(self) -> None:
        events, _ = stream(Client(), "hi", **STATELESS)
        added, done = (
            event["item"]["encrypted_content"]
            for event in events
            if event["type"].startswith("response.output_item") and event["item"]["type"] == "reasoning"
        )
        assert events[-1]["response"]["output"][0]["encrypted_content"] == done
        status, error = refusal(
            Client(),
            [{"type": "reasoning", "summary": [], "encrypted_content": added}, said("a")],
            **STATELESS,
        )
        assert (status, error["code"]) == (400, "invalid_encrypted_content")

    @pytest.mark.parametrize(
        ("change", "status", "code", "words"),
        [
            ({"encrypted_content": None}, 404, None, "Items are not persisted when `store` is set to false"),
            ({"encrypted_content": None, "id": None}, 400, "missing_required_parameter", "encrypted_content"),
            ({"encrypted_content": "gAAAAA=="}, 400, "invalid_encrypted_content", "decrypted or parsed"),
            ({"encrypted_content": FORGED, "id": "rs_x"}, 400, "invalid_encrypted_content", "decrypted"),
            ({"id": "rs_mgw1"}, 400, "invalid_encrypted_content", "did not match the target item id"),
            ({"id": "msg_1"}, 400, "invalid_value", "Expected an ID that begins with 'rs'"),
            ({"summary": None}, 400, "missing_required_parameter", "'input[1].summary'"),
            ({"thinking": "x"}, 400, "unknown_parameter", "'input[1].thinking'"),
        ],
    )
    def test_a_thought_that_was_changed_is_refused(
        self, change: dict[str, Any], status: int, code: str | None, words: str
    ) -> None:
        client = Client()
        items = loop(client, "use tool look")
        items[1] = {**items[1], **change}
        found, error = refusal(client, items, **STATELESS)
        assert (found, error["code"]) == (status, code), error
        assert words in error["message"]
        if code not in {"missing_required_parameter"}:
            assert answer(client, items, model="sim-lenient", **STATELESS)["status"] == "completed"

    @pytest.mark.parametrize(
        "order",
        [
            pytest.param([0, 1, 3, 2, 4, 5, 6], id="before another call"),
            pytest.param([0, 2, 4, 5, 6, 1], id="at the end"),
            pytest.param([0, 1, 0, 2, 3, 4, 5, 6], id="before a user turn"),
        ],
    )
    def test_a_thought_stands_before_what_it_led_to(self, order: list[int]) -> None:
        client = Client()
        items = loop(client, "use tool look use tool patch think between")
        _, error = refusal(client, [items[place] for place in order], **STATELESS)
        assert error["message"].endswith(
            "of type 'reasoning' was provided without its required following item."
        )

    def test_a_reference_is_what_was_stored(self) -> None:
        client = Client()
        items = loop(client, "use tool look", store=True)
        referring = [
            *items[:1],
            *({"type": "item_reference", "id": item["id"]} for item in items[1:3]),
            items[3],
        ]
        found = answer(client, referring, tools=TOOLS)
        assert found["output"][0]["content"][0]["text"] == "Tool look returned: a tree"
        assert refusal(Client(), referring, tools=TOOLS) == refusal(Client(), referring[:2] + items[2:])
        status, error = refusal(Client(), referring, **STATELESS)
        assert (status, error["param"]) == (404, "input")

    def test_a_stored_call_needs_its_thought_and_one_without_name_does_not(self) -> None:
        client = Client()
        items = loop(client, "use tool look", store=True)
        del items[1]
        _, error = refusal(client, items)
        assert error["message"] == (
            f"Item '{items[1]['id']}' of type 'function_call' was provided without its required 'reasoning' "
            "item: 'rs_sim00000001'."
        )
        unnamed = {key: value for key, value in items[1].items() if key != "id"}
        assert answer(client, [items[0], unnamed, items[2]])["status"] == "completed"


CALL: Final = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}
OUTPUT: Final = {"type": "function_call_output", "call_id": "c", "output": "x"}
PDF: Final = "data:application/pdf;base64,aGk="


class TestRefusals:
    @pytest.mark.parametrize(
        ("items", "param", "words"),
        [
            ([CALL], "input", "No tool output found for function call c."),
            ([OUTPUT, CALL], "input", "No tool call found for function call output with call_id c."),
            (
                [{"type": "custom_tool_call", "call_id": "c", "name": "x", "input": "{"}],
                "input",
                "No tool output found for custom tool call c.",
            ),
            ([{**CALL, "call_id": "c" * 65}], "input[0].call_id", "maximum length 64, but got a string with"),
            ([{**CALL, "id": "call_1"}], "input[0].id", "begins with 'fc'"),
            ([{**CALL, "id": ""}], "input[0].id", "letters, numbers, underscores, or dashes"),
            ([{**CALL, "cache_control": {}}], "input[0].cache_control", "Unknown parameter"),
            ([{"type": "robot"}], "input[0]", "Invalid value: 'robot'. Supported values are: 'message'"),
            (
                [{"role": "assistant", "content": [{"type": "input_text", "text": "a"}]}],
                "input[0].content[0]",
                "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
            ),
            (
                [{"role": "user", "content": [{"type": "output_text", "text": "a"}]}],
                "input[0].content[0]",
                "'input_text', 'input_image' and",
            ),
            (
                [{"role": "user", "content": [{"type": "input_file", "file_data": PDF}]}],
                "input[0].content[0].filename",
                "Missing required parameter",
            ),
            (
                [{"role": "user", "content": [{"type": "input_file", "file_url": "b.pdf"}]}],
                "input[0].content[0].file_url",
                "valid URL",
            ),
            (
                [CALL, {**OUTPUT, "output": [{"type": "input_image", "image_url": "data:x"}]}],
                "input[1].output[0].image_url",
                "base64-encoded data URL",
            ),
        ],
    )
    def test_items_are_refused_by_name(self, items: list[Any], param: str, words: str) -> None:
        status, error = refusal(Client(), items)
        assert (status, error["param"]) == (400, param), error
        assert words in error["message"]

    @pytest.mark.parametrize(
        ("more", "param"),
        [
            ({"tools": [{**LOOK, "strict": True}]}, "tools[0].parameters"),
            ({"tools": [{**LOOK, "function": {}}]}, "tools[0].function"),
            ({"tools": [{"type": "namespace", "name": "n", "tools": []}]}, "tools[0].description"),
            ({"tools": [{**SPACE, "tools": [{"type": "web_search"}]}]}, "tools[0].tools[0]"),
            ({"tools": [PATCH], "tool_choice": {"type": "function", "name": "look"}}, "tool_choice"),
            ({"tool_choice": "required"}, "tool_choice"),
            ({"stop": "x"}, "stop"),
            ({"max_tokens": 1}, "max_tokens"),
        ],
    )
    def test_other_fields_are_refused_by_name(self, more: dict[str, Any], param: str) -> None:
        status, error = refusal(Client(), "a", **more)
        assert (status, error["param"]) == (400, param), error

    @pytest.mark.parametrize(
        ("model", "more", "param"),
        [
            ("gpt-4o", {"reasoning": {"effort": "low"}}, "reasoning.effort"),
            ("gpt-4.1", {"include": ["reasoning.encrypted_content"]}, "include"),
            ("gpt-5", {"reasoning": {"effort": "none"}}, "reasoning.effort"),
            ("gpt-5.1", {"reasoning": {"effort": "minimal"}}, "reasoning.effort"),
            ("gpt-5.5+sim-noise", {"reasoning": {"effort": "max"}}, "reasoning.effort"),
            ("o4-mini", {"temperature": 0.5}, "temperature"),
            ("gpt-5.4", {"top_p": 0.5, "reasoning": {"effort": "low"}}, "top_p"),
            ("gpt-4o", {"text": {"format": {"type": "json_object"}}}, "input"),
        ],
    )
    def test_a_model_refuses_what_its_kind_does_not_take(
        self, model: str, more: dict[str, Any], param: str
    ) -> None:
        status, error = refusal(Client(), "a", model=model, **more)
        assert (status, error["param"]) == (400, param), error
        assert answer(Client(), "a", model="host/model", **more)["status"] == "completed"

    @pytest.mark.parametrize(
        ("model", "more"),
        [
            ("gpt-4o", {"temperature": 0.5}),
            ("gpt-5.4", {"temperature": 0.5}),
            ("gpt-5", {"temperature": 1}),
            ("gpt-5.6", {"reasoning": {"effort": "max"}, "tools": [LOOK]}),
            ("gpt-6-sol", {"reasoning": {"effort": "none"}, "top_p": 0.5}),
        ],
    )
    def test_a_model_takes_what_its_kind_takes(self, model: str, more: dict[str, Any]) -> None:
        assert answer(Client(), "a", model=model, **more)["status"] == "completed"

    def test_what_codex_sends_is_taken_but_for_a_thought_of_another_model(self) -> None:
        client = Client()
        first, second = json.loads(codex_requests.FIRST), json.loads(codex_requests.SECOND)
        assert client.json("POST", TARGET, {**first, "stream": False})["status"] == "completed"
        assert client.error("POST", TARGET, second)[0] == 400
        own = [item for item in second["input"] if item["type"] != "reasoning"]
        assert client.json("POST", TARGET, {**second, "stream": False, "input": own})["status"] == "completed"
