"""What the simulator refuses because the vendors do, and what it takes because they do."""

import base64
import json
from typing import Any, Final

import pytest

from mgw_sim.api import UnaryResponse
from tests.memory.mgw_sim.client import (
    CLAUDE,
    GOOGLE,
    ask,
    chat_body,
    content,
    content_body,
    message,
    message_body,
    post_json,
    post_refused,
)

PNG: Final = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
CHAT: Final = "/v1/chat/completions"
MESSAGES: Final = "/v1/messages"
CONTENT: Final = "/v1beta/models/{}:generateContent"


def chat_of(*messages: dict[str, Any], model: str = "m", **more: Any) -> dict[str, Any]:
    """A chat of these messages."""
    return {"model": model, "messages": list(messages), **more}


def said(*parts: dict[str, Any], role: str = "user") -> dict[str, Any]:
    """A message of these parts."""
    return {"role": role, "content": list(parts)}


def image(url: str) -> dict[str, Any]:
    """A chat's image."""
    return {"type": "image_url", "image_url": {"url": url}}


def block(source: dict[str, Any], kind: str = "image") -> dict[str, Any]:
    """A block with a source."""
    return {"type": kind, "source": source}


def encoded(data: str, media_type: str = "image/png") -> dict[str, Any]:
    """A source in base64."""
    return {"type": "base64", "data": data, "media_type": media_type}


TEXT: Final = {"type": "text", "text": "a"}
ASKED: Final = {"role": "user", "content": "a"}


# --- images, documents, audio


@pytest.mark.parametrize(
    "part",
    [
        image(f"data:image/png;base64,{PNG}"),
        image("https://example.com/a.png"),
        {"type": "input_audio", "input_audio": {"data": PNG, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ],
    ids=["data", "https", "audio", "pdf", "file"],
)
def test_a_chat_takes_media_of_its_user(part: dict[str, Any]) -> None:
    assert post_json(CHAT, chat_of(said(TEXT, part)))["choices"][0]["message"]["content"] == "You said: a"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (said(image(PNG)), "Expected a base64-encoded data URL"),
        (said(image("data:image/png;base64,***")), "Expected a base64-encoded data URL"),
        (said(image(f"data:image/tiff;base64,{PNG}")), "unsupported image"),
        (said(image("https://a/b"), role="system"), "only allowed for messages with role 'user'"),
        (said({"type": "refusal", "refusal": "no"}), "Invalid value: 'refusal'"),
        (said({"type": "file", "file": {"filename": "a"}}), "file.file_id"),
        (said({"type": "input_audio", "input_audio": {"data": "*", "format": "wav"}}), "audio"),
        ({**ASKED, "name": "two words"}, "does not match pattern"),
    ],
    ids=["no data URL", "no base64", "tiff", "role", "refusal", "file", "audio", "name"],
)
def test_a_chat_refuses_media_that_are_none(message: dict[str, Any], words: str) -> None:
    assert words in post_refused(CHAT, chat_of(message))


@pytest.mark.parametrize(
    "part",
    [
        block(encoded(PNG)),
        block({"type": "url", "url": "https://example.com/a.png"}),
        block(encoded(PNG, "application/pdf"), "document"),
        block({"type": "text", "data": "a", "media_type": "text/plain"}, "document"),
    ],
    ids=["base64", "url", "pdf", "text"],
)
def test_a_message_takes_media_also_in_the_result_of_a_tool(part: dict[str, Any]) -> None:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": [TEXT, part]}
    body = message_body("a")
    body["messages"] = [said(TEXT, part), said(call, role="assistant"), said(result)]
    assert post_json(MESSAGES, body, CLAUDE)["content"][0]["text"] == "Tool look returned: a"


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (block(encoded("***")), "image.source.base64: invalid base64 data"),
        (
            block(encoded(PNG, "image/jpg")),
            "media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or",
        ),
        (block(encoded(PNG, "image/jpeg")), "does not match the provided media type"),
        (block(encoded(PNG, "text/plain"), "document"), "Input should be 'application/pdf'"),
        (block({"type": "url", "url": "ftp://a"}), "Only HTTPS URLs"),
        (block({"type": "text", "data": "a", "media_type": "text/plain"}), "Input tag 'text'"),
    ],
    ids=["base64", "jpg", "other type", "document", "scheme", "source"],
)
@pytest.mark.parametrize("inside", [False, True], ids=["message", "result"])
def test_a_message_refuses_media_that_are_none(part: dict[str, Any], words: str, inside: bool) -> None:
    body = message_body("a")
    body["messages"] = [said(part)]
    if inside:
        call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
        result = {"type": "tool_result", "tool_use_id": "c", "content": [part]}
        body["messages"] = [ASKED, said(call, role="assistant"), said(result)]
    assert words in post_refused(MESSAGES, body, CLAUDE)


