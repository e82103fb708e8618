"""The candidates of an answer, and what else of a ``GenerateContentResponse`` is read.

What may be malformed without harm to the rest (counts, citations, log probabilities) is kept raw and read by
itself.

Source: ``GenerateContentResponse`` of google-genai 3.4.  ``citations`` are called ``citationSources`` by the
Gemini API.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import MsgspecError, Raw, Struct
from msgspec.json import Decoder
from msgspec.structs import asdict, replace

from mgw.canonical.conversation import Citation
from mgw.canonical.reply import Alternative, TokenLogprob

NULL: Final = Raw(b"null")
"""What a raw value is where there is none."""


class FunctionCallShape(Struct, frozen=True, rename="camel"):
    """``functionCall``; what it continues has no name."""

    name: str | None = None
    id: str | None = None
    args: Raw = NULL


class BlobShape(Struct, frozen=True, rename="camel"):
    """``inlineData``."""

    data: str | None = None
    mime_type: str | None = None


class PartShape(Struct, frozen=True, rename="camel"):
    """``Part``."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCallShape | None = None
    inline_data: BlobShape | None = None


class ContentShape(Struct, frozen=True, rename="camel"):
    """``Content``."""

    parts: list[PartShape] | None = None


class CandidateShape(Struct, frozen=True, rename="camel"):
    """``Candidate``, or a piece of it."""

    content: ContentShape | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    citation_metadata: Raw = NULL
    logprobs_result: Raw = NULL


class PromptFeedback(Struct, frozen=True, rename="camel"):
    """``promptFeedback``."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class GenerateContentResponse(Struct, frozen=True, rename="camel"):
    """``GenerateContentResponse``, or an error in its place."""

    candidates: list[CandidateShape] | None = None
    prompt_feedback: PromptFeedback | None = None
    usage_metadata: Raw = NULL
    model_version: str | None = None
    response_id: str | None = None
    error: Any = None  # Any: whatever a provider calls an error


class _CitationSource(Struct, frozen=True, rename="camel"):
    uri: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class _CitationMetadata(Struct, frozen=True, rename="camel"):
    citation_sources: list[_CitationSource] | None = None
    citations: list[_CitationSource] | None = None


class _Token(Struct, frozen=True, rename="camel"):
    token: str = ""
    log_probability: float = 0.0


class _Tokens(Struct, frozen=True, rename="camel"):
    candidates: list[_Token] | None = None


class _LogprobsResult(Struct, frozen=True, rename="camel"):
    chosen_candidates: list[_Token] | None = None
    top_candidates: list[_Tokens] | None = None


_RESPONSE: Final = Decoder(GenerateContentResponse, strict=False)  # proto3 JSON may write numbers as strings
_RESPONSES: Final = Decoder(list[GenerateContentResponse], strict=False)
_CITATIONS: Final = Decoder(_CitationMetadata, strict=False)
_LOGPROBS: Final = Decoder(_LogprobsResult, strict=False)
_UNREADABLE: Final = (MsgspecError, UnicodeDecodeError, RecursionError)


def decode_response(document: bytes) -> GenerateContentResponse | None:
    """Return the response that a document is; ``None`` where it is none."""
    try:
        return _RESPONSE.decode(document)
    except _UNREADABLE:
        return None


def sole_text(content: ContentShape | None) -> str | None:
    """Return the text that is all of a content, as in most; ``None``: there is more, or nothing."""
    parts = content.parts if content is not None else None
    if parts is None or len(parts) != 1:
        return None
    part = parts[0]
    if part.thought or part.thought_signature:
        return None
    if part.function_call is not None or part.inline_data is not None:
        return None
    return part.text or None


def split_parts(content: ContentShape | None) -> Sequence[PartShape]:
    """Return the parts; a text beside something else, which Google never sends, stands before it."""
    parts = content.parts if content is not None else None
    if not parts:
        return ()
    for part in parts:
        if part.text and (part.function_call is not None or part.inline_data is not None):
            return list(_split_texts(parts))
    return parts


def _split_texts(parts: Iterable[PartShape]) -> Iterator[PartShape]:
    for part in parts:
        if part.text and (part.function_call is not None or part.inline_data is not None):
            yield PartShape(text=part.text, thought=part.thought)
        yield part


def decode_response_array(document: bytes) -> GenerateContentResponse | None:
    """Return the responses of an array as one; ``None`` where it is none, or is not whole."""
    try:
        pieces = _RESPONSES.decode(document)
    except _UNREADABLE:
        return None
    candidates: dict[int, CandidateShape] = {}
    for piece in pieces:
        for place, candidate in enumerate(piece.candidates or ()):
            number = place if candidate.index is None else candidate.index
            before = candidates.get(number)
            candidates[number] = candidate if before is None else _join(before, candidate)
    joined = GenerateContentResponse(candidates=[candidates[number] for number in sorted(candidates)] or None)
    for piece in pieces:
        joined = replace(joined, **_present_fields(piece, "candidates"))
    return joined


def _join(before: CandidateShape, candidate: CandidateShape) -> CandidateShape:
    parts = [part for one in (before, candidate) if one.content for part in one.content.parts or ()]
    return replace(before, **_present_fields(candidate, "content"), content=ContentShape(parts))


def _present_fields(piece: Struct, apart: str) -> dict[str, Any]:  # Any: whatever the fields hold
    """Return the fields that are present, but for one."""
    return {
        name: value
        for name, value in asdict(piece).items()
        if name != apart and value is not None and (type(value) is not Raw or is_present(value))
    }


def is_present(raw: Raw) -> bool:
    """Whether a raw value is more than null."""
    return raw is not NULL and bytes(raw) != b"null"


def parse_citations(raw: Raw) -> tuple[Citation, ...]:
    """Return where a response comes from."""
    if not is_present(raw):
        return ()
    try:
        found = _CITATIONS.decode(raw)
    except _UNREADABLE:
        return ()
    return tuple(
        Citation(source.uri, source.title, source.start_index or 0, source.end_index)
        for source in (found.citation_sources or found.citations or ())
    )


def parse_logprobs(raw: Raw) -> tuple[TokenLogprob, ...]:
    """Return how likely the tokens were."""
    if not is_present(raw):
        return ()
    try:
        found = _LOGPROBS.decode(raw)
    except _UNREADABLE:
        return ()
    tops = found.top_candidates or []
    return tuple(
        TokenLogprob(
            token.token,
            token.log_probability,
            _parse_alternatives(tops[place]) if place < len(tops) else (),
        )
        for place, token in enumerate(found.chosen_candidates or ())
    )


def _parse_alternatives(tokens: _Tokens) -> tuple[Alternative, ...]:
    return tuple(Alternative(token.token, token.log_probability) for token in tokens.candidates or ())
