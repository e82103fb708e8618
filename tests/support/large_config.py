"""A configuration as large as they come: a thousand providers, three thousand aliases, 2,500 keys."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Final

PROVIDERS: Final = 1_000
ALIASES: Final = 3_000
KEYS: Final = 2_500
EDGE_KEY: Final = "key-of-whoever-looks"


def large_config(upstream: str, more: str = "") -> str:
    """Return its text.

    :param upstream: address of the provider of alias ``now``.
    :param more: settings behind it.
    """
    return "\n".join(_lines(upstream)) + f"\n{more}\n"


def _lines(upstream: str) -> Iterator[str]:
    yield "listen: 127.0.0.1:0"
    yield "providers:"
    yield f"  main: {{kind: openai, base_url: '{upstream}/v1', api_key: sk-canary}}"
    for number in range(PROVIDERS - 1):
        address = f"https://host{number}.example/v1"
        key = _key(f"p{number}")
        yield f"  p{number}: {{kind: openai_compat, base_url: '{address}', api_key: {key}, models: [a, b]}}"
    yield "aliases:"
    yield "  now: main/gpt-1"
    for number in range(ALIASES - 1):
        first = number % (PROVIDERS - 1)
        yield f"  alias{number}: [p{first}/m{number}, p{(first + 1) % (PROVIDERS - 1)}/m{number}]"
    yield "edge_auth:"
    yield "  enabled: true"
    yield "  keys:"
    yield f"    - {{name: looker, key: {EDGE_KEY}}}"
    for number in range(KEYS - 1):
        models = f"[alias{number}, 'p{number % 100}/*']"
        limits = f"requests_per_minute: 100, models: {models}"
        yield f"    - {{name: c{number}, key: {_key(f'k{number}')}, {limits}}}"
    yield "prices:"
    yield "  rows:"
    for number in range(200):
        yield f"    - {{model: 'm{number}*', input: 1, output: 2}}"


def _key(name: str) -> str:
    return f"sk-{sha256(name.encode()).hexdigest()}"