@pytest.mark.parametrize(
    ("part", "status"),
    [
        ({"inlineData": {"mimeType": "image/png", "data": PNG}}, 200),
        ({"inline_data": {"mime_type": "image/png", "data": "-_-_"}}, 200),
        ({"fileData": {"mimeType": "image/png", "fileUri": "https://example.com/a.png"}}, 200),
        ({"inlineData": {"mimeType": "image/png", "data": f"data:image/png;base64,{PNG}"}}, 400),
    ],
    ids=["inline", "other alphabet", "file", "data URL"],
)
def test_google_takes_base64_of_either_alphabet_and_nothing_else(part: dict[str, Any], status: int) -> None:
    body = {"contents": [{"parts": [{"text": "a"}, part]}]}
    answer, _ = ask(CONTENT.format("m"), json.dumps(body).encode(), GOOGLE)
    assert answer.status == status
    if status == 400:
        assert isinstance(answer, UnaryResponse)
        message = json.loads(answer.body)["error"]["message"]
        assert message.startswith(
            "Invalid value at 'contents[0].parts[1].inline_data.data' (TYPE_BYTES), Base64"
        )


# --- models


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        ("gpt-5+sim-cached-1", {"max_tokens": 9}, "Use 'max_completion_tokens' instead."),
        ("gpt-5-mini", {"temperature": 0.5}, "Only the default (1) value is supported."),
        ("o3", {"stop": "x"}, "'stop' is not supported"),
        ("gpt-4.1", {"response_format": {"type": "json_object"}}, "must contain the word 'json'"),
    ],
)
def test_openais_models_refuse_what_hosts_take(model: str, more: dict[str, Any], words: str) -> None:
    assert words in post_refused(CHAT, chat_of(ASKED, model=model, **more))
    assert post_json(CHAT, chat_of(ASKED, model="a-host's", **more))["choices"]


@pytest.mark.parametrize("field", ["reasoning_content", "prefix"])
def test_what_hosts_have_added_to_messages_is_unknown_to_openai(field: str) -> None:
    answered = {"role": "assistant", "content": "b", field: True if field == "prefix" else "hm"}
    body = chat_of(ASKED, answered, ASKED, model="gpt-5")
    assert post_refused(CHAT, body) == f"Unknown parameter: 'messages[1].{field}'."
    assert post_json(CHAT, {**body, "model": "deep-9"})["choices"]


def test_a_chosen_tool_is_one_of_the_tools() -> None:
    choice = {"type": "function", "function": {"name": "nobody"}}
    assert "not found in 'tools'" in post_refused(CHAT, chat_body("a", tool_choice=choice))


@pytest.mark.parametrize(
    ("model", "more", "words"),
    [
        (
            "claude-opus-4-7",
            {"thinking": {"type": "enabled", "budget_tokens": 1024}},
            "thinking.type.adaptive",
        ),
        (
            "claude-sonnet-4-5-20250929",
            {"thinking": {"type": "adaptive"}},
            "adaptive thinking is not supported",
        ),
        ("claude-fable-5-1", {"thinking": {"type": "disabled"}}, "thinking.type.disabled"),
        ("claude-sonnet-5", {"temperature": 0.5}, "`temperature` is deprecated"),
        ("claude-sonnet-4-5", {"temperature": 0.5, "top_p": 0.9}, "cannot both be specified"),
    ],
)
def test_claude_models_take_what_their_generation_takes(model: str, more: dict[str, Any], words: str) -> None:
    assert words in post_refused(MESSAGES, message_body("a", model, **more), CLAUDE)
    assert message("a", "some-model", **more)["stop_reason"] == "end_turn"


def test_newer_claude_models_continue_no_turn_of_their_own() -> None:
    body = message_body("a", "claude-opus-4-6")
    body["messages"].append({"role": "assistant", "content": "b"})
    assert "prefill" in post_refused(MESSAGES, body, CLAUDE)
    paused = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    body["messages"][-1] = said(paused, role="assistant")
    assert post_json(MESSAGES, body, CLAUDE)["stop_reason"] == "end_turn"


