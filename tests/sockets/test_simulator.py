"""The simulator, judged by the vendors' own SDKs over real sockets."""

import http.client
import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types
from pydantic import BaseModel

from tests.support.patience import PATIENCE
from tests.support.simulator import SimulatorProcess

ROOT = Path(__file__).resolve().parents[2]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 3},
        "unit": {"type": "string", "enum": ["metric", "imperial"]},
    },
    "required": ["city", "days", "unit"],
    "additionalProperties": False,
}
ARGUMENTS = {"city": "some city", "days": 3, "unit": "metric"}


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: float
    windy: bool
    days: list[int]


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

    def test_a_structured_answer_parses(self, ours: openai.OpenAI) -> None:
        assert ours.responses.parse(model="m", input="weather", text_format=Weather).output_parsed is not None

    def test_too_little_room_leaves_it_incomplete(self, ours: openai.OpenAI) -> None:
        reply = ours.responses.create(model="m", input="a b c d", max_output_tokens=2)
        assert reply.status == "incomplete"
        assert reply.incomplete_details is not None
        assert reply.incomplete_details.reason == "max_output_tokens"


CLAUDE_TOOLS: list[Any] = [
    {"name": "weather", "description": "the weather", "input_schema": SCHEMA},
    {"name": "time", "input_schema": {"type": "object"}},
]


def _old(client: anthropic.Anthropic) -> anthropic.Anthropic:
    return client.with_options(default_headers={"anthropic-version": "2023-06-01"})


