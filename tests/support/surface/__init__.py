"""The vendors' surface (contract 4.2 to 4.6): a request to each path.

Written from the contract, the vendors' references and their SDKs, and from nothing of the
gateway.  Images, videos and sound stand in :mod:`tests.support.grid`; what else the SDKs call is walked in
:mod:`tests.support.sdk_walk`.  A path that no method of an SDK dials stands here alone.
"""

from __future__ import annotations

from typing import Final

from tests.support.grid import GEMINI, OPENAI
from tests.support.surface.anthropic import BY_ANTHROPIC
from tests.support.surface.asked import PLAIN, Asked
from tests.support.surface.gemini import BY_GEMINI
from tests.support.surface.openai import BY_OPENAI

SURFACE: Final = (*BY_OPENAI, *BY_ANTHROPIC, *BY_GEMINI)

CONVERSATIONS: Final = tuple(
    Asked(OPENAI, method, f"/v1/conversations{below}", PLAIN if method == "POST" else b"")
    for below in ("", "/conv_1", "/conv_1/items", "/conv_1/items/item_1", "/conv_1/a/b/c")
    for method in ("GET", "POST", "DELETE")
)
"""Not implemented for any provider (contract 4.6)."""

PLANNED: Final = (
    Asked(OPENAI, "POST", "/v1/images", b'{"model":"m-1"}'),
    Asked(GEMINI, "POST", "/v1beta/models/m-1:generateImages", b'{"prompt":"a"}'),
)
"""Nobody's path (contract 4.6)."""
