"""The simulator, judged by OpenAI's own SDK over real sockets."""

import json
from typing import Any

import openai
import pytest

from tests.support.weather import ARGUMENTS, SCHEMA, Weather

TOOLS: list[Any] = [
    {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "time"}},
]


class TestOpenAI:
    """Chat completions and what stands beside them."""

    def test_a_chat_echoes_and_counts_words(self, ours: openai.OpenAI) -> None:
        reply = ours.chat.completions.create(
            model="m-1", messages=[{"role": "user", "content": "hello there"}]
        )
        assert reply.choices[0].message.content == "You said: hello there"
        assert reply.choices[0].finish_reason == "stop"
        assert reply.model == "m-1"
        assert reply.usage is not None
        assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (2, 4)

    def test_each_choice_differs(self, ours: openai.OpenAI) -> None:
        reply = ours.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}], n=2)
        assert [choice.message.content for choice in reply.choices] == ["You said: a", "You said: a (2)"]

    def test_max_tokens_cuts_and_says_length(self, ours: openai.OpenAI) -> None:
        reply = ours.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "a b c"}], max_completion_tokens=3
        )
        assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("You said: a", "length")

    def test_a_stop_string_ends_the_answer_before_it(self, ours: openai.OpenAI) -> None:
        reply = ours.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "a b c"}], stop=[" b"]
        )
        assert reply.choices[0].message.content == "You said: a"

    def test_a_stream_accumulates_to_the_unary_answer(self, ours: openai.OpenAI) -> None:
        with ours.chat.completions.stream(
            model="m",
            messages=[{"role": "user", "content": "use tool weather use tool time preface"}],
            tools=TOOLS,
            stream_options={"include_usage": True},
        ) as stream:
            list(stream)
            reply = stream.get_final_completion()
        message = reply.choices[0].message
        assert message.content == "I call weather, time."
        assert message.tool_calls is not None
        assert [one.function.name for one in message.tool_calls] == ["weather", "time"]
        assert json.loads(message.tool_calls[0].function.arguments) == ARGUMENTS
        assert reply.choices[0].finish_reason == "tool_calls"
        assert reply.usage is not None

    def test_interleaved_calls_accumulate_too(self, ours: openai.OpenAI) -> None:
        with ours.chat.completions.stream(
            model="sim-interleave",
            messages=[{"role": "user", "content": "use tool weather use tool weather"}],
            tools=TOOLS,
        ) as stream:
            reply = stream.get_final_completion()
        calls = reply.choices[0].message.tool_calls
        assert calls is not None
        assert [json.loads(one.function.arguments) for one in calls] == [ARGUMENTS, ARGUMENTS]

    @pytest.mark.parametrize("model", ["sim-noise", "sim-usage-each", "sim-drop-last-1", "sim-stop-length"])
    def test_odd_streams_accumulate_too(self, ours: openai.OpenAI, model: str) -> None:
        pieces = ours.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "a b"}], stream=True
        )
        said = [choice.delta.content or "" for piece in pieces for choice in piece.choices]
        assert "".join(said) == "You said: a b"

    def test_probabilities_and_refusals_parse(self, ours: openai.OpenAI) -> None:
        said: list[Any] = [{"role": "user", "content": "a"}]
        reply = ours.chat.completions.create(model="m", messages=said, logprobs=True, top_logprobs=1)
        assert reply.choices[0].logprobs is not None
        assert reply.choices[0].logprobs.content is not None
        assert reply.choices[0].logprobs.content[0].top_logprobs[0].token == "You"
        refused = ours.chat.completions.create(model="sim-refuse", messages=said)
        assert refused.choices[0].message.refusal == "I cannot help with that."

    def test_a_tool_loop_ends_with_what_the_tool_said(self, ours: openai.OpenAI) -> None:
        messages: list[Any] = [{"role": "user", "content": 'use tool weather with {"city": "Oslo"}'}]
        first = ours.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        assert first.content is None
        assert first.tool_calls is not None
        assert first.tool_calls[0].type == "function"
        assert first.tool_calls[0].function.arguments == '{"city": "Oslo"}'
        messages += [first, {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "rain"}]
        second = ours.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0].message
        assert second.content == "Tool weather returned: rain"

    @pytest.mark.parametrize(
        ("choice", "called"),
        [
            ("required", ["weather"]),
            ({"type": "function", "function": {"name": "time"}}, ["time"]),
            ("none", []),
        ],
    )
    def test_tool_choice_is_obeyed(self, ours: openai.OpenAI, choice: Any, called: list[str]) -> None:
        reply = ours.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "hi"}], tools=TOOLS, tool_choice=choice
        )
        calls: Any = reply.choices[0].message.tool_calls or []
        assert [one.function.name for one in calls] == called

    def test_a_structured_answer_parses(self, ours: openai.OpenAI) -> None:
        reply = ours.chat.completions.parse(
            model="m", messages=[{"role": "user", "content": "weather"}], response_format=Weather
        )
        assert reply.choices[0].message.parsed is not None

    def test_a_call_without_its_tool_message_is_refused(self, ours: openai.OpenAI) -> None:
        call: Any = {"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{}"}}
        with pytest.raises(openai.BadRequestError, match="must be followed by tool messages"):
            ours.chat.completions.create(
                model="m",
                messages=[{"role": "assistant", "tool_calls": [call]}, {"role": "user", "content": "a"}],
            )

    @pytest.mark.parametrize(
        ("body", "param"),
        [
            ({"frobnicate": 1}, "frobnicate"),
            ({"temperature": "hot"}, "temperature"),
            ({"temperature": 3}, "temperature"),
            ({"messages": [{"role": "robot", "content": "a"}]}, "messages[0].role"),
            ({"messages": [{"role": "user", "content": [{"type": "smell"}]}]}, "messages[0].content[0].type"),
            ({"tool_choice": "auto"}, "tool_choice"),
            ({"stream_options": {"include_usage": True}}, "stream_options"),
        ],
    )
    def test_a_wrong_field_is_refused_by_name(
        self, ours: openai.OpenAI, body: dict[str, Any], param: str
    ) -> None:
        with pytest.raises(openai.BadRequestError) as caught:
            ours.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "a"}], extra_body=body
            )
        assert caught.value.param == param

    def test_errors_are_the_sdks_own_classes(self, ours: openai.OpenAI) -> None:
        said: list[Any] = [{"role": "user", "content": "a"}]
        with pytest.raises(openai.NotFoundError) as missing:
            ours.chat.completions.create(model="missing-model", messages=said)
        assert missing.value.code == "model_not_found"
        with pytest.raises(openai.RateLimitError) as limited:
            ours.chat.completions.create(model="sim-status-429+sim-retry-after-7", messages=said)
        assert limited.value.response.headers["retry-after"] == "7"
        with pytest.raises(openai.InternalServerError):
            ours.chat.completions.create(model="sim-status-503", messages=said)
        with pytest.raises(openai.AuthenticationError):
            ours.with_options(api_key="wrong-key").chat.completions.create(model="m", messages=said)

    def test_a_request_without_a_key_is_refused(self, ours: openai.OpenAI) -> None:
        with pytest.raises(openai.AuthenticationError):
            ours.get("/models", cast_to=object, options={"headers": {"Authorization": openai.Omit()}})

    def test_an_error_in_the_stream_raises_in_the_sdk(self, ours: openai.OpenAI) -> None:
        stream = ours.chat.completions.create(
            model="sim-error-in-stream-after-2", messages=[{"role": "user", "content": "a"}], stream=True
        )
        with pytest.raises(openai.APIError, match="broke"):
            list(stream)

    def test_completions_answer_and_stream(self, ours: openai.OpenAI) -> None:
        whole = ours.completions.create(model="m", prompt="a b", suffix="c")
        assert whole.choices[0].text == "You said: a b…c"
        pieces = ours.completions.create(model="m", prompt="a b", stream=True)
        assert "".join(piece.choices[0].text for piece in pieces) == "You said: a b"

    def test_embeddings_are_unit_vectors_in_both_formats(self, ours: openai.OpenAI) -> None:
        unpacked = ours.embeddings.create(
            model="m", input=["a", "b"], dimensions=64
        )  # the SDK asks for base64
        plain = ours.embeddings.create(model="m", input="a", dimensions=64, encoding_format="float")
        assert unpacked.data[0].embedding == pytest.approx(plain.data[0].embedding, abs=1e-6)
        assert sum(value * value for value in plain.data[0].embedding) == pytest.approx(1)
        assert unpacked.data[0].embedding != unpacked.data[1].embedding

    def test_moderations_flag_violence(self, ours: openai.OpenAI) -> None:
        found = ours.moderations.create(input=["peace", "Violence!"])
        assert [one.flagged for one in found.results] == [False, True]
        assert found.results[1].categories.violence

    def test_models_are_listed_and_found(self, ours: openai.OpenAI) -> None:
        assert "echo-small" in [model.id for model in ours.models.list()]
        assert ours.models.retrieve("any/name").id == "any/name"
        with pytest.raises(openai.NotFoundError):
            ours.models.retrieve("missing")


