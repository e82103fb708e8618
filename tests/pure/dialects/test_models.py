"""The table of models: which row counts for a name, and that the rows and their document are sound."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
from anthropic.types import Model as AnthropicModel
from google.genai.interactions import Model as GeminiModel
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from openai.types.shared import ChatModel, ResponsesModel

from mgw.dialects.model_rows import FALLBACKS, ROWS
from mgw.dialects.models import OPERATOR, Models, OverrideRow, bare_model
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import ChatTools, Effort, Family, ForcedTools, ThroughResponses
from tools.models_page import table

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "models.rst"
NO_CHAT = ("lyria-",)


def literals(union: Any) -> list[str]:  # Any: unions of literals have no type of their own
    """Return the names that an SDK's union of literals spells out."""
    found: list[str] = []
    for member in get_args(union):
        found += [member] if isinstance(member, str) else literals(member)
    return found


ON_RESPONSES_ONLY = sorted(set(literals(ResponsesModel)) - set(literals(ChatModel)))
"""Those that OpenAI's SDK names for Responses and not for chat completions."""
NAMED: list[tuple[Family, str]] = [
    *((Family.ANTHROPIC, name) for name in literals(AnthropicModel)),
    *((Family.OPENAI, name) for name in literals(ChatModel)),
    *((Family.OPENAI, name) for name in ON_RESPONSES_ONLY),
    *((Family.GEMINI, name) for name in literals(GeminiModel) if not name.startswith(NO_CHAT)),
]


def matched(model: str, family: Family) -> str:
    return Models().row(model, family).match


@pytest.mark.parametrize(("family", "model"), NAMED, ids=str)
def test_every_model_that_the_sdks_name_has_a_row_of_its_own(family: Family, model: str) -> None:
    row = Models().row(model, family)
    assert row in ROWS
    assert row.family is family
    assert row.match not in {"gpt-*", "claude-*-[5-9]-[0-9]"}


@pytest.mark.parametrize("model", ON_RESPONSES_ONLY)
def test_a_model_that_chat_completions_does_not_have_is_asked_through_responses(model: str) -> None:
    assert Models().row(model, Family.OPENAI).through_responses is ThroughResponses.ALWAYS


@pytest.mark.parametrize("name", ["gpt-5.6-pro", "gpt-6-pro", "gpt-5.6-codex", "gpt-6.1-codex"])
def test_a_name_that_openai_does_not_have_is_a_model_like_its_generation(name: str) -> None:
    assert not [row.match for row in ROWS if row.match.startswith(("gpt-5.6*-", "gpt-6*-"))]
    assert Models().row(name, Family.OPENAI).through_responses is ThroughResponses.TOOLS


def test_gemini_4_neon_thinks_as_hard_as_hydrogen() -> None:
    neon, hydrogen = (Models().row(f"gemini-4-{name}", Family.GEMINI) for name in ("neon", "hydrogen"))
    assert replace(neon, match="", source="") == replace(hydrogen, match="", source="")


