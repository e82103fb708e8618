"""The settings of translation: what is taken, and what is said of the rest."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.provider import Provider
from mgw.config.settings import Config
from mgw.config.translation import (
    Base64Embeddings,
    CacheTarget,
    ExtraField,
    ModelRowSettings,
    StreamKeepaliveSettings,
    TranslationSettings,
)
from mgw.nouns.model_row import ModelRow
from mgw.nouns.vocabulary import (
    CallIds,
    ChatTemplate,
    ChatTools,
    Effort,
    Family,
    ForcedTools,
    Kind,
    MaxTokensField,
)

ONE = "providers: {main: {kind: openai}}\n"


def config_of(settings: str) -> Config:
    return parse(ONE + settings, "mgw.yaml", {})


def row_of(settings: str) -> ModelRowSettings:
    (row,) = config_of(
        f"translation: {{models: [{{match: m, family: openai, {settings}}}]}}"
    ).translation.models
    return row


def provider_of(settings: str) -> Provider:
    text = f"providers: {{main: {{base_url: 'http://host/v1', {settings}}}}}"
    return parse(text, "mgw.yaml", {}).providers["main"]


def said_of(text: str) -> list[str]:
    with pytest.raises(ConfigError) as refusal:
        parse(text, "mgw.yaml", {})
    return [str(problem) for problem in refusal.value.problems]


def test_what_is_written_is_what_is_meant() -> None:
    config = config_of(
        "observe_dropped_fields: false\ntranslation: {default_max_tokens: 1, clean_history: off}"
    )
    assert config.observe_dropped_fields is False
    assert config.translation == TranslationSettings(default_max_tokens=1, clean_history=False)


def test_a_row_leaves_unstated_what_it_does_not_say() -> None:
    (row,) = config_of("translation: {models: [{match: a, family: openai}]}").translation.models
    assert row == ModelRowSettings(match="a", family=Family.OPENAI)
    stated = {name for name, value in row if value is not None}
    assert stated == {"match", "family"}


ROW_TEXT = """\
translation:
  models:
    - match: "Claude-[45]*"
      family: anthropic
      efforts: [max, none, max]
      budget: [0, 32000]
      off: false
      default: medium
      adaptive: true
      between_tools: true
      hides_thoughts: true
      forced_tools: never
      sampling: false
      off_sampling: true
      penalties: false
      logprobs: false
      candidates: 3
      stop: false
      chat_tools: unreasoned
      max_completion_tokens: true
      parallel_calls: false
      tools: false
      json_with_tools: false
      signatures: true
      prefill: false
      max_output: 5000
      system: false
      system_turns: true
      addresses: false
      tokens: 1.06
