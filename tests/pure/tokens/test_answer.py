"""The tokens of an answer are estimated by its text, of which a bounded part is kept."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.canonical.conversation import Media, MediaKind, Refusal, Text, Thinking, ToolCall
from mgw.canonical.reply import (
    ArgumentsAdded,
    Began,
    CallBegan,
    CallEnded,
    Candidate,
    Counted,
    Ended,
    MediaAdded,
    RefusalAdded,
    Reply,
    ReplyEvent,
    StopReason,
    TextAdded,
    ThinkingAdded,
    TokenUsage,
)
from mgw.tokens.answer import MAX_BLOCKS, MAX_OPEN, AnswerTokens
from mgw.tokens.estimate import PER_CALL, UNSEEN_IMAGE
from mgw.tokens.text import BLOCK_CHARS, MAX_READ_CHARS, estimate_text_tokens
from tests.support.laws import examples

CORPUS = Path(__file__).resolve().parents[3] / "bench" / "corpus"
ENGLISH = (CORPUS / "english.txt").read_text(encoding="utf-8")
PICTURE = Media(MediaKind.IMAGE, media_type="image/png")


def of_text(*pieces: str) -> AnswerTokens:
    found = AnswerTokens()
    for piece in pieces:
        found.add(piece)
    return found


def held(found: AnswerTokens) -> int:
    return sum(map(len, found._blocks)) + sum(map(len, found._open.values()))


@given(st.lists(st.text(max_size=700), max_size=30))
def test_any_cut_gives_the_same_estimate(pieces: list[str]) -> None:
    assert of_text(*pieces).estimate() == of_text("".join(pieces)).estimate()


@examples(20)
@given(st.integers(1, 5 * MAX_READ_CHARS), st.integers(1, 3 * MAX_READ_CHARS))
def test_of_a_long_text_evenly_spaced_blocks_are_kept(size: int, piece: int) -> None:
    text = (ENGLISH * (size // len(ENGLISH) + 1))[:size]
    found = of_text(*(text[at : at + piece] for at in range(0, size, piece)))
    assert held(found) <= (MAX_BLOCKS + 1) * BLOCK_CHARS
    assert len(found._blocks) >= min(size // BLOCK_CHARS, MAX_BLOCKS // 2)
    assert found.characters == size
    assert found.estimate() == of_text(text).estimate()


@pytest.mark.parametrize("count", [1, MAX_BLOCKS, MAX_BLOCKS + 1, 3 * MAX_BLOCKS, 1000, 5000])
@pytest.mark.parametrize("at_once", [1, 7, 5000])
def test_the_blocks_that_are_kept_are_evenly_spaced(count: int, at_once: int) -> None:
    blocks = [f"{number:{BLOCK_CHARS}}" for number in range(count)]
    found = of_text(*("".join(blocks[at : at + at_once]) for at in range(0, count, at_once)))
    numbers = [int(block) for block in found._blocks]
    assert numbers == list(range(0, count, found._stride))


@pytest.mark.parametrize("name", ["english", "german", "chinese", "python", "json", "logs"])
@pytest.mark.parametrize("times", [1, 40, 400])
def test_the_estimate_is_that_of_the_text(name: str, times: int) -> None:
    text = next(CORPUS.glob(f"{name}.*")).read_text(encoding="utf-8") * times
    assert of_text(text).estimate() == pytest.approx(estimate_text_tokens([text]), rel=0.04)


EVENTS: tuple[tuple[ReplyEvent, int], ...] = (
    (TextAdded("hello there"), 2),
    (ThinkingAdded("hello there"), 2),
    (RefusalAdded("hello there"), 2),
    (CallBegan(0, "id", "hello there"), 2 + PER_CALL),
    (ArgumentsAdded(0, "hello there"), 2),
    (MediaAdded(PICTURE), UNSEEN_IMAGE),
    (Began(), 0),
    (CallEnded(0), 0),
    (Counted(TokenUsage(1, 2)), 0),
    (Ended(StopReason.END), 0),
)


@pytest.mark.parametrize(("event", "tokens"), EVENTS, ids=lambda value: type(value).__name__)
def test_an_event_counts_what_it_says(event: ReplyEvent, tokens: int) -> None:
    found = AnswerTokens()
    found.add_events([event])
    assert found.estimate() == tokens


def test_a_whole_answer_counts_as_its_stream_does() -> None:
    parts = Text("hello there"), Thinking("so it is"), Refusal("no"), ToolCall("id", "look", "{}"), PICTURE
    whole, streamed = AnswerTokens(), AnswerTokens()
    whole.add_reply(Reply((Candidate(parts, StopReason.END), Candidate(parts, StopReason.END))))
    for candidate in (0, 1):
        streamed.add_events(
            [
                TextAdded("hello there", candidate),
                ThinkingAdded("so it is", candidate),
                RefusalAdded("no", candidate),
                CallBegan(0, "id", "look", candidate=candidate),
                ArgumentsAdded(0, "{}", candidate),
                MediaAdded(PICTURE, candidate),
            ]
        )
    assert whole.estimate() == streamed.estimate() > 2 * (UNSEEN_IMAGE + PER_CALL)


def test_pieces_of_several_texts_are_put_together_each_by_itself() -> None:
    words = "international", "responsibilities"
    mixed = AnswerTokens()
    for first, second in zip(*([word[at : at + 2] for at in range(0, 16, 2)] for word in words), strict=True):
        mixed.add_events([TextAdded(first), TextAdded(second, 1)])
    assert mixed.estimate() == round(estimate_text_tokens(words))


def test_many_texts_at_once_share_what_is_held() -> None:
    found = AnswerTokens()
    for call in range(MAX_OPEN):
        found.add_events([ArgumentsAdded(call, "x" * (BLOCK_CHARS - 1))])
    assert (len(found._open), len(found._blocks)) == (MAX_OPEN, 0)
    for call in range(MAX_OPEN, 3 * MAX_OPEN):
        found.add_events([ArgumentsAdded(call, "x" * (BLOCK_CHARS - 1))])
    assert len(found._open) == MAX_OPEN + 1
    assert len(found._blocks) == 2 * MAX_OPEN - 1


def test_the_factor_of_a_model_holds_for_text_alone() -> None:
    found = of_text("hello there")
    found.add_events([MediaAdded(PICTURE)])
    assert found.estimate(1.5) == 3 + UNSEEN_IMAGE