@pytest.mark.parametrize(
    ("model", "bare"),
    [
        ("models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("publishers/google/models/gemini-4-argon", "gemini-4-argon"),
        ("projects/p/locations/global/publishers/google/models/gemini-3.8-flash", "gemini-3.8-flash"),
        ("anthropic/claude-opus-5-5", "claude-opus-5-5"),
        ("anthropic/claude-opus-4.6", "claude-opus-4-6"),
        ("anthropic.claude-opus-4-6-v1", "claude-opus-4-6-v1"),
        ("us.anthropic.claude-sonnet-4-5-20250929-v1:0", "claude-sonnet-4-5-20250929-v1:0"),
        ("us-gov.anthropic.claude-opus-5", "claude-opus-5"),
        ("global.anthropic.claude-haiku-5-5", "claude-haiku-5-5"),
        ("arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-opus-5", "claude-opus-5"),
        ("claude-opus-4-1@20250805", "claude-opus-4-1@20250805"),
        ("openai/GPT-5.6-Sol", "gpt-5.6-sol"),
        ("ft:gpt-4.1-mini-2025-04-14:acme::Abc", "gpt-4.1-mini-2025-04-14:acme::abc"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("", ""),
    ],
)
def test_what_clouds_put_around_a_name_does_not_count(model: str, bare: str) -> None:
    assert bare_model(model) == bare


@pytest.mark.parametrize(
    ("family", "model", "match"),
    [
        (Family.ANTHROPIC, "claude-opus-4-20250514", "claude-opus-4*"),
        (Family.ANTHROPIC, "anthropic.claude-opus-4-5-20251101-v1:0", "claude-opus-4-5*"),
        (Family.ANTHROPIC, "claude-opus-5", "claude-opus-5*"),
        (Family.ANTHROPIC, "claude-opus-5-20260724", "claude-opus-5*"),
        (Family.ANTHROPIC, "claude-opus-5-5", "claude-opus-5-5*"),
        (Family.ANTHROPIC, "claude-opus-5-7", "claude-*-[5-9]-[0-9]"),
        (Family.ANTHROPIC, "anthropic.claude-opus-5-7-v1", "claude-*-[5-9]-[0-9]-*"),
        (Family.ANTHROPIC, "claude-3.7-sonnet", "claude-3-7-sonnet*"),
        (Family.OPENAI, "gpt-5", "gpt-5"),
        (Family.OPENAI, "gpt-5-mini-2025-08-07", "gpt-5-*"),
        (Family.OPENAI, "gpt-5.7", "gpt-*"),
        (Family.OPENAI, "gpt-6.2-astra-law", "gpt-6.2-astra-law*"),
        (Family.OPENAI, "gpt-6.2-sol", "gpt-6.2-*"),
        (Family.OPENAI, "gpt-6-cyber", "gpt-*-cyber*"),
        (Family.OPENAI, "o3-mini-2025-01-31", "o3-mini*"),
        (Family.OPENAI, "ft:gpt-4o-mini-2024-07-18:acme::abc", "gpt-4o*"),
        (Family.OPENAI, "ft:o4-mini-2025-04-16:acme::abc", "o4-mini*"),
        (Family.OPENAI, "gpt-daybreak-red-latest", "*daybreak-*"),
        (Family.GEMINI, "gemini-2.5-flash-lite-preview-09-2025", "gemini-2.5-flash-lite*"),
        (Family.GEMINI, "gemini-3-pro-image-preview", "gemini-3*-image*"),
        (Family.GEMINI, "gemini-4-argon-cyber-permissive", "gemini-4-*-cyber-permissive*"),
    ],
)
def test_the_specific_row_comes_before_the_general(family: Family, model: str, match: str) -> None:
    assert matched(model, family) == match


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("gemini-1.5-flash", {"candidates": 8}),
        ("gemini-2.0-flash", {"penalties": True, "logprobs": True, "candidates": 8}),
        ("gemini-2.5-flash", {"candidates": 8}),
        ("gemini-2.5-pro", {"candidates": 8}),
        ("gemini-2.5-flash-image", {"system": False, "structured": False, "tools": False}),
        ("gemini-3-pro-image", {"tools": False}),
        ("gemini-3.1-flash-image-preview", {"structured": False, "tools": False}),
        ("gemini-3.1-flash-lite-image", {"structured": False, "tools": False, "json_with_tools": True}),
        ("gemini-nano-banana-2.1", {"tools": False}),
        ("nano-banana-pro-preview", {"tools": False}),
        ("gemini-robotics-er-2-preview", {}),
        ("gemini-3-flash-preview", {"json_with_tools": True}),
        ("gemini-3.8-flash", {"json_with_tools": True}),
        ("gemini-4-argon", {"json_with_tools": True}),
        ("gemini-flash-latest", {"json_with_tools": True}),
        ("gemini-7", {"json_with_tools": True}),
        ("gemini-2.5-flash-preview-tts", {"system": False, "structured": False, "tools": False}),
        ("gemini-3.8-flash-lite-tts", {"system": False, "structured": False, "tools": False}),
        ("gemma-3-27b-it", {"system": False, "structured": False, "tools": False}),
        ("gemma-4-31b-it", {}),
    ],
)
def test_what_googles_models_refuse(model: str, taken: dict[str, object]) -> None:
    row = Models().row(model, Family.GEMINI)
    refused = {"penalties": False, "logprobs": False, "candidates": 1, "json_with_tools": False}
    refused |= {"system": True, "structured": True, "tools": True}
    assert {name: getattr(row, name) for name in refused} == refused | taken


@pytest.mark.parametrize(
    ("model", "forced"),
    [
        ("claude-fable-5", ForcedTools.ALWAYS),
        ("claude-mythos-5", ForcedTools.ALWAYS),
        ("claude-opus-5", ForcedTools.UNTHINKING),
        ("claude-haiku-5-5", ForcedTools.UNTHINKING),
        ("claude-haiku-4-5", ForcedTools.UNTHINKING),
        ("claude-3-haiku-20240307", ForcedTools.ALWAYS),
        ("claude-fable-5-1", ForcedTools.NEVER),
        ("claude-mythos-5-2", ForcedTools.NEVER),
        ("claude-opus-5-5", ForcedTools.NEVER),
        ("claude-sonnet-5-5", ForcedTools.NEVER),
        ("claude-of-tomorrow", ForcedTools.NEVER),
    ],
)
def test_a_call_is_forced_from_claude_models_that_take_it(model: str, forced: ForcedTools) -> None:
    assert Models().row(model, Family.ANTHROPIC).forced_tools is forced


