"""OpenAI's videos: queued when they are asked for, done when they are looked for.

Source: ``openai.types.video`` 3.54.
"""

from typing import Final

from mgw.simulator.answer import Answer, Call, Handler, Json, Refusal
from mgw.simulator.content import download
from mgw.simulator.resources import fields_of, item_at, key_at, new, said
from mgw.simulator.store import Entry, Made

_VIDEOS: Final = "/v1/videos"
_ITEM: Final = "/v1/videos/{}"
_VARIANTS: Final = {"video": "video/mp4", "thumbnail": "image/webp", "spritesheet": "image/jpeg"}
_DEFAULT_SIZE: Final = 100_000


def make(call: Call) -> Answer:
    """``POST /v1/videos``, as a form or as JSON."""
    return said(call, new(call, _VIDEOS, _fields(call)))


def remix(call: Call) -> Answer:
    """``POST /v1/videos/{}/remix``."""
    item_at(call, _ITEM)
    return said(call, new(call, _VIDEOS, {**_fields(call), "remixed_from_video_id": call.ids[0]}))


def _fields(call: Call) -> Json:
    given = fields_of(call)
    prompt = given.get("prompt")
    if not isinstance(prompt, str) or not prompt:
        raise Refusal(400, "Missing required parameter: 'prompt'.", "prompt", "missing_required_parameter")
    seconds, size = str(given.get("seconds") or "4"), str(given.get("size") or "720x1280")
    made = {"model": call.model or "sora-2", "prompt": prompt, "seconds": seconds, "size": size}
    return {**made, "error": None, "expires_at": None, "completed_at": None, "remixed_from_video_id": None}


def show(call: Call) -> Answer:
    """``GET /v1/videos/{}``: by now it is done."""
    return said(call, _done(call))


def _done(call: Call) -> Entry:
    found = item_at(call, _ITEM)
    done: Entry = {**found, "status": "completed", "progress": 100, "completed_at": call.now}
    known = call.store.get(key_at(call, _ITEM)) is not None
    return call.store.put(key_at(call, _ITEM), done) if known else done


def content(call: Call) -> Answer:
    """``GET /v1/videos/{}/content``."""
    _done(call)
    variant = call.query.get("variant", "video")
    if variant not in _VARIANTS:
        raise Refusal(400, f"Invalid value: '{variant}'.", "variant", "invalid_value")
    size = call.faults.number("size")
    made = Made(_DEFAULT_SIZE if size is None else size)
    return download(call, made, _VARIANTS[variant], f"{call.ids[0]}.mp4")


CLAIMS: Final[dict[tuple[str, str], Handler]] = {
    ("POST", "/videos"): make,
    ("POST", "/videos/edits"): make,
    ("POST", "/videos/extensions"): make,
    ("POST", "/videos/{}/remix"): remix,
    ("GET", "/videos/{}"): show,
    ("GET", "/videos/{}/content"): content,
}
