"""Names that some readers confuse: JSON members, query parameters and form parts.

RFC 8259, the URL standard and RFC 7578 compare names byte for byte.  Readers differ: Go's decoder of JSON
and ASP.NET ignore the case of letters, readers in C end a name at a NUL, PHP and others make an array of
``name[]`` and drop blanks before it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

_DOT_ABOVE: Final = "\u0307"
"""What is left of the Turkish capital I with a dot when it becomes a small i."""
_AROUND: Final = " \t\"'"


def fold_name(name: str) -> str:
    """Return what is the same for all names of members that some reader takes for one another."""
    name = name.partition("\0")[0]
    return name.lower() if name.isascii() else name.upper().casefold().replace(_DOT_ABOVE, "")


def is_similar_below(name: str, wanted: str) -> bool:
    """Whether some reader takes the name of a part for one below another, as in ``svg[model]``."""
    inner = unquote(name).split("[")[1:]
    return any(is_similar(key.partition("]")[0], wanted) for key in inner)


def is_similar(name: str, wanted: str) -> bool:
    """Whether some reader takes the name of a parameter, or of a part, for a lower-case name."""
    return fold_name(unquote(name).strip(_AROUND).partition("[")[0].rstrip(_AROUND)) == wanted