class TestAnthropic:
    """Messages."""

    def test_a_message_echoes_and_counts_words(self, claude: anthropic.Anthropic) -> None:
        reply = claude.messages.create(
            model="m", max_tokens=50, messages=[{"role": "user", "content": "hello there"}]
        )
        assert reply.content[0].type == "text"
        assert reply.content[0].text == "You said: hello there"
        assert reply.stop_reason == "end_turn"
        assert (reply.usage.input_tokens, reply.usage.output_tokens) == (2, 4)

    def test_cached_tokens_are_not_input_tokens(self, claude: anthropic.Anthropic) -> None:
        reply = claude.messages.create(
            model="sim-cached-1+sim-cache-write-1",
            max_tokens=50,
            messages=[{"role": "user", "content": "a b c"}],
        )
        usage = reply.usage
        assert (usage.input_tokens, usage.cache_read_input_tokens, usage.cache_creation_input_tokens) == (
            1,
            1,
            1,
        )

    def test_a_stream_accumulates_text_thinking_and_calls(self, claude: anthropic.Anthropic) -> None:
        with claude.messages.stream(
            model="m",
            max_tokens=2000,
            thinking={"type": "enabled", "budget_tokens": 1024},
            tools=CLAUDE_TOOLS,
            messages=[{"role": "user", "content": "use tool weather use tool time preface"}],
        ) as stream:
            reply = stream.get_final_message()
        assert [block.type for block in reply.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert reply.content[2].type == "tool_use"
        assert reply.content[2].input == ARGUMENTS
        assert reply.stop_reason == "tool_use"

    def test_a_stream_accumulates_hidden_thoughts_between_calls(self, claude: anthropic.Anthropic) -> None:
        for model in ("m", "sim-noise", "sim-usage-each"):
            with claude.messages.stream(
                model=model,
                max_tokens=2000,
                thinking={"type": "adaptive"},
                tools=CLAUDE_TOOLS,
                messages=[
                    {"role": "user", "content": "use tool time use tool weather think between think hidden"}
                ],
            ) as stream:
                reply = stream.get_final_message()
            assert [block.type for block in reply.content] == ["redacted_thinking", "tool_use"] * 2
            assert reply.usage.output_tokens_details is not None
            assert reply.usage.output_tokens_details.thinking_tokens > 0

    def test_a_refusal_says_why(self, claude: anthropic.Anthropic) -> None:
        reply = claude.messages.create(
            model="sim-refuse", max_tokens=9, messages=[{"role": "user", "content": "a"}]
        )
        assert reply.stop_details is not None
        assert reply.stop_details.category == "general_harms"

    def test_the_events_follow_the_grammar(self, claude: anthropic.Anthropic) -> None:
        events = claude.messages.create(
            model="m", max_tokens=9, messages=[{"role": "user", "content": "a"}], stream=True
        )
        assert [event.type for event in events] == [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]

    def test_a_tool_loop_with_thinking_goes_through(self, claude: anthropic.Anthropic) -> None:
        messages: list[Any] = [{"role": "user", "content": "use tool weather"}]
        more: dict[str, Any] = {"model": "m", "max_tokens": 3000, "tools": CLAUDE_TOOLS}
        more["thinking"] = {"type": "enabled", "budget_tokens": 2000}
        first = claude.messages.create(messages=messages, **more)
        call = first.content[-1]
        assert call.type == "tool_use"
        answered: Any = {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}],
        }
        turn: Any = {"role": "assistant", "content": first.content}
        second = claude.messages.create(messages=[*messages, turn, answered], **more)
        assert second.content[-1].type == "text"
        assert second.content[-1].text == "Tool weather returned: rain"
        without: Any = {"role": "assistant", "content": [call]}
        with pytest.raises(anthropic.BadRequestError, match="Expected `thinking`"):
            claude.messages.create(messages=[*messages, without, answered], **more)

    def test_a_forged_signature_is_refused(self, claude: anthropic.Anthropic) -> None:
        thought: Any = {"type": "thinking", "thinking": "hm", "signature": "Zm9v"}
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
            claude.messages.create(
                model="m",
                max_tokens=9,
                messages=[
                    {"role": "user", "content": "a"},
                    {"role": "assistant", "content": [thought, {"type": "text", "text": "b"}]},
                    {"role": "user", "content": "c"},
                ],
            )

    def test_a_call_without_its_result_is_refused(self, claude: anthropic.Anthropic) -> None:
        call: Any = {"type": "tool_use", "id": "t1", "name": "weather", "input": {}}
        with pytest.raises(anthropic.BadRequestError, match="without `tool_result` blocks"):
            claude.messages.create(
                model="m",
                max_tokens=9,
                messages=[{"role": "assistant", "content": [call]}, {"role": "user", "content": "a"}],
            )

    def test_sampling_belongs_to_the_older_version(self, claude: anthropic.Anthropic) -> None:
        body: Any = {"temperature": 0.5, "top_p": 0.9, "top_k": 4}
        said: list[Any] = [{"role": "user", "content": "a"}]
        with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
            claude.messages.create(model="m", max_tokens=9, messages=said, extra_body=body)
        reply = _old(claude).messages.create(model="m", max_tokens=9, messages=said, extra_body=body)
        assert reply.stop_reason == "end_turn"

    def test_an_unknown_version_is_refused(self, claude: anthropic.Anthropic) -> None:
        with pytest.raises(anthropic.BadRequestError, match="anthropic-version"):
            claude.with_options(default_headers={"anthropic-version": "1999-01-01"}).messages.create(
                model="m", max_tokens=9, messages=[{"role": "user", "content": "a"}]
            )

    def test_a_structured_answer_parses(self, claude: anthropic.Anthropic) -> None:
        reply = claude.messages.parse(
            model="m", max_tokens=99, messages=[{"role": "user", "content": "weather"}], output_format=Weather
        )
        assert reply.parsed_output is not None

    @pytest.mark.parametrize(
        ("choice", "called"),
        [
            ({"type": "any"}, ["weather"]),
            ({"type": "tool", "name": "time"}, ["time"]),
            ({"type": "none"}, []),
        ],
    )
    def test_tool_choice_is_obeyed(self, claude: anthropic.Anthropic, choice: Any, called: list[str]) -> None:
        reply = claude.messages.create(
            model="m",
            max_tokens=99,
            messages=[{"role": "user", "content": "hi"}],
            tools=CLAUDE_TOOLS,
            tool_choice=choice,
        )
        assert [block.name for block in reply.content if block.type == "tool_use"] == called

    def test_stop_sequences_are_named(self, claude: anthropic.Anthropic) -> None:
        reply = claude.messages.create(
            model="m", max_tokens=99, messages=[{"role": "user", "content": "a b c"}], stop_sequences=[" b"]
        )
        assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", " b")

    def test_tokens_are_counted_as_they_are_charged(self, claude: anthropic.Anthropic) -> None:
        said: list[Any] = [{"role": "user", "content": "a b c"}]
        counted = claude.messages.count_tokens(model="m", messages=said, system="d e", tools=CLAUDE_TOOLS)
        reply = claude.messages.create(
            model="m", max_tokens=9, messages=said, system="d e", tools=CLAUDE_TOOLS
        )
        assert counted.input_tokens == reply.usage.input_tokens == 7

    def test_models_are_listed_and_found(self, claude: anthropic.Anthropic) -> None:
        assert "echo-small" in [model.id for model in claude.models.list()]
        assert claude.models.retrieve("any").id == "any"

    def test_errors_are_the_sdks_own_classes(self, claude: anthropic.Anthropic) -> None:
        said: list[Any] = [{"role": "user", "content": "a"}]
        for model, error in (
            ("missing-model", anthropic.NotFoundError),
            ("sim-status-429", anthropic.RateLimitError),
            ("sim-status-529", anthropic.APIStatusError),
        ):
            with pytest.raises(error):
                claude.messages.create(model=model, max_tokens=9, messages=said)
        with pytest.raises(anthropic.AuthenticationError):
            claude.with_options(api_key="wrong-key").messages.create(model="m", max_tokens=9, messages=said)

    def test_an_error_in_the_stream_raises_in_the_sdk(self, claude: anthropic.Anthropic) -> None:
        stream = claude.messages.create(
            model="sim-error-in-stream-after-3",
            max_tokens=9,
            messages=[{"role": "user", "content": "a"}],
            stream=True,
        )
        with pytest.raises(anthropic.APIStatusError, match="Overloaded"):
            list(stream)


