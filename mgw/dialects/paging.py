"""What the model lists that come in pages share: a number in the query."""

from __future__ import annotations

from collections.abc import Mapping

from mgw.errors import GatewayError, Reason

_MOST_DIGITS = 9


def count_asked(
    query: Mapping[str, str], name: str, *, default: int, highest: int | None, lowest: int = 1
) -> int:
    """Return the number that the query gives for ``name``, ``default`` where it gives none.

    :raises GatewayError: it is no decimal number, or out of its range; ``highest`` may be open.
    """
    text = query.get(name)
    if text is None:
        return default
    readable = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    if readable and int(text) >= lowest and (highest is None or int(text) <= highest):
        return int(text)
    span = f"from {lowest}" if highest is None else f"from {lowest} to {highest}"
    raise GatewayError(Reason.MALFORMED, f"{name} must be a whole number {span}", param=name)