@pytest.mark.parametrize(
    ("model", "thinking", "words"),
    [
        ("gemini-2.5-pro", {"thinkingBudget": 0}, "only works in thinking mode"),
        ("gemini-2.5-flash", {"thinkingBudget": 32768}, "between 1 and 24576"),
        ("gemini-2.5-flash-lite", {"thinkingBudget": 100}, "between 512 and 24576"),
        ("gemini-2.5-pro", {"thinkingLevel": "HIGH"}, "Thinking level is not supported"),
        ("gemini-3-pro", {"thinkingLevel": "HIGH", "thinkingBudget": 1}, "only one of"),
    ],
)
def test_gemini_models_take_levels_or_budgets_of_their_range(
    model: str, thinking: dict[str, Any], words: str
) -> None:
    assert words in post_refused(CONTENT.format(model), content_body("a", thinkingConfig=thinking), GOOGLE)
    once = dict([next(iter(thinking.items()))])
    assert content("a", "gemini-9", thinkingConfig=once)["candidates"]


# --- rules of a conversation


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"stop_sequences": ["\n"]}, "non-whitespace"),
        ({"thinking": {"type": "adaptive"}, "temperature": 0.5}, "may only be set to 1"),
        ({"thinking": {"type": "adaptive"}, "top_p": 0.5}, "`top_p` must be greater"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1023}}, "a value >= 1024"),
        ({"thinking": {"type": "enabled", "budget_tokens": 4000}}, "greater than `thinking.budget_tokens`"),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "tool_choice": {"type": "any"}},
            "Thinking may not be enabled when tool_choice forces",
        ),
    ],
)
def test_a_message_refuses_settings_that_do_not_go_together(more: dict[str, Any], words: str) -> None:
    assert words in post_refused(MESSAGES, message_body("a", **more), CLAUDE)


def test_adaptive_thinking_goes_with_a_forced_call() -> None:
    told_ = message("a", thinking={"type": "adaptive"}, tool_choice={"type": "any"})
    assert [one["type"] for one in told_["content"]] == ["thinking", "tool_use"]


def test_a_budget_may_exceed_the_room_where_thinking_is_interleaved() -> None:
    body = message_body("a", thinking={"type": "enabled", "budget_tokens": 9000})
    beta = (*CLAUDE, (b"anthropic-beta", b"interleaved-thinking-2025-05-14"))
    assert post_json(MESSAGES, body, beta)["stop_reason"] == "end_turn"


def test_a_prompt_has_four_breakpoints_at_most() -> None:
    marked = {**TEXT, "cache_control": {"type": "ephemeral"}}
    body = message_body("a", system=[marked])
    body["messages"] = [said(marked, marked, marked)]
    assert post_json(MESSAGES, body, CLAUDE)["stop_reason"] == "end_turn"
    body["messages"] = [said(*[marked] * 4)]
    assert "Found 5." in post_refused(MESSAGES, body, CLAUDE)


def test_a_system_message_sets_an_effort_where_a_beta_lets_it() -> None:
    body = message_body("a")
    body["messages"].append({"role": "system", "content": "s", "output_config": {"effort": "medium"}})
    assert "messages.1.output_config: Extra inputs" in post_refused(MESSAGES, body, CLAUDE)
    beta = (*CLAUDE, (b"anthropic-beta", b"per-turn-control-2026-07-01"))
    assert post_json(MESSAGES, body, beta)["content"][0]["text"] == "You said: a"
    body["messages"][1]["output_config"]["effort"] = "huge"
    assert "messages.1.output_config.effort" in post_refused(MESSAGES, body, beta)
    body["messages"] = [{**ASKED, "output_config": {"effort": "low"}}]
    assert "messages.0.output_config" in post_refused(MESSAGES, body, beta)


@pytest.mark.parametrize(
    "behind",
    [{"role": "system", "content": "s"}, {"role": "user", "content": "and now?"}],
    ids=["system", "user"],
)
def test_results_count_whatever_message_follows_them_in_their_turn(behind: dict[str, Any]) -> None:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c", "content": "r"}
    body = message_body("use tool look")
    body["messages"] += [said(call, role="assistant"), said(result), behind]
    assert post_json(MESSAGES, body, CLAUDE)["content"][0]["text"] == "Tool look returned: r"
    body["thinking"] = {"type": "enabled", "budget_tokens": 1024}
    assert "Expected `thinking`" in post_refused(MESSAGES, body, CLAUDE)


