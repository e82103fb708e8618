"""What tests of the web server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.heads import Heads, use_heads


@pytest.fixture(params=Heads, ids=[heads.value for heads in Heads])
def heads(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run the test twice: with heads that nobody has sent before, and with known ones."""
    with use_heads(request.param):
        yield
