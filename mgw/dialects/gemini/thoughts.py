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

from mgw.canonical.conversation import JsonObject, Signature
from mgw.dialects.signatures import SKIP_VALIDATOR, Digest, names_reasoning_item, tag_signature
from mgw.nouns.vocabulary import Family


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
