"""Lists in pages, as each vendor turns them.

OpenAI pages by the identifier of the last entry (``after``), Anthropic by that (``after_id``, ``before_id``)
or by a token (``page``), Google by a token (``pageToken``).  Tokens are identifiers, too: a page that is
asked for again is the same again.
"""

import re
from typing import Final

from mgw.simulator.answer import Call, Family, Json, Refusal
from mgw.simulator.resources_anthropic import PAGED_BY_ID
from mgw.simulator.resources_gemini import BY_ID
from mgw.simulator.store import Entry

_DEFAULT: Final = {Family.OPENAI: 20, Family.ANTHROPIC: 20, Family.GEMINI: 50}
_MOST: Final = 1000


def page(call: Call, path: str, entries: list[Entry]) -> Json:
    """The page that was asked for of all the entries of a collection."""
    match call.family:
        case Family.OPENAI:
            return openai_page(call, entries)
        case Family.ANTHROPIC:
            is_by_id = call.template.removeprefix("/v1") in PAGED_BY_ID
            return anthropic_page(call, entries) if is_by_id else anthropic_token_page(call, entries)
    return gemini_page(call, path.rpartition("/")[2], entries)


def openai_page(call: Call, entries: list[Entry]) -> Json:
    """A list of OpenAI's."""
    shown, more = _behind(call, entries, call.query.get("after"), "limit")
    return {"object": "list", "data": shown, **_ends(shown), "has_more": more}


def anthropic_page(call: Call, entries: list[Entry]) -> Json:
    """A list of Anthropic's that pages by identifiers, forwards or backwards."""
    before = call.query.get("before_id")
    if before is None:
        shown, more = _behind(call, entries, call.query.get("after_id"), "limit")
    else:
        shown, more = _behind(call, entries[::-1], before, "limit")
        shown = shown[::-1]
    return {"data": shown, **_ends(shown), "has_more": more}


def anthropic_token_page(call: Call, entries: list[Entry]) -> Json:
    """A list of Anthropic's that pages by tokens."""
    token = call.query.get("page")
    shown, more = _behind(call, entries, token and token.removeprefix("page_"), "limit")
    return {"data": shown, "next_page": f"page_{_name(shown[-1])}" if more else None, "has_more": more}


def gemini_page(call: Call, plural: str, entries: list[Entry]) -> Json:
    """A list of Google's; the newer collections spell their words with underscores."""
    is_new = plural in BY_ID
    token = call.query.get("page_token") or call.query.get("pageToken") or None
    size = "page_size" if "page_size" in call.query else "pageSize"
    shown, more = _behind(call, entries, token, size)
    named: Json = {"operations" if plural == "batches" else plural: shown}
    if more:
        named["next_page_token" if is_new else "nextPageToken"] = _name(shown[-1])
    return named


def _behind(call: Call, entries: list[Entry], after: str | None, size: str) -> tuple[list[Entry], bool]:
    """So many entries behind the one that is named, and whether there are more."""
    names = [_name(entry) for entry in entries]
    if after and after not in names:
        raise Refusal(400, f"Invalid page: nothing is known of {after!r}.", "after")
    start = names.index(after) + 1 if after else 0
    said = call.query.get(size) or str(_DEFAULT[call.family])
    if not re.fullmatch(r"[0-9]{1,6}", said) or not int(said):
        raise Refusal(400, f"Invalid value for '{size}': {said!r}.", size)
    stop = start + min(int(said), _MOST)
    return entries[start:stop], stop < len(entries)


def _ends(shown: list[Entry]) -> Json:
    return {"first_id": _name(shown[0]) if shown else None, "last_id": _name(shown[-1]) if shown else None}


def _name(entry: Entry) -> str:
    return str(entry.get("id") or entry.get("name"))
