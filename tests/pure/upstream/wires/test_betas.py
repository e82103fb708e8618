"""Which betas go on, and which a refusal is about."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.reply import UpstreamError
from mgw.config.provider import Provider
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.refused_words import MAX_MODELS, MAX_WORDS, REST_SECONDS, RefusedWords
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.betas import Betas, choose_betas, refused_words
from mgw.upstream.wires.wire import VENDOR, VendorCall

ALL: Final = ("*",)
SENT: Final = ("context-1m-2025-08-07", "interleaved-thinking-2025-05-14", "anthropic_version")


def test_names_keep_their_order_and_stand_once() -> None:
    headers = [(b"anthropic-beta", b" b ,a,, b"), (b"X", b"c"), (b"Beta-Beta", b"d,a")]
    assert choose_betas(headers, ALL, frozenset()) == Betas(("b", "a", "d"), ())


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (ALL, ("Context-1m", "oauth")),
        ((), ()),
        (("context-*",), ("Context-1m",)),
        (("oauth",), ("oauth",)),
        (("OAUTH", "x"), ("oauth",)),
    ],
)
def test_names_go_on_that_match_a_pattern(patterns: tuple[str, ...], kept: tuple[str, ...]) -> None:
    found = choose_betas([(b"anthropic-beta", b"Context-1m,oauth")], patterns, frozenset())
    assert found.kept == kept
    assert set(found.kept) | set(found.dropped) == {"Context-1m", "oauth"}


def test_tool_search_has_another_name_on_other_clouds() -> None:
    headers = [(b"anthropic-beta", b"advanced-tool-use-2025-11-20,tool-search-tool-2025-10-19")]
    assert choose_betas(headers, ("tool-search*",), frozenset()) == Betas(
        ("tool-search-tool-2025-10-19",), ()
    )
    dropped = ("advanced-tool-use-2025-11-20", "tool-search-tool-2025-10-19")
    assert choose_betas(headers, ("advanced*",), frozenset()) == Betas((), dropped)
    refused = frozenset({"tool-search-tool-2025-10-19"})
    assert choose_betas(headers, ALL, refused) == Betas((), dropped)


@given(
    values=st.lists(st.lists(st.sampled_from(["a", "b-1", "c_2", " a", ""])).map(",".join), max_size=4),
    patterns=st.lists(st.sampled_from(["*", "a", "b-*", "C_2", "x"]), max_size=2),
    refused=st.frozensets(st.sampled_from(["a", "b-1"])),
)
def test_each_name_goes_on_or_is_reported(
    values: list[str], patterns: list[str], refused: frozenset[str]
) -> None:
    found = choose_betas([(b"anthropic-beta", value.encode()) for value in values], patterns, refused)
    stated = {name.strip() for value in values for name in value.split(",")} - {""}
    assert set(found.kept) | set(found.dropped) == stated
    assert not set(found.kept) & (set(found.dropped) | refused)


@pytest.mark.parametrize(
    ("message", "refused"),
    [
        ("invalid beta flag", SENT[:2]),
        ("invalid beta flag: context-1m-2025-08-07", SENT[:1]),
        (
            "Unexpected value(s) `interleaved-thinking-2025-05-14` for the `anthropic-beta` header. Please",
            SENT[1:2],
        ),
        ("Unexpected value(s) `context-1m-2025-08-07x` for the `anthropic-beta` header.", SENT[:2]),
        ("anthropic_version: Input should be 'bedrock-2023-05-31'", SENT[2:]),
        ("Unexpected value", ()),
        ("messages: at least one message is required", ()),
        ("context-1m-2025-08-07 is too long", ()),
    ],
)
def test_a_refusal_is_about_what_it_quotes(message: str, refused: tuple[str, ...]) -> None:
    assert refused_words(SENT, UpstreamError(400, message)) == frozenset(refused)
    assert refused_words(SENT, UpstreamError(403, message)) == frozenset()


def test_nothing_is_left_out_that_was_not_sent() -> None:
    assert refused_words((), UpstreamError(400, "invalid beta flag")) == frozenset()
    assert refused_words(("a",), UpstreamError(400, "anthropic_version: no")) == frozenset()


def test_what_a_model_refused_is_remembered_for_ten_minutes() -> None:
    words = RefusedWords()
    words.note("m", {"a"}, 100.0)
    words.note("m", {"b"}, 200.0)
    assert words.of("m", 699.0) == {"a", "b"}
    assert words.of("m", 100.0 + REST_SECONDS) == {"b"}
    assert words.of("other", 300.0) == words.of(None, 300.0) == frozenset()


def test_what_is_remembered_is_bounded() -> None:
    words = RefusedWords()
    for number in range(3 * MAX_MODELS):
        words.note(f"m{number}", {"a"}, 0.0)
    words.note(f"m{number}", {f"a{number}" for number in range(10 * MAX_WORDS)}, 1.0)
    found = [words.of(f"m{number}", 2.0) for number in range(3 * MAX_MODELS)]
    assert sum(map(bool, found)) == MAX_MODELS
    assert max(map(len, found)) == MAX_WORDS


def test_a_host_of_anthropics_own_api_gets_the_names_that_the_operator_lets_pass() -> None:
    provider = Provider(name="main", kind=Kind.ANTHROPIC, base_url="https://h/v1", betas=("one", "adv*"))
    wire, asked = wire_of(provider), VendorCall(Operation.CHAT, b"POST", b"/messages")
    assert wire.edits is not None
    version = (b"anthropic-version", b"2023-06-01")
    stated = [(b"Anthropic-Beta", b"one,  advanced-tool-use-2025-11-20"), version]
    found = wire.edits(provider, asked, b"{}", stated)
    assert (found.edits, found.headers, found.dropped) == ((), stated, ())
    found = wire.edits(provider, asked, b"{}", [(b"anthropic-beta", b"one,two"), version])
    assert found.headers == [version, (b"anthropic-beta", b"one")]
    assert found.dropped == ("anthropic-beta[two]",)
    assert found.refusable == ()
    found = wire.edits(provider, asked, b"{}", [(b"anthropic-beta", b"two"), version])
    assert found.headers == [version]


def test_providers_that_let_every_name_pass_are_called_as_before() -> None:
    for kind in (Kind.ANTHROPIC, Kind.OPENAI):
        assert wire_of(Provider(name="main", kind=kind, base_url="https://h/v1")) is VENDOR