GOOGLE_TOOLS: list[Any] = [
    genai_types.Tool(
        function_declarations=[
            genai_types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA),
            genai_types.FunctionDeclaration(name="time"),
        ]
    )
]
AUTOMATIC_OFF = genai_types.AutomaticFunctionCallingConfig(disable=True)


class TestGemini:
    """generateContent and what stands beside it."""

    def test_an_answer_echoes_and_counts_words(self, google: genai.Client) -> None:
        reply = google.models.generate_content(model="gemini-x", contents="hello there")
        assert reply.text == "You said: hello there"
        assert reply.usage_metadata is not None
        assert reply.usage_metadata.prompt_token_count == 2
        assert reply.usage_metadata.candidates_token_count == 4
        assert reply.model_version == "gemini-x"

    def test_a_stream_gives_the_same_text_in_pieces(self, google: genai.Client) -> None:
        pieces = list(google.models.generate_content_stream(model="m", contents="hello there"))
        assert len(pieces) == 4
        assert "".join(piece.text or "" for piece in pieces) == "You said: hello there"
        assert pieces[-1].candidates is not None
        assert pieces[-1].candidates[0].finish_reason == genai_types.FinishReason.STOP

    def test_a_tool_loop_in_a_chat_goes_through(self, google: genai.Client) -> None:
        config = genai_types.GenerateContentConfig(
            tools=GOOGLE_TOOLS, automatic_function_calling=AUTOMATIC_OFF
        )
        chat = google.chats.create(model="gemini-3-x", config=config)
        first = chat.send_message("use tool weather use tool time")
        assert first.function_calls is not None
        assert [one.name for one in first.function_calls] == ["weather", "time"]
        assert first.function_calls[0].args == ARGUMENTS
        answers = [
            genai_types.Part(
                function_response=genai_types.FunctionResponse(
                    id=one.id, name=one.name, response={"result": "rain"}
                )
            )
            for one in first.function_calls
        ]
        second = chat.send_message(answers)
        assert second.text == "Tool weather returned: rain Tool time returned: rain"

    def test_automatic_function_calling_runs_a_python_function(self, google: genai.Client) -> None:
        def double(number: int) -> int:
            """Double a number."""
            return 2 * number

        reply = google.models.generate_content(
            model="gemini-3-x",
            contents="use tool double",
            config=genai_types.GenerateContentConfig(tools=[double]),
        )
        assert reply.text == "Tool double returned: 2"

    def test_odd_streams_are_read(self, google: genai.Client) -> None:
        for model in ("sim-noise", "sim-usage-each", "sim-usage-none", "sim-drop-last-1"):
            pieces = list(google.models.generate_content_stream(model=model, contents="a b"))
            said = "".join(piece.text or "" for piece in pieces)
            assert "You said: a b".startswith(said)
            assert said

    def test_odd_endings_are_read(self, google: genai.Client) -> None:
        blocked = google.models.generate_content(model="sim-block-SAFETY", contents="a")
        assert blocked.prompt_feedback is not None
        assert blocked.prompt_feedback.block_reason == genai_types.BlockedReason.SAFETY
        reply = google.models.generate_content(
            model="sim-stop-MALFORMED_FUNCTION_CALL",
            contents="say nothing",
            config=genai_types.GenerateContentConfig(response_logprobs=True),
        )
        assert reply.candidates is not None
        assert reply.candidates[0].finish_reason == genai_types.FinishReason.MALFORMED_FUNCTION_CALL
        assert reply.candidates[0].content is None

    def test_thoughts_come_with_a_signature(self, google: genai.Client) -> None:
        config = genai_types.GenerateContentConfig(
            thinking_config=genai_types.ThinkingConfig(include_thoughts=True)
        )
        reply = google.models.generate_content(model="m", contents="hi", config=config)
        assert reply.candidates is not None
        assert reply.candidates[0].content is not None
        thought, said = reply.candidates[0].content.parts or []
        assert thought.thought
        assert said.text == "You said: hi"
        assert said.thought_signature is not None

    def test_a_structured_answer_parses(self, google: genai.Client) -> None:
        config = genai_types.GenerateContentConfig(
            response_mime_type="application/json", response_schema=Weather
        )
        reply = google.models.generate_content(model="m", contents="weather", config=config)
        assert isinstance(reply.parsed, Weather)

    def test_tokens_are_counted(self, google: genai.Client) -> None:
        assert google.models.count_tokens(model="m", contents="a b c").total_tokens == 3

    def test_embeddings_are_unit_vectors(self, google: genai.Client) -> None:
        config = genai_types.EmbedContentConfig(output_dimensionality=32)
        found = google.models.embed_content(model="m", contents=["a", "b"], config=config)
        assert found.embeddings is not None
        assert [len(one.values or []) for one in found.embeddings] == [32, 32]

    def test_models_are_listed_and_found(self, google: genai.Client) -> None:
        assert "models/echo-small" in [model.name for model in google.models.list()]
        assert google.models.get(model="any").name == "models/any"

    def test_errors_are_the_sdks_own_classes(self, google: genai.Client) -> None:
        for model, code, status in (
            ("missing-model", 404, "NOT_FOUND"),
            ("sim-status-429", 429, "RESOURCE_EXHAUSTED"),
        ):
            with pytest.raises(genai_errors.ClientError) as caught:
                google.models.generate_content(model=model, contents="a")
            assert (caught.value.code, caught.value.status) == (code, status)
        with pytest.raises(genai_errors.ServerError):
            google.models.generate_content(model="sim-status-503", contents="a")

    def test_an_unknown_name_is_refused_with_its_path(self, google: genai.Client) -> None:
        config = genai_types.GenerateContentConfig(
            http_options=genai_types.HttpOptions(extra_body={"generationConfig": {"warmth": 1}})
        )
        with pytest.raises(genai_errors.ClientError, match=r"Unknown name .*warmth.* at .*generation_config"):
            google.models.generate_content(model="m", contents="a", config=config)


