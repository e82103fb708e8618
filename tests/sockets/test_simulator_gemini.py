"""The simulator, judged by Google's own SDK over real sockets."""

from collections.abc import Iterator
from typing import Any

import pytest
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as genai_types

from mgw_sim.api import Family
from mgw_sim.routes import ROUTER
from tests.support.sdk_walk.arguments import MODEL
from tests.support.sdk_walk.calls import gemini_client, run
from tests.support.sdk_walk.gemini import GEMINI
from tests.support.sdk_walk.methods import methods
from tests.support.sdk_walk.records import Recorded
from tests.support.sdk_walk.upstream import recording_upstream
from tests.support.weather import ARGUMENTS, SCHEMA, Weather

GOOGLE_TOOLS: list[Any] = [
    genai_types.Tool(
        function_declarations=[
            genai_types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA),
            genai_types.FunctionDeclaration(name="time"),
        ]
    )
]
AUTOMATIC_OFF = genai_types.AutomaticFunctionCallingConfig(disable=True)


def every_request() -> Iterator[Recorded]:
    """What each method of the SDK sends."""
    with recording_upstream("google") as upstream:
        client = gemini_client(upstream.url, "key")
        for name, method in methods(client).items():
            for case in GEMINI[name](method):
                yield from run(method, case, [upstream], MODEL).requests["google"]


def has_row(sent: Recorded) -> bool:
    found = ROUTER.find(sent.path)
    return found is not None and sent.method in found.routes.get(Family.GEMINI, {})


def test_every_request_of_the_sdk_has_its_row() -> None:
    sent = list(every_request())
    assert len({(one.method, one.path) for one in sent}) > 80
    assert {f"{one.method} {one.path}" for one in sent if not has_row(one)} == set()


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