@pytest.mark.parametrize(
    "model", ["gpt-4o-search-preview", "gpt-4o-mini-search-preview-2025-03-11", "gpt-5-search-api"]
)
def test_models_that_search_are_told_no_sampling(model: str) -> None:
    assert Models().row(model, Family.OPENAI).sampling is False


def test_what_chatgpt_runs_thinks_as_much_as_it_will() -> None:
    row = Models().row("chat-latest", Family.OPENAI)
    assert (row.efforts, row.default) == ((Effort.MEDIUM,), Effort.MEDIUM)
    assert (row.sampling, row.stop, row.max_completion_tokens, row.max_output) == (
        False,
        False,
        True,
        128_000,
    )


def test_gpt_5_with_search_is_asked_as_the_rest_of_gpt_5() -> None:
    row = Models().row("gpt-5-search-api", Family.OPENAI)
    assert (row.stop, row.max_completion_tokens, row.efforts) == (False, True, ())


@pytest.mark.parametrize(
    ("model", "taken"),
    [
        ("o1", False),
        ("o3-mini", False),
        ("o3", False),
        ("o4-mini-2025-04-16", False),
        ("gpt-5", True),
        ("gpt-4.1", True),
        ("gpt-6-astra", True),
        ("qwen3-32b", True),
    ],
)
def test_the_o_models_refuse_the_wish_for_one_call_at_a_time(model: str, *, taken: bool) -> None:
    assert Models().row(model, Family.OPENAI).parallel_calls is taken


@pytest.mark.parametrize(
    ("family", "model", "most"),
    [
        (Family.OPENAI, "gpt-4.1-mini", 32_768),
        (Family.OPENAI, "gpt-4o-2024-05-13", 4096),
        (Family.OPENAI, "gpt-4o-2024-11-20", 16_384),
        (Family.OPENAI, "gpt-5-chat-latest", 16_384),
        (Family.OPENAI, "gpt-5.3-chat-latest", 16_384),
        (Family.OPENAI, "gpt-audio-1.5", 16_384),
        (Family.GEMINI, "gemini-3.1-flash-lite-image", 4096),
        (Family.GEMINI, "gemini-3.1-flash-image", 32_768),
        (Family.GEMINI, "gemini-3-pro-image", 32_768),
        (Family.GEMINI, "gemini-2.5-flash-image", 32_768),
        (Family.GEMINI, "gemini-3.8-flash-tts", 16_384),
        (Family.GEMINI, "gemini-robotics-er-2-preview", 65_536),
        (Family.GEMINI, "gemini-2.0-flash", 8192),
        (Family.GEMINI, "gemma-4-31b-it", 32_768),
    ],
)
def test_no_model_is_asked_for_more_than_it_puts_out(family: Family, model: str, most: int) -> None:
    assert Models().row(model, family).max_output == most


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.match)
def test_no_row_is_hidden_by_one_before_it(row: ModelRow) -> None:
    example = row.match.replace("[5-9]", "9").replace("[0-9]", "8").replace("?", "1")
    assert row.match in {matched(example.replace("*", filled), row.family) for filled in ("", "x")}


@pytest.mark.parametrize("row", [*ROWS, *FALLBACKS.values()], ids=lambda row: f"{row.family}: {row.match}")
def test_every_row_agrees_with_itself(row: ModelRow) -> None:
    assert row.source.startswith("https://")
    assert list(row.efforts) == [effort for effort in Effort if effort in row.efforts]
    assert row.budget is None or 0 < row.budget[0] < row.budget[1]
    assert row.off or not row.between_tools
    assert row.off or row.forced_tools is not ForcedTools.UNTHINKING
    assert Effort.NONE in row.efforts or row.chat_tools is not ChatTools.UNREASONED
    if row.family is Family.OPENAI:
        assert row.off is (Effort.NONE in row.efforts)


FOREIGN = {
    Family.OPENAI: {"budget", "adaptive", "between_tools", "hides_thoughts", "forced_tools", "system_turns"}
    | {"prefill", "system", "candidates", "json_with_tools", "binds_thoughts", "structured", "tools"},
    Family.ANTHROPIC: {"off_sampling", "chat_tools", "max_completion_tokens", "signatures", "tokens"}
    | {"penalties", "logprobs", "system", "candidates", "json_with_tools", "tools", "parallel_calls"},
    Family.GEMINI: {"adaptive", "between_tools", "hides_thoughts", "forced_tools", "system_turns"}
    | {"off_sampling", "chat_tools", "max_completion_tokens", "tokens", "binds_thoughts", "parallel_calls"},
}


