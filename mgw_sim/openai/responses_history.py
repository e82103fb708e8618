"""What OpenAI's server knows of the items that a client sends back: the stored ones, and its own thoughts.

A response that is stored leaves its items behind, each with the thought before it and the item behind it.
One that is not leaves nothing; a thought then lives on only in the ``encrypted_content`` of its ``reasoning``
item, which the client sends back unchanged.  The simulator's holds the item's identifier, what must follow
it, and a digest by which the simulator knows it for its own.

Sources: the words of the API's own errors, as bug reports of clients quote them (vercel/ai 7099 and 7543,
openai/codex 8145, continuedev/continue 8933 and 12620).  Nothing of this is checked where identifiers that
nobody knows are taken for known ones.
"""

import base64
import hashlib
import json
from collections.abc import Collection
from typing import Final

from mgw_sim.api import ApiError, Json, Request
from mgw_sim.openai.responses_items import input_items

_HEAD: Final = "simulated:"
_SALT: Final = b"a thought of the simulator's "
_COLLECTION: Final = "/responses/items"
_MESSAGE: Final = "message"
_HINT: Final = (
    " Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove "
    "this item from your input."
)


def seal(item_id: str, following: Json | None) -> str:
    """The encrypted content of a thought, behind which an answer goes on with ``following``."""
    payload = json.dumps([item_id, _place_of(following)]).encode()
    return f"{_HEAD}{base64.urlsafe_b64encode(payload).decode()}.{_digest(payload)}"


def _place_of(item: Json | None) -> str | None:
    """Return what an item is known by without its identifier: its call, or that it is a message."""
    return None if item is None else item.get("call_id") or item["type"]


def _digest(payload: bytes) -> str:
    return hashlib.sha256(_SALT + payload).hexdigest()[:16]


def _unseal(content: str) -> tuple[str, str | None] | None:
    """The identifier and what follows, or None for what the simulator has not made."""
    encoded, _, digest = content.removeprefix(_HEAD).partition(".")
    try:
        payload = base64.urlsafe_b64decode(encoded)
        if not content.startswith(_HEAD) or digest != _digest(payload):
            return None
        item_id, following = json.loads(payload)
    except ValueError:
        return None
    return item_id, following


def keep_items(request: Request, items: list[Json]) -> None:
    """Remember the items of a response that is stored."""
    thought: str | None = None
    for item, following in zip(items, [*items[1:], None], strict=True):
        is_thought = item["type"] == "reasoning"
        entry = {
            "item": item,
            "thought": None if is_thought else thought,
            "following": _place_of(following) if is_thought else None,
        }
        request.store.put((request.family.value, _COLLECTION, item["id"]), entry)
        thought = item["id"] if is_thought else None


def recall_items(request: Request, known: Collection[str]) -> list[Json]:
    """The input's items, with the stored ones in the place of references to them.

    ``known``: the identifiers of the items that the conversation has had on this connection.  Raises the
    ApiError for the first item that the server does not know, or that stands without what belongs to it.
    """
    items = input_items(request.body)
    if request.lenient or "lenient" in request.faults:
        return items
    recalled = [_recall(request, item) for item in items]
    for index, item in enumerate(recalled):
        if item.get("id") in known:
            continue
        if item["type"] == "reasoning":
            _check_thought(request, index, item, recalled[index + 1 :])
        elif item.get("id"):
            _check_companion(request, item, recalled[:index])
    return recalled


def _entry(request: Request, name: object) -> Json | None:
    return request.store.get((request.family.value, _COLLECTION, str(name)))


def _recall(request: Request, item: Json) -> Json:
    if item["type"] != "item_reference":
        return item
    entry = _entry(request, item["id"])
    if entry is None:
        raise _not_found(request, item["id"])
    found: Json = entry["item"]
    return found


def _not_found(request: Request, name: str) -> ApiError:
    hint = _HINT if request.body.get("store") is False else ""
    return ApiError(404, f"Item with id '{name}' not found.{hint}", "input")


def _check_thought(request: Request, index: int, item: Json, behind: list[Json]) -> None:
    """A thought is stored or has its own encrypted content, and what it led to stands behind it."""
    name, content = item.get("id"), item.get("encrypted_content")
    entry = _entry(request, name)
    if content:
        item_id, following = _unseal(content) or ("", None)
        if not item_id:
            raise _not_verified(item, "Encrypted content could not be decrypted or parsed.")
        if name and name != item_id:
            raise _not_verified(item, "Encrypted content item_id did not match the target item id.")
    elif entry is not None:
        item_id, following = str(name), entry["following"]
    elif name:
        raise _not_found(request, name)
    else:
        param = f"input[{index}].encrypted_content"
        raise ApiError(400, f"Missing required parameter: '{param}'.", param, "missing_required_parameter")
    if following is not None and not (behind and _is_at(behind[0], following)):
        message = f"Item '{item_id}' of type 'reasoning' was provided without its required following item."
        raise ApiError(400, message, "input")


def _is_at(item: Json, place: str) -> bool:
    """Whether an item of the model's is the one that stood in a place."""
    if place == _MESSAGE:
        return bool(item["type"] == _MESSAGE and item.get("role") == "assistant")
    return not item["type"].endswith("_output") and _place_of(item) == place


def _not_verified(item: Json, reason: str) -> ApiError:
    content = item["encrypted_content"]
    what = f"for item {item['id']}" if item.get("id") else f"{content[:4]}...{content[-4:]}"
    message = f"The encrypted content {what} could not be verified. Reason: {reason}"
    return ApiError(400, message, code="invalid_encrypted_content")


def _check_companion(request: Request, item: Json, before: list[Json]) -> None:
    """A stored item that came of a thought stands behind it."""
    entry = _entry(request, item["id"])
    thought = entry["thought"] if entry else None
    if thought is not None and not any(_is_thought(one, thought) for one in before):
        subject = f"Item '{item['id']}' of type '{item['type']}'"
        message = f"{subject} was provided without its required 'reasoning' item: '{thought}'."
        raise ApiError(400, message, "input")


def _is_thought(item: Json, name: str) -> bool:
    """Whether an item is the thought of that identifier, which it may carry only in its content."""
    if item["type"] != "reasoning":
        return False
    sealed = _unseal(item.get("encrypted_content") or "")
    return name in {item.get("id"), sealed[0] if sealed else None}