def test_requests_are_recorded_as_they_came(simulator: SimulatorProcess) -> None:
    simulator.clear()
    body = b'{ "model":"m","messages":[{"role":"user","content":"a"}]}'
    connection = http.client.HTTPConnection("127.0.0.1", simulator.port, timeout=PATIENCE)
    headers = {"Authorization": "Bearer k", "Content-Type": "application/json", "X-oDD-Case": "Yes"}
    connection.request("POST", "/v1/chat%2Fcompletions/../x?a=%25", body, headers)
    connection.getresponse().read()
    connection.request("POST", "/v1/chat/completions", body, headers)
    connection.getresponse().read()
    connection.close()
    first, second = simulator.requests()
    assert (first.method, first.target, first.status) == ("POST", "/v1/chat%2Fcompletions/../x?a=%25", 404)
    assert ("X-oDD-Case", "Yes") in second.headers
    assert second.body == body
    assert second.answered
    assert not second.client_left
    assert simulator.counters()["connections"] == 1


def test_a_client_that_leaves_is_noticed(simulator: SimulatorProcess, ours: openai.OpenAI) -> None:
    simulator.clear()
    stream = ours.chat.completions.create(
        model="sim-stall-body-after-2", messages=[{"role": "user", "content": "a"}], stream=True
    )
    next(stream)
    stream.close()
    simulator.wait_for("client_left")
    assert simulator.requests()[0].client_left


@pytest.mark.parametrize(
    "fault",
    ["sim-reset-before", "sim-reset-after-2", "sim-truncate-after-2", "sim-garbage", "sim-garbage-after-2"],
)
def test_a_broken_connection_is_an_error_in_the_sdk(ours: openai.OpenAI, fault: str) -> None:
    with pytest.raises(openai.APIConnectionError):
        list(
            ours.chat.completions.create(
                model=fault, messages=[{"role": "user", "content": "a b c"}], stream=True
            )
        )


@pytest.mark.parametrize(
    "fault",
    ["sim-1xx", "sim-http10", "sim-gzip", "sim-force-gzip", "sim-cut-1", "sim-delay-5"],
)
def test_what_is_only_odd_still_answers(ours: openai.OpenAI, fault: str) -> None:
    said: list[Any] = [{"role": "user", "content": "a"}]
    for _ in range(2):
        whole = ours.chat.completions.create(model=fault, messages=said)
        assert whole.choices[0].message.content == "You said: a"
        pieces = ours.chat.completions.create(model=fault, messages=said, stream=True)
        assert "".join(piece.choices[0].delta.content or "" for piece in pieces) == "You said: a"


def test_the_child_ends_when_its_parent_is_killed() -> None:
    script = (
        "from tests.support.simulator import start_simulator\n"
        "with start_simulator() as running:\n"
        "    print(running.port, flush=True)\n"
        "    input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        port = int(parent.stdout.readline())
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as connection:
            parent.kill()
            parent.wait()
            assert connection.recv(1) == b""  # the child's end closes the connection