@pytest.mark.parametrize("row", [*ROWS, *FALLBACKS.values()], ids=lambda row: f"{row.family}: {row.match}")
def test_a_row_says_nothing_of_another_familys_columns(row: ModelRow) -> None:
    plain = ModelRow("*", row.family, "https://")
    foreign = FOREIGN[row.family]
    assert {name: getattr(row, name) for name in foreign} == {name: getattr(plain, name) for name in foreign}


@pytest.mark.parametrize(
    ("model", "family", "prefill"),
    [
        ("claude-opus-4-6", Family.ANTHROPIC, False),
        ("claude-sonnet-4-6-20260217", Family.ANTHROPIC, False),
        ("claude-opus-5-5", Family.ANTHROPIC, False),
        ("claude-of-tomorrow", Family.ANTHROPIC, False),
        ("claude-sonnet-4-5", Family.ANTHROPIC, True),
        ("claude-3-haiku-20240307", Family.ANTHROPIC, True),
        ("gemini-3.6-flash", Family.GEMINI, False),
        ("gemini-3-pro", Family.GEMINI, True),
        ("gemini-2.5-flash", Family.GEMINI, True),
    ],
)
def test_newer_models_go_on_from_no_turn_of_their_own(model: str, family: Family, *, prefill: bool) -> None:
    assert Models().row(model, family).prefill is prefill


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("Qwen/Qwen3-32B", 1.06),
        ("deepseek-r1-distill-qwen-32b", 1.06),
        ("deepseek-chat", 1.03),
        ("mistralai/Mistral-Nemo", 1.1),
        ("open-mixtral-8x7b", 1.1),
        ("google/gemma-2-9b-it", 1.15),
        ("gpt-5.2", 1.0),
        ("llama-4", 1.0),
    ],
)
def test_a_models_tokens_are_as_many_as_its_own_tokenizer_makes(model: str, tokens: float) -> None:
    assert Models().row(model, Family.OPENAI).tokens == tokens


@pytest.mark.parametrize("family", list(Family))
def test_a_model_that_nobody_knows_gets_its_familys_guess(family: Family) -> None:
    assert Models().row("a-name-of-tomorrow", family) is FALLBACKS[family]


def test_another_familys_rows_do_not_count() -> None:
    assert matched("claude-opus-4-6", Family.OPENAI) == "*"


def test_an_operators_row_inherits_what_it_does_not_state() -> None:
    override = OverrideRow(match="claude-opus-4-6*", budget=None, max_output=1000)
    row = Models([override]).row("us.anthropic.claude-opus-4-6-v1", Family.ANTHROPIC)
    shipped = Models().row("claude-opus-4-6", Family.ANTHROPIC)
    assert (row.budget, row.max_output, row.source) == (None, 1000, OPERATOR)
    assert (row.efforts, row.adaptive, row.off) == (shipped.efforts, True, True)


def test_the_first_operators_row_that_matches_counts() -> None:
    models = Models([OverrideRow("qwen3*", stop=False), OverrideRow("*", sampling=False)])
    row = models.row("Qwen/Qwen3-32B", Family.OPENAI)
    assert (row.stop, row.sampling) == (False, True)
    assert models.row("kimi-k3", Family.OPENAI).sampling is False


def test_an_operators_row_may_name_a_family() -> None:
    models = Models([OverrideRow("mine", Family.GEMINI, stop=False)])
    assert models.row("mine", Family.GEMINI).stop is False
    assert models.row("mine", Family.OPENAI).stop is True


@pytest.mark.parametrize("pattern", ["qwen/qwen3-*", "Qwen/Qwen3-32B", "QWEN3-32B"])
def test_an_operators_pattern_may_be_the_id_as_sent(pattern: str) -> None:
    row = Models([OverrideRow(pattern, stop=False)]).row("Qwen/Qwen3-32B", Family.OPENAI)
    assert row.stop is False


def test_models_are_looked_up_once() -> None:
    models = Models([OverrideRow("mine", stop=False)])
    assert models.row("mine", Family.OPENAI) is models.row("mine", Family.OPENAI)


@given(model=st.text(max_size=40), family=st.sampled_from(list(Family)))
def test_there_is_a_row_for_any_name(model: str, family: Family) -> None:
    assert Models().row(model, family).family is family


@pytest.mark.parametrize("family", list(Family))
def test_the_document_shows_the_rows_as_they_are(family: Family) -> None:
    assert table(family) in DOCUMENT.read_text(encoding="utf-8")


def test_the_document_explains_every_column_and_no_other() -> None:
    explained = set(re.findall(r"``(\w+)``", "\n".join(re.findall(r"^``\w+``.*$", head(), re.MULTILINE))))
    assert explained == set(OverrideRow.__struct_fields__)


def head() -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text[text.index("Columns\n-------") : text.index("Add your own rows")]
