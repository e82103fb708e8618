"""Keep secrets out of the process log, whoever wrote the line.

A key of ours lives in a :class:`~mgw.secret.Secret` and does not print.  What this guards against is text
made elsewhere: an exception of a library that quotes an address with ``?key=``, or a header.  The observer
here formats each event itself and passes on the finished text alone, so that no observer behind it can print
a field that was not looked at.  Tracebacks are those without local variables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final

from twisted.logger import ILogObserver, LogEvent, eventAsText
from zope.interface import implementer

from mgw.secret import Secret, without

REDACTED: Final = "[redacted]"
MAX_TEXT: Final = 64 * 1024
_KEPT: Final = ("log_time", "log_level", "log_namespace", "log_system", "log_trace")

_PATTERNS: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(?<![\w-])([\w-]*(?:key|token|secret|password)(?:=|%3d))[^\s&\"'<>;,)]+",  # of a query or a form
        r"(?<![\w-])((?:proxy-)?authorization[\"']*\s*[:,=]\s*b?[\"']?(?:[a-z]+ +)?)[^\s\"',;)]+",
        r"(?<![\w-])(x-(?:goog-)?api-key[\"']*\s*[:,=]\s*b?[\"']?)[^\s\"',;)]+",
        r"(?<!\w)((?:bearer|token)\s+)[\w.~+/=-]{8,}",
        r"(?<![\w-])()(?:sk-[\w-]{8,}|AIza[\w-]{10,}|ya29\.[\w.-]{10,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)",
    )
)
"""The first group of each stays."""


def without_patterns(text: str) -> str:
    """Return the text without whatever looks like a credential."""
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\1{REDACTED}", text)
    return text


def without_secrets(text: str, secrets: Iterable[Secret]) -> str:
    """Return the text without these values, however it spells them."""
    return without(text, secrets, lambda _: REDACTED)


@implementer(ILogObserver)
class RedactingObserver:
    """An observer that shows another one each event as text without secrets."""

    def __init__(self, inner: Callable[[LogEvent], None], secrets: Callable[[], Iterable[Secret]]) -> None:
        self._inner = inner
        self._secrets = secrets

    def __call__(self, event: LogEvent) -> None:
        """Show the event's text."""
        text = eventAsText(event, includeTimestamp=False, includeSystem=False)
        if not text:
            return
        text = without_patterns(without_secrets(text[:MAX_TEXT], self._secrets()))
        shown: LogEvent = {key: event[key] for key in _KEPT if key in event}
        self._inner({**shown, "log_format": "{log_text}", "log_text": text})


def redacting_observer(
    inner: Callable[[LogEvent], None], secrets: Callable[[], Iterable[Secret]]
) -> RedactingObserver:
    """Wrap one of twistd's observers.

    :param secrets: returns the secrets known at the moment; asked for every line.
    """
    return RedactingObserver(inner, secrets)