def test_redacted_thoughts_come_back_unchanged() -> None:
    thinking = {"type": "enabled", "budget_tokens": 1024}
    first = message("use tool look think hidden", thinking=thinking)
    result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "r"}
    body = message_body("use tool look think hidden", thinking=thinking)
    body["messages"] += [{"role": "assistant", "content": first["content"]}, said(result)]
    assert post_json(MESSAGES, body, CLAUDE)["stop_reason"] == "end_turn"
    first["content"][0]["data"] = "Zm9yZWlnbg=="
    assert "Invalid `data` in `redacted_thinking`" in post_refused(MESSAGES, body, CLAUDE)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (["look"], "number of function response parts"),
        (["look", "other"], "names match"),
        (["find", "look"], ""),
    ],
)
def test_google_wants_one_response_for_each_of_parallel_calls(answers: list[str], words: str) -> None:
    first = content("use tool look use tool find", "gemini-3-pro")["candidates"][0]["content"]
    body = content_body("use tool look use tool find")
    parts = [{"functionResponse": {"name": name, "response": {"result": "r"}}} for name in answers]
    body["contents"] += [first, {"role": "user", "parts": parts}]
    target = CONTENT.format("gemini-3-pro")
    if words:
        assert words in post_refused(target, body, GOOGLE)
    else:
        assert post_json(target, body, GOOGLE)["candidates"]
        del first["parts"][0]["thoughtSignature"]
        assert "missing a thought_signature" in post_refused(target, body, GOOGLE)


def test_google_says_in_the_body_when_to_come_again() -> None:
    answer = post_json(CONTENT.format("sim-status-429+sim-retry-after-7"), content_body("a"), GOOGLE)
    assert answer["error"]["details"][0]["retryDelay"] == "7s"


def test_google_takes_types_in_capitals_where_its_own_cli_sends_them() -> None:
    schema: dict[str, Any] = {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}, "required": ["n"]}
    wanted: dict[str, Any] = {"responseMimeType": "application/json", "responseJsonSchema": schema}
    parts = content("a", **wanted)["candidates"][0]["content"]["parts"]
    assert json.loads(parts[0]["text"]) == {"n": 1}
    schema["type"] = "THING"
    assert "response_json_schema: 'THING'" in post_refused(
        CONTENT.format("m"), content_body("a", **wanted), GOOGLE
    )


def test_google_takes_a_models_turn_in_pieces_as_its_sdk_keeps_a_stream() -> None:
    body = content_body("use tool look use tool find")
    first = content("use tool look use tool find", "gemini-3-pro")["candidates"][0]["content"]
    pieces = [{"role": "model", "parts": [part]} for part in first["parts"]]
    answers = [{"functionResponse": {"name": name, "response": {"result": "r"}}} for name in ("look", "find")]
    body["contents"] += [*pieces, {"role": "user", "parts": answers}]
    target = CONTENT.format("gemini-3-pro")
    assert post_json(target, body, GOOGLE)["candidates"]
    del pieces[0]["parts"][0]["thoughtSignature"]
    assert "missing a thought_signature" in post_refused(target, body, GOOGLE)


def test_a_chat_takes_what_the_sdks_parsers_have_put_beside_a_call() -> None:
    function = {"name": "look", "arguments": "{}", "parsed_arguments": {}}
    call = {"id": "c", "type": "function", "index": 0, "function": function}
    answer = {"role": "tool", "tool_call_id": "c", "content": "r"}
    body = chat_of(ASKED, {"role": "assistant", "parsed": None, "tool_calls": [call]}, answer)
    assert post_json(CHAT, body)["choices"][0]["message"]["content"] == "Tool look returned: r"


def test_no_thread_is_held_and_the_sdk_is_told_so() -> None:
    body = message_body("a", thread={"type": "create"})
    answer, _ = ask(MESSAGES, json.dumps(body).encode(), CLAUDE)
    assert isinstance(answer, UnaryResponse)
    details = json.loads(answer.body)["error"]["details"]
    assert (answer.status, details["error_code"]) == (400, "thread_unsupported_request")
