"""Downloads: a content in pieces, whole or in part (RFC 9110 13 and 14)."""

import hashlib
import re
from typing import Final

from mgw.simulator.answer import Answer, Call, Content, Download, Unary

_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)")
_SAMPLE: Final = 4096


def download(call: Call, content: Content, content_type: str, filename: str | None) -> Answer:
    """Answer with a content: all of it, a part, or nothing, as the client's headers ask."""
    name = (filename or call.ids[-1]).rpartition("/")[2].replace('"', "")
    tag = _tag(content)
    headers = (
        ("Content-Disposition", f'attachment; filename="{name}"'),
        ("Accept-Ranges", "bytes"),
        ("ETag", tag),
    )
    if call.headers.get("if-none-match") in {tag, "*"}:
        return Unary(b"", 304, content_type, headers)
    found = _RANGE.fullmatch(call.headers.get("range", "").strip())
    if found is None or not (found[1] or found[2]) or call.headers.get("if-range", tag) != tag:
        return Download(content, 0, content.size, 200, content_type, headers)
    start, stop = _span(found[1], found[2], content.size)
    if start >= stop:
        return Unary(b"", 416, content_type, (*headers, ("Content-Range", f"bytes */{content.size}")))
    part = ("Content-Range", f"bytes {start}-{stop - 1}/{content.size}")
    return Download(content, start, stop, 206, content_type, (*headers, part))


def _span(first: str, last: str, size: int) -> tuple[int, int]:
    """From where to before where: ``5-9``, ``5-`` or, counted from the end, ``-5``."""
    if not first:
        return max(0, size - int(last)), size
    return int(first), min(size, int(last) + 1) if last else size


def _tag(content: Content) -> str:
    """A validator: the length and a sample stand for all of it."""
    digest = hashlib.sha256(content.read(0, _SAMPLE) + content.read(max(0, content.size - _SAMPLE), _SAMPLE))
    return f'"{content.size:x}-{digest.hexdigest()[:16]}"'
