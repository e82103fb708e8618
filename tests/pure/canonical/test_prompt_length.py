"""A prompt that is too long is recognized in the words of every vendor and host, with its numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.prompt_length import PromptLength, find_prompt_length
from mgw.canonical.reply import UpstreamError

SAID: dict[str, tuple[str, tuple[int | None, int | None, int | None]]] = {
    # message: used, answer, limit
    "anthropic": ("prompt is too long: 208310 tokens > 200000 maximum", (208310, None, 200000)),
    "anthropic with max_tokens": (
        (
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input "
            "length or `max_tokens` and try again"
        ),
        (188240, 21333, 200000),
    ),
    "anthropic's gateways": ("capability_rejected: prompt_too_long", (None, None, None)),
    "bedrock": ("Input is too long for requested model.", (None, None, None)),
    "gemini": (
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        (1196265, None, 1048575),
    ),
    "vertex": (
        (
            "Unable to submit request because the input token count is 32780 but model only supports up to "
            "32767. Reduce the input token count and try again."
        ),
        (32780, None, 32767),
    ),
    "openai": (
        (
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 "
            "tokens. Please reduce the length of the messages."
        ),
        (130001, None, 128000),
    ),
    "openai, older": (
        (
            "This model's maximum context length is 4097 tokens, however you requested 4116 tokens (3860 "
            "in your prompt; 256 for the completion). Please reduce your prompt; or completion length."
        ),
        (3860, 256, 4097),
    ),
    "openai's responses": (
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        (None, None, None),
    ),
    "openai, configured": (
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 344999 tokens.",
        (344999, None, 272000),
    ),
    "deepseek": (
        (
            "This model's maximum context length is 65536 tokens. However, you requested 76234 tokens "
            "(68042 in the messages, 8192 in the completion). Please reduce the length of the messages or "
            "completion."
        ),
        (68042, 8192, 65536),
    ),
    "vllm": (
        (
            "This model's maximum context length is 262144 tokens. However, you requested 100 output "
            "tokens and your prompt contains at least 262145 input tokens, for a total of at least 262245 "
            "tokens."
        ),
        (262145, 100, 262144),
    ),
    "vllm, max_tokens": (
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context "
            "length is 16384 tokens and your request has 10000 input tokens (8192 > 16384 - 10000)."
        ),
        (10000, 8192, 16384),
    ),
    "vllm, engine": (
        "The decoder prompt (length 88049) is longer than the maximum model length of 32768.",
        (88049, None, 32768),
    ),
    "xai": (
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        (537812, None, 131072),
    ),
    "llama.cpp": (
        (
            "the request exceeds the available context size. try increasing the context size or enable "
            "context shift"
        ),
        (None, None, None),
    ),
    "llama.cpp, newer": (
        "request (8193 tokens) exceeds the available context size (8192 tokens), try increasing it",
        (8193, None, 8192),
    ),
    "ollama": ("prompt too long; exceeded max context length by 100918 tokens", (None, None, None)),
    "ollama's runner": ("the input length exceeds the context length", (None, None, None)),
    "mistral": (
        (
            "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context "
            "length"
        ),
        (65673, None, 32768),
    ),
    "openrouter": (
        (
            "This endpoint's maximum context length is 262000 tokens. However, you requested about 263390 "
            "tokens (658 of text input, 732 of tool input, 262000 in the output). Please reduce the length."
        ),
        (1390, 262000, 262000),
    ),
    "openrouter, in one number": (
        "This endpoint's maximum context length is 8192 tokens. However, you requested about 100008 tokens.",
        (100008, None, 8192),
    ),
    "groq": ("Please reduce the length of the messages or completion.", (None, None, None)),
    "together": (
        "The input (516368 tokens) is longer than the model's context length (131072 tokens).",
        (516368, None, 131072),
    ),
    "other hosts": (
        "Input length (265,330) exceeds model's maximum context length (262,144).",
        (265330, None, 262144),
    ),
}


@pytest.mark.parametrize("vendor", SAID)
@pytest.mark.parametrize("status", [400, 413])
def test_it_is_recognized_by_its_words(vendor: str, status: int) -> None:
    message, numbers = SAID[vendor]
    for words in (message, message.upper(), f"Provider returned error: {message}"):
        assert find_prompt_length(UpstreamError(status, words)) == PromptLength(*numbers)


@pytest.mark.parametrize("code", ["context_length_exceeded", "exceed_context_size_error"])
@pytest.mark.parametrize("status", [400, 413, 429, 500, 502])
def test_it_is_recognized_by_its_code_whatever_the_status(code: str, status: int) -> None:
    assert find_prompt_length(UpstreamError(status, "no", code)) == PromptLength()


def test_the_numbers_beside_the_words_count() -> None:
    details = {"n_prompt_tokens": 8193, "n_ctx": 8192}
    error = UpstreamError(400, "too much", "exceed_context_size_error", details)
    assert find_prompt_length(error) == PromptLength(8193, None, 8192)
    odd = {"n_prompt_tokens": "8193", "n_ctx": True}
    assert find_prompt_length(UpstreamError(400, "too much", error.code, odd)) == PromptLength()


@pytest.mark.parametrize(
    "error",
    [
        UpstreamError(429, "Request too large for model: limit 6000, requested 9000 tokens", "rate_limit"),
        UpstreamError(429, "prompt is too long for your tier"),
        UpstreamError(500, "prompt is too long"),
        UpstreamError(
            400, "max_tokens: 999999 > 64000, which is the maximum allowed number of output tokens"
        ),
        UpstreamError(400, "messages: at least one message is required", "invalid_request_error"),
        UpstreamError(413, "Request exceeds the maximum size", "request_too_large"),
        UpstreamError(400, "x" * 2000 + "prompt is too long"),
        *(
            UpstreamError(400, words)
            for words in (
                "max_output_tokens (200000) exceeds the maximum number of tokens that it makes (65536).",
                "`max_tokens` 9000 exceeds the maximum number of tokens (8192) for output",
                "The number of output tokens exceeds the maximum number of tokens allowed (8192).",
                "maxOutputTokens: 9000 exceeds the maximum number of tokens",
                "max_tokens: this model only supports up to 8192 completion tokens",
                "The model only supports up to 16 images",
                "max_tokens (9000) exceeds the maximum context length",
            )
        ),
    ],
    ids=lambda error: error.message[:30],
)
def test_other_refusals_are_none(error: UpstreamError) -> None:
    assert find_prompt_length(error) is None


@pytest.mark.parametrize(
    "words",
    [
        "The input token count exceeds the maximum number of tokens allowed. Lower it or max_tokens.",
        "input tokens and max_tokens together exceed: exceeds the maximum number of tokens",
        "exceeds the maximum number of tokens",
        "This model's maximum context length is 10 tokens; max_tokens exceeds what your prompt leaves",
    ],
)
def test_words_about_the_prompt_and_the_answer_are_about_the_prompt(words: str) -> None:
    assert find_prompt_length(UpstreamError(400, words)) is not None


@given(st.text("0123456789,() +>tokenslimit:contextlengthprompt", max_size=3000))
def test_no_words_raise_or_take_long(words: str) -> None:
    error = UpstreamError(400, f"prompt is too long {words}")
    assert find_prompt_length(error) is not None
