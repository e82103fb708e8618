"""The lines of ``mgw tail``: which events it shows, each on one line.

Names of models come from clients, so whatever would not print is replaced before it reaches a terminal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from json import dumps
from types import MappingProxyType
from typing import Any, Final

Event = Mapping[str, Any]
"""What an event says."""

_GREEN, _YELLOW, _RED, _DIM = "32", "33", "31", "2"
_OUTCOME_COLOURS: Final = MappingProxyType(
    {"ok": _GREEN, "rejected": _YELLOW, "client_abort": _YELLOW, "upstream_error": _RED}
)
_LEVEL_COLOURS: Final = MappingProxyType({"warn": _YELLOW, "error": _RED, "critical": _RED, "debug": _DIM})
_LOST: Final = "some events were lost here\n"


def harmless(text: str) -> str:
    """Return a text without what a terminal would act on."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which events are shown; ``None`` where it does not matter.  One without the field is not shown."""

    client: str | None = None
    model: str | None = None
    """The model as the client named it, or as the provider was asked for it."""
    provider: str | None = None
    status: str | None = None

    def let_through(self, event: Event) -> bool:
        """Whether an event is shown."""
        models = (event.get("model"), event.get("upstream_model"))
        return (
            _fits(self.client, event.get("client"))
            and any(_fits(self.model, model) for model in models)
            and _fits(self.provider, event.get("provider"))
            and self._has_status(event)
        )

    def _has_status(self, event: Event) -> bool:
        if self.status is None:
            return True
        code = str(event.get("http_status", ""))
        return self.status in (event.get("status"), code) or (
            bool(code) and self.status.lower() == f"{code[0]}xx"
        )


def _fits(pattern: str | None, value: object) -> bool:
    return pattern is None or (isinstance(value, str) and fnmatchcase(value, pattern))


@dataclass(frozen=True, slots=True)
class EventRenderer:
    """Renders events."""

    filters: Filters
    as_json: bool = False
    colours: bool = False

    def render(self, kind: str, event: Any, data: str) -> str:  # Any: JSON
        """Return the text for an event; nothing where it is not shown.

        :param data: the event as it came.
        """
        if not isinstance(event, dict):
            return ""
        if kind == "reset":
            return "" if self.as_json else self._paint(_DIM, _LOST)
        if not self.filters.let_through(event):
            return ""
        if not self.as_json:
            render = _LINES.get(kind)
            return "" if render is None else render(self, event)
        if kind != "usage":
            return f"{dumps({'event': kind, **event})}\n"
        return f"{data if data.isprintable() else dumps(event)}\n"

    def usage_line(self, event: Event) -> str:
        """Return when, with what status, for whom, what, how much and how long."""
        outcome = _text(event, "status", "-")
        parts = [
            self._time(event),
            self._paint(_OUTCOME_COLOURS.get(outcome, ""), _number(event, "http_status", "{:.0f}") or "---"),
            _text(event, "client", "-"),
            self._route(event),
            self._tokens(event),
            _cost(event),
            _number(event, "latency_ms", "{:.0f} ms"),
            _number(event, "ttft_ms", "ttft {:.0f} ms"),
            "" if outcome == "ok" else self._paint(_OUTCOME_COLOURS.get(outcome, ""), outcome),
            _text(event, "error"),
        ]
        return "  ".join(part for part in parts if part) + "\n"

    def log_line(self, event: Event) -> str:
        """Return a line of the log; a traceback is indented."""
        level = _text(event, "level", "-")
        first, *more = str(event.get("text", "")).splitlines() or [""]
        shown = "".join(f"\n    {harmless(line)}" for line in more)
        painted = self._paint(_LEVEL_COLOURS.get(level, ""), level)
        return f"{self._time(event)}  {painted}  {harmless(first)}{shown}\n"

    def health_line(self, event: Event) -> str:
        """Return which provider is in what state now."""
        state = _text(event, "state", "-")
        error = _text(event, "error")
        painted = self._paint(_RED if state == "failing" else _GREEN, state)
        why = f" ({error})" if error else ""
        return f"{self._time(event)}  provider {_text(event, 'provider', '-')} is {painted}{why}\n"

    def session_line(self, event: Event) -> str:
        """Return which session was opened or closed."""
        parts = [
            self._time(event),
            f"session {_text(event, 'state', '-')}",
            _text(event, "client", "-"),
            self._route(event),
            _number(event, "seconds", "{:.0f} s"),
        ]
        return "  ".join(part for part in parts if part) + "\n"

    def _time(self, event: Event) -> str:
        time = _text(event, "time", "-")
        return self._paint(_DIM, time[11:] if time[10:11] == "T" else time)

    def _route(self, event: Event) -> str:
        model, upstream = _text(event, "model", "-"), _text(event, "upstream_model")
        provider = _text(event, "provider")
        if not provider:
            return model
        return f"{model} -> {provider}/{upstream}" if upstream else f"{model} -> {provider}"

    def _tokens(self, event: Event) -> str:
        into, out = _number(event, "tokens_in", "{:.0f}"), _number(event, "tokens_out", "{:.0f}")
        return f"{into or '-'} > {out or '-'} tokens" if into or out else ""

    def _paint(self, colour: str, text: str) -> str:
        return f"\x1b[{colour}m{text}\x1b[0m" if self.colours and colour else text


_LINES: Final[Mapping[str, Callable[[EventRenderer, Event], str]]] = MappingProxyType(
    {
        "usage": EventRenderer.usage_line,
        "log": EventRenderer.log_line,
        "health": EventRenderer.health_line,
        "session": EventRenderer.session_line,
    }
)


def _text(event: Event, name: str, absent: str = "") -> str:
    value = event.get(name)
    return absent if value is None else harmless(str(value))


def _number(event: Event, name: str, form: str) -> str:
    value = event.get(name)
    return form.format(value) if isinstance(value, int | float) else ""


def _cost(event: Event) -> str:
    text = _number(event, "cost_usd", "{:.9f}")
    return f"${text.rstrip('0').rstrip('.')}" if text else ""
