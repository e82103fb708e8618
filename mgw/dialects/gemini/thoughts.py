"""The signatures of thoughts and calls, as Google's clients get them.

Clients drop thoughts from their histories, but keep the signatures of calls: Google demands those.  So the
first call behind a thought of Anthropic's carries that thought's tagged signature as well, and so it does
behind one that OpenAI encrypted (contract 11.9).  A thought that is all signature, since it is redacted or
shown without words, then comes back from the call alone (contract 8.11); one of OpenAI's always does, since
its words are no more than a summary.  Behind several thoughts a call carries none: one of them would be half
of the truth.

The first call of a response is always signed: Google's clients send signatures back and its models demand
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from msgspec.json import encode

from mgw.canonical.conversation import JsonObject, Signature
from mgw.dialects.foreign_history import Members, marked_elements, members_of, remove_all
from mgw.dialects.signatures import SKIP_VALIDATOR, Digest, is_tagged, names_reasoning_item, tag_signature
from mgw.nouns.vocabulary import Family
from mgw.wire.json_document import JsonDocument, JsonNode, are_all_siblings
from mgw.wire.json_spans import Edit

_SIGNATURES: Final = ("thoughtSignature", "thought_signature")
_COUNTED: Final = ("generateContentRequest", "generate_content_request")
"""Where a request for a count of tokens may hold the request that is to be counted."""
_OF_THOUGHTS: Final = frozenset({"text", "thought", "partMetadata", "part_metadata", *_SIGNATURES})
_SKIP: Final = encode(SKIP_VALIDATOR)


@dataclass(slots=True)
class ThoughtSigner:
    """Signs the thoughts of one candidate, in the order in which its parts are written."""

    _open: Digest | None = None
    """The digest of the words of the thought that has not ended."""
    _signed: list[str] = field(default_factory=list)
    """The signatures since the last call, as written."""

    def add(self, text: str) -> None:
        """Go on with a thought."""
        if self._open is None:
            self._open = Digest()
        self._open.add(text)

    def sign(self, signature: Signature) -> str | None:
        """End the thought, and return the signature to write; ``None``: there is nothing to remember.

        A thought that ends without a signature goes on with the next, as clients join them.
        """
        if signature.family is Family.GEMINI and not signature.value:
            return None
        digest, self._open = self._open or Digest(), None
        rendered = tag_signature(signature, digest)
        if may_be_carried(signature):
            self._signed.append(rendered)
        return rendered

    def interrupt(self) -> None:
        """Say that a part was written that is no thought: what follows is another one."""
        self._open = None

    def pop_carried(self) -> str | None:
        """Return the signature that the next call carries for the thought before it."""
        signed, self._signed = self._signed, []
        return signed[0] if len(signed) == 1 else None


def render_signature(signature: Signature | None) -> str | None:
    """Return a signature for a client of Google's: tagged, and none where there is nothing to remember."""
    if signature is None or (signature.family is Family.GEMINI and not signature.value):
        return None
    return tag_signature(signature)


def render_call_signature(signature: Signature | None, carried: str | None, *, first: bool) -> str | None:
    """Return what a call is signed with: its own, that of the thought which it carries, or nothing.

    The ``first`` of a response is signed with what skips the check if with nothing else.
    """
    return render_signature(signature) or carried or (SKIP_VALIDATOR if first else None)


def may_be_carried(signature: Signature) -> bool:
    """Whether a signature beside a call is a thought's: Anthropic signs nothing else, nor does OpenAI."""
    if signature.family is Family.ANTHROPIC:
        return signature.value != ""
    return names_reasoning_item(signature)


def skip_validation(contents: list[JsonObject]) -> None:
    """Let the first call of each step of the running turn pass where it has no signature."""
    for content in reversed(contents):
        parts: list[JsonObject] = content["parts"]
        if content["role"] == "model":
            first = next((part for part in parts if "functionCall" in part), None)
            if first is not None:
                first.setdefault("thoughtSignature", SKIP_VALIDATOR)
        elif not any("functionResponse" in part for part in parts):
            return


def skip_image_validation(contents: list[JsonObject]) -> None:
    """Let each image that the model is said to have made pass where it has no signature."""
    for content in contents:
        for part in content["parts"] if content["role"] == "model" else ():
            if "inlineData" in part:
                part.setdefault("thoughtSignature", SKIP_VALIDATOR)


def find_tagged(document: JsonDocument) -> list[Edit]:
    """Return the edits that remove tagged thoughts, and put Gemini's skip value for other tagged signatures.

    "contents.parts must not be empty".  Roles need not alternate (google/adk-go#1302).
    """
    request = document.members(document.root)
    edits = _contents(document, request)
    for name in _COUNTED:
        edits += _contents(document, members_of(document, request, name))
    return edits


def _contents(document: JsonDocument, request: Members) -> list[Edit]:
    edits: list[Edit] = []
    gone: list[JsonNode] = []
    for content in marked_elements(document, request, "contents"):
        thoughts: list[JsonNode] = []
        for part in marked_elements(document, document.members(content), "parts"):
            members = document.members(part)
            signed = [members[name][-1] for name in _SIGNATURES if name in members]
            tagged = [place for place in signed if is_tagged(document.string(place) or "")]
            if tagged and _is_only_thought(document, members):
                thoughts.append(part)
            else:
                edits += [((place.value, place.end), _SKIP) for place in tagged]
        if are_all_siblings(thoughts):
            gone.append(content)
        else:
            edits += remove_all(thoughts)
    return edits + remove_all(gone)


def _is_only_thought(document: JsonDocument, members: Members) -> bool:
    thought = members.get("thought")
    is_thought = thought is not None and document.raw(thought[-1]) == b"true"
    return is_thought and members.keys() <= _OF_THOUGHTS