RESPONSE_TOOLS: list[Any] = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": True}]


class TestResponses:
    """OpenAI's responses."""

    def test_text_and_usage(self, ours: openai.OpenAI) -> None:
        reply = ours.responses.create(model="m", input="hello there", instructions="be brief")
        assert reply.output_text == "You said: hello there"
        assert reply.status == "completed"
        assert reply.usage is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (4, 4)

    def test_the_stream_has_every_event_in_order(self, ours: openai.OpenAI) -> None:
        with ours.responses.stream(model="m", input="hi", reasoning={"summary": "auto"}) as stream:
            events = [event.type for event in stream]
            reply = stream.get_final_response()
        assert reply.output_text == "You said: hi"
        assert [item.type for item in reply.output] == ["reasoning", "message"]
        assert events[:4] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.reasoning_summary_part.added",
        ]
        assert events[-4:] == [
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]

    def test_the_stream_accumulates_tool_calls(self, ours: openai.OpenAI) -> None:
        with ours.responses.stream(model="m", input="use tool weather", tools=RESPONSE_TOOLS) as stream:
            [call] = stream.get_final_response().output
        assert call.type == "function_call"
        assert json.loads(call.arguments) == ARGUMENTS

    def test_a_tool_loop_ends_with_what_the_tool_said(self, ours: openai.OpenAI) -> None:
        said: list[Any] = [{"role": "user", "content": "use tool weather"}]
        [call] = ours.responses.create(model="m", input=said, tools=RESPONSE_TOOLS).output
        assert call.type == "function_call"
        said += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        reply = ours.responses.create(model="m", input=said, tools=RESPONSE_TOOLS)
        assert reply.output_text == "Tool weather returned: rain"

    def test_a_loop_without_a_store_goes_on_with_the_thought_that_it_was_given(
        self, ours: openai.OpenAI
    ) -> None:
        said: list[Any] = [{"role": "user", "content": "use tool weather use tool note"}]
        more: dict[str, Any] = {
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "reasoning": {"effort": "low", "summary": "auto"},
            "tools": [*RESPONSE_TOOLS, {"type": "custom", "name": "note"}],
        }
        with ours.responses.stream(model="gpt-5.6", input=said, **more) as stream:
            output = stream.get_final_response().output
        thought, call, note = output
        assert thought.type == "reasoning"
        assert call.type == "function_call"
        assert note.type == "custom_tool_call"
        said += [
            *output,
            {"type": "function_call_output", "call_id": call.call_id, "output": "rain"},
            {"type": "custom_tool_call_output", "call_id": note.call_id, "output": "done"},
        ]
        reply = ours.responses.create(model="gpt-5.6", input=said, **more)
        assert reply.output_text == "Tool weather returned: rain Tool note returned: done"
        said[1] = thought.model_copy(update={"encrypted_content": "gAAAAA=="})
        with pytest.raises(openai.BadRequestError) as caught:
            ours.responses.create(model="gpt-5.6", input=said, **more)
        assert caught.value.code == "invalid_encrypted_content"

    def test_a_structured_answer_parses(self, ours: openai.OpenAI) -> None:
        assert ours.responses.parse(model="m", input="weather", text_format=Weather).output_parsed is not None

    def test_too_little_room_leaves_it_incomplete(self, ours: openai.OpenAI) -> None:
        reply = ours.responses.create(model="m", input="a b c d", max_output_tokens=2)
        assert reply.status == "incomplete"
        assert reply.incomplete_details is not None
        assert reply.incomplete_details.reason == "max_output_tokens"
