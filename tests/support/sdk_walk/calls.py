"""The three SDKs as clients, and one call of theirs with all that it made the upstreams receive.

Both runs of a call must send the same bytes, so what an SDK draws is fixed for its length: multipart
boundaries and ids (``os.urandom``, which ``uuid.uuid4`` reads too).  Nothing is replaced by a placeholder
afterwards, and so a boundary that changed on its way would be seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final
from unittest.mock import patch

import anthropic
import openai
from google import genai

from tests.support.sdk_walk.arguments import MODEL
from tests.support.sdk_walk.cases import Case
from tests.support.sdk_walk.methods import Method
from tests.support.sdk_walk.records import Recorded
from tests.support.sdk_walk.upstream import Upstream
from tests.support.waiting import WAIT_SECONDS


def openai_client(origin: str, key: str) -> openai.OpenAI:
    """Return OpenAI's client; its second key is the one for administration."""
    return openai.OpenAI(
        base_url=f"{origin}/v1",
        api_key=key,
        admin_api_key=key,
        organization="org_1",
        project="proj_1",
        webhook_secret="whsec_d2Fsaw==",
        max_retries=0,
        timeout=WAIT_SECONDS,
    )


def anthropic_client(origin: str, key: str) -> anthropic.Anthropic:
    """Return Anthropic's client."""
    return anthropic.Anthropic(base_url=origin, api_key=key, max_retries=0, timeout=WAIT_SECONDS)


def gemini_client(origin: str, key: str) -> genai.Client:
    """Return Google's client for the Gemini Developer API, under the version that it dials by itself."""
    return genai.Client(
        api_key=key,
        http_options={
            "base_url": origin,
            "timeout": int(WAIT_SECONDS * 1000),
            "retry_options": {"attempts": 1},
        },
    )


@dataclass(frozen=True)
class Sdk:
    """An SDK, and the provider that its family's default is."""

    name: str
    provider: str
    client: Callable[[str, str], Any]


SDKS: Final[Mapping[str, Sdk]] = {
    sdk.name: sdk
    for sdk in (
        Sdk("openai", "main", openai_client),
        Sdk("anthropic", "claude", anthropic_client),
        Sdk("gemini", "gem", gemini_client),
    )
}


@dataclass(frozen=True)
class Outcome:
    """What the upstreams received during a call, by upstream, and how the call ended."""

    requests: Mapping[str, Sequence[Recorded]]
    error: Exception | None


def method_of(client: Any, name: str) -> Method:
    """Return a method by its dotted name."""
    found: Method = reduce(getattr, name.split("."), client)
    return found


def run(method: Method, case: Case, upstreams: Sequence[Upstream], model: str = MODEL) -> Outcome:
    """Call a method and let what it returns send its requests; whatever it raises is kept."""
    for upstream in upstreams:
        upstream.taken()
    error = None
    with _steady():
        try:
            case.then(method(**case.arguments(model)))
        except Exception as raised:  # an answer that means nothing to the SDK is no failure of the request
            error = raised
    return Outcome({upstream.name: upstream.taken() for upstream in upstreams}, error)


@contextmanager
def _steady() -> Iterator[None]:
    with (
        patch("os.urandom", lambda size: bytes(range(size))),
        warnings.catch_warnings(
            action="ignore"
        ),  # deprecated and experimental methods are called all the same
    ):
        yield