"""
ROW = ModelRowSettings(
    match="claude-[45]*",
    family=Family.ANTHROPIC,
    efforts=(Effort.MAX, Effort.NONE),
    budget=(0, 32000),
    off=False,
    default=Effort.MEDIUM,
    adaptive=True,
    between_tools=True,
    hides_thoughts=True,
    forced_tools=ForcedTools.NEVER,
    sampling=False,
    off_sampling=True,
    penalties=False,
    logprobs=False,
    candidates=3,
    stop=False,
    chat_tools=ChatTools.UNREASONED,
    max_completion_tokens=True,
    parallel_calls=False,
    tools=False,
    json_with_tools=False,
    signatures=True,
    prefill=False,
    max_output=5000,
    system=False,
    system_turns=True,
    addresses=False,
    tokens=1.06,
)


def test_a_row_says_what_it_says() -> None:
    assert config_of(ROW_TEXT).translation.models == (ROW,)


def test_rows_keep_the_order_of_the_file() -> None:
    text = "translation: {models: [{match: b*, family: openai}, {match: '*', family: openai}]}"
    assert [row.match for row in config_of(text).translation.models] == ["b*", "*"]


def test_no_budget_and_no_efforts_are_not_the_same_as_unstated_ones() -> None:
    row = row_of("budget: false, efforts: []")
    assert (row.budget, row.efforts) == (False, ())


@pytest.mark.parametrize("effort", Effort)
def test_each_effort_is_taken_by_its_name(effort: Effort) -> None:
    assert row_of(f"efforts: [{effort}]").efforts == (effort,)


@pytest.mark.parametrize(
    ("spelling", "family"),
    [
        ("openai", Family.OPENAI),
        ("alpha", Family.OPENAI),
        ("anthropic", Family.ANTHROPIC),
        ("beta", Family.ANTHROPIC),
        ("gemini", Family.GEMINI),
        ("gamma", Family.GEMINI),
        ("google", Family.GEMINI),
    ],
)
def test_both_vocabularies_spell_a_family(spelling: str, family: Family) -> None:
    config = config_of(f"translation: {{models: [{{match: m, family: {spelling}}}]}}")
    assert config.translation.models[0].family is family


def test_a_row_states_the_columns_of_the_table() -> None:
    assert {*ModelRowSettings.model_fields, "source"} == set(ModelRow.__struct_fields__)


@pytest.mark.parametrize(
    ("written", "targets"),
    [
        ("targets: [tools]", frozenset({CacheTarget.TOOLS})),
        ("targets: [tools, system, tools]", frozenset(CacheTarget)),
        ("", frozenset(CacheTarget)),
    ],
)
def test_breakpoints_go_where_they_are_wanted(written: str, targets: frozenset[CacheTarget]) -> None:
    block = config_of(f"caching: {{auto_breakpoints: {{enabled: true, min_chars: 0, {written}}}}}")
    breakpoints = block.caching.auto_breakpoints
    assert (breakpoints.enabled, breakpoints.min_chars, breakpoints.targets) == (True, 0, targets)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("{}", StreamKeepaliveSettings(interval=15, passthrough=False)),
        ("{interval: 0.5}", StreamKeepaliveSettings(interval=0.5)),
        ("{passthrough: true}", StreamKeepaliveSettings(passthrough=True)),
    ],
)
def test_a_keepalive_block_switches_it_on(written: str, meant: StreamKeepaliveSettings) -> None:
    assert config_of(f"stream_keepalive: {written}").stream_keepalive == meant


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        (Kind.OPENAI, MaxTokensField.MAX_COMPLETION_TOKENS),
        (Kind.OPENAI_COMPAT, MaxTokensField.MAX_TOKENS),
    ],
)
def test_a_chat_provider_has_what_is_usual_for_its_kind(kind: Kind, field: MaxTokensField) -> None:
    provider = provider_of(f"kind: {kind}")
    assert (provider.stream_usage, provider.max_tokens_field) == (True, field)
    assert Provider(name="main", kind=kind, base_url="http://host/v1") == provider


@pytest.mark.parametrize("kind", ["openai", "openai_compat", "alpha", "alpha_compat"])
@pytest.mark.parametrize("field", MaxTokensField)
def test_a_chat_provider_has_what_is_stated(kind: str, field: MaxTokensField) -> None:
    provider = provider_of(
        f"kind: {kind}, stream_usage: false, meter_streams: true, max_tokens_field: {field}"
    )
    assert (provider.stream_usage, provider.meter_streams, provider.max_tokens_field) == (False, True, field)


@pytest.mark.parametrize("kind", ["anthropic", "gemini", "beta", "gamma"])
@pytest.mark.parametrize(
    "setting",
    ["stream_usage: true", "stream_usage: false", "meter_streams: true", "max_tokens_field: max_tokens"],
)
def test_settings_of_chat_are_refused_for_other_families(kind: str, setting: str) -> None:
    key = setting.partition(":")[0]
    (said,) = said_of(f"providers:\n  main:\n    kind: {kind}\n    {setting}\n")
    assert said.startswith(
        f"mgw.yaml:4: providers.main.{key}: only for the kinds openai, openai_compat and azure_openai, found "
    )


def test_extra_fields_are_taken_once_each() -> None:
    provider = provider_of("kind: openai_compat, extra_fields: [top_k, top_k]")
    assert provider.extra_fields == (ExtraField.TOP_K,)
    assert provider_of("kind: openai_compat").extra_fields == ()


@pytest.mark.parametrize("kind", ["openai", "anthropic", "gemini"])
def test_extra_fields_are_for_hosts_alone(kind: str) -> None:
    (said,) = said_of(f"providers:\n  main:\n    kind: {kind}\n    extra_fields: [top_k]\n")
    assert said == (
        "mgw.yaml:4: providers.main.extra_fields: only for the kind openai_compat, found with kind " + kind
    )


def test_chat_templates_are_strict_unless_the_provider_says_that_they_are_open() -> None:
    assert provider_of("kind: openai_compat").chat_template is ChatTemplate.STRICT
    assert provider_of("kind: openai_compat, chat_template: open").chat_template is ChatTemplate.OPEN


@pytest.mark.parametrize("kind", ["openai", "azure_openai", "anthropic", "gemini"])
@pytest.mark.parametrize("word", ChatTemplate)
def test_chat_templates_are_for_hosts_alone(kind: str, word: ChatTemplate) -> None:
    said = said_of(f"providers:\n  main:\n    kind: {kind}\n    chat_template: {word}\n")
    message = f"only for the kind openai_compat, found with kind {kind}"
    assert f"mgw.yaml:4: providers.main.chat_template: {message}" in said


def test_ids_of_calls_are_a_column_of_the_models() -> None:
    (row,) = config_of(
        "translation: {models: [{match: house-*, family: openai, call_ids: nine, system: false}]}"
    ).translation.models
    assert (row.call_ids, row.system) == (CallIds.NINE, False)


@pytest.mark.parametrize("word", Base64Embeddings)
def test_base64_of_embeddings_is_as_stated(word: Base64Embeddings) -> None:
    translation = config_of(f"translation: {{base64_embeddings: {word}}}").translation
    assert translation.base64_embeddings is word


def test_a_chat_setting_of_a_wrong_kind_is_one_problem() -> None:
    (said,) = said_of("providers: {main: {kind: opena, stream_usage: true}}")
    assert "providers.main.kind" in said


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("observe_dropped_fields: 'yes'", "observe_dropped_fields: expected true or false, found a string"),
        (
            "translation: []",
            "translation: expected a mapping such as {responses: {enabled: true}}, found a list",
        ),
        ("translation: {clean_histroy: true}", "unknown key, did you mean clean_history?"),
        (
            "translation: {default_max_tokens: 0}",
            "translation.default_max_tokens: expected a whole number above 0, found the number 0",
        ),
        ("translation: {default_max_tokens: 8k}", "expected a whole number above 0, found a string"),
        (
            "translation: {models: {a: 1}}",
            "translation.models: expected a list such as [{match: qwen3*, family: openai}], found",
        ),
        (
            "translation: {models: [a]}",
            "translation.models.0: expected a mapping such as {match: qwen3*, family: openai}, found",
        ),
        ("caching: {auto_breakpoint: {}}", "unknown key, did you mean auto_breakpoints?"),
        ("caching: {auto_breakpoints: {min_char: 1}}", "unknown key, did you mean min_chars?"),
        (
            "caching: {auto_breakpoints: {min_chars: -1}}",
            "expected a whole number of characters, 0 or more, found the number -1",
        ),
        (
            "caching: {auto_breakpoints: {targets: [sytem]}}",
            (
                "caching.auto_breakpoints.targets.0: unknown value 'sytem', did you mean system? "
                "(expected one of system, tools)"
            ),
        ),
        (
            "caching: {auto_breakpoints: {targets: tools}}",
            "targets: expected a list such as [system, tools], found a string",
        ),
        (
            "caching: {auto_breakpoints: {targets: []}}",
            "expected system or tools or both, found an empty list",
        ),
        ("stream_keepalive: true", "stream_keepalive: expected a mapping such as {interval: 15}, found true"),
        ("stream_keepalive: {interval: 0}", "expected a number of seconds above 0, found the number 0"),
        ("stream_keepalive: {passtrough: true}", "unknown key, did you mean passthrough?"),
    ],
)
def test_a_wrong_setting_is_told_what_was_expected(setting: str, said: str) -> None:
    (found,) = said_of(ONE + setting)
    assert found.startswith("mgw.yaml:2: ")
    assert said in found


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("family: openai", "match: missing, expected a pattern of model ids such as claude-*"),
        ("match: a", "family: missing, expected one of openai, anthropic, gemini"),
        ("match:, family: openai", "match: expected a pattern of model ids such as claude-*, found nothing"),
        ("match: '', family: openai", "match: expected a name, found an empty string"),
        ("match: 'a b', family: openai", "match: expected a name without spaces"),
        (
            "match: 4.1, family: openai",
            "match: expected a pattern of model ids such as claude-*, found the n",
        ),
        (
            "match: a, family: antropic",
            (
                "family: unknown value 'antropic', did you mean anthropic? "
                "(expected one of openai, anthropic, gemini)"
            ),
        ),
        ("match: a, family: openai_compat", "family: unknown value 'openai_compat', did you mean openai?"),
        ("match: a, family: openai, effort: [low]", "effort: unknown key, did you mean efforts?"),
        (
            "match: a, family: openai, efforts: low",
            "efforts: expected a list such as [low, high], found a string",
        ),
        (
            "match: a, family: openai, efforts: [low, hihg]",
            (
                "efforts.1: unknown value 'hihg', did you mean high? "
                "(expected one of none, minimal, low, medium, high, xhigh, max)"
            ),
        ),
        (
            "match: a, family: openai, budget: true",
            "budget: expected [min, max] in whole tokens, or false, f",
        ),
        (
            "match: a, family: openai, budget: 1024",
            "budget: expected [min, max] in whole tokens, or false",
        ),
        (
            "match: a, family: openai, budget: 0",
            "budget: expected [min, max] in whole tokens, or false, f",
        ),
        ("match: a, family: openai, budget: []", "budget: expected [min, max] in whole tokens, or false"),
        ("match: a, family: openai, budget: [1]", "budget: expected [min, max] in whole tokens, or false"),
        ("match: a, family: openai, budget: [1, 2.5]", "budget: expected [min, max] in whole tokens"),
        ("match: a, family: openai, budget: [no, 2]", "budget: expected [min, max] in whole tokens"),
        (
            "match: a, family: openai, budget: [1, 9999999999]",
            "budget: expected [min, max] in whole tokens",
        ),
        (
            "match: a, family: openai, budget: [2, 1]",
            "budget: expected [min, max] with 0 <= min <= max, found [2, 1]",
        ),
        (
            "match: a, family: openai, budget: [-1, 1]",
            "budget: expected [min, max] with 0 <= min <= max",
        ),
        ("match: a, family: openai, tokens: 0", "tokens: expected a number above 0, found the number 0"),
        ("match: a, family: openai, tokens: .inf", "tokens: expected a number above 0, found the number inf"),
        ("match: a, family: openai, tokens: many", "tokens: expected a number above 0, found a string"),
        ("match: a, family: openai, off: 1", "off: expected true or false, found the number 1"),
        ("match: a, family: openai, sampling:", "sampling: expected true or false, found nothing"),
    ],
)
def test_a_wrong_row_is_told_what_was_expected(row: str, said: str) -> None:
    (found,) = said_of(f"{ONE}translation:\n  models:\n    - {{match: a, family: openai}}\n    - {{{row}}}\n")
    assert found.startswith("mgw.yaml:5: translation.models.1.")
    assert said in found


def test_all_that_is_wrong_with_the_rows_comes_together() -> None:
    rows = "translation: {models: [{match: a, family: x}, {family: openai}, {budget: 1}]}"
    paths = [said.split(": ")[1].removeprefix("translation.models.") for said in said_of(ONE + rows)]
    assert paths == ["0.family", "1.match", "2.match", "2.family", "2.budget"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("stream_usage: 1", "stream_usage: expected true or false, found the number 1"),
        ("stream_usag: true", "stream_usag: unknown key, did you mean stream_usage?"),
        (
            "max_tokens_field: max_token",
            (
                "max_tokens_field: unknown value 'max_token', did you mean max_tokens? "
                "(expected one of max_tokens, max_completion_tokens)"
            ),
        ),
    ],
)
def test_a_wrong_chat_setting_is_told_what_was_expected(settings: str, said: str) -> None:
    (found,) = said_of(f"providers: {{main: {{kind: openai, {settings}}}}}")
    assert found == f"mgw.yaml:1: providers.main.{said}"
