"""The simulator, judged by Anthropic's own SDK over real sockets."""

from typing import Any

import anthropic
import pytest

from tests.support.weather import ARGUMENTS, SCHEMA, Weather

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
