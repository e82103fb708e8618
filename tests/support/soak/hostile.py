"""Requests of a client that may use some models only, and tries to have another one asked for.

Each of them names the forbidden model, ``m123.forbidden``, in a way that a reader may take for the request's
model: the gateway must refuse it, and the provider must never see that name.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Final

LIMITED_KEY: Final = "soak-limited-key"
_MESSAGES: Final = '"messages": [{"role": "user", "content": "hello"}], "max_tokens": 9'


def _body(*members: str) -> bytes:
    return ("{" + ", ".join([*members, _MESSAGES]) + "}").encode()


def _twice(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"', f'"model": "{forbidden}"')


def _twice_reversed(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{forbidden}"', f'"model": "{allowed}"')


def _other_case(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"', f'"MODEL": "{forbidden}"')


def _escaped(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"', f'"\\u006dodel": "{forbidden}"')


def _behind_the_head(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"', f'"user": "{"x" * 300}"', f'"Model": "{forbidden}"')


def _not_a_number(allowed: str, forbidden: str) -> bytes:
    return _body('"temperature": NaN', f'"model": "{forbidden}"')


def _trailing_comma(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{forbidden}"')[:-1] + b",}"


def _byte_order_mark(allowed: str, forbidden: str) -> bytes:
    return b"\xef\xbb\xbf" + _body(f'"model": "{forbidden}"')


def _two_documents(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"') + _body(f'"model": "{forbidden}"')


def _plain(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{forbidden}"')


def _in_a_list(allowed: str, forbidden: str) -> bytes:
    return _body(f'"model": "{allowed}"', f'"models": {json.dumps([allowed, forbidden])}')


BODIES: Final[tuple[Callable[[str, str], bytes], ...]] = (
    _twice,
    _twice_reversed,
    _other_case,
    _escaped,
    _behind_the_head,
    _not_a_number,
    _trailing_comma,
    _byte_order_mark,
    _two_documents,
    _plain,
)


def hostile_request(number: int, path: str) -> bytes:
    """Return a request for the forbidden model, in one of the spellings.

    The provider is a host of OpenAI's kind, since those alone take a list of models.
    """
    takes_list = path == "/v1/chat/completions"  # elsewhere a translation leaves it out
    spell = Random(number).choice((*BODIES, _in_a_list) if takes_list else BODIES)
    body = spell(f"c/m{number}.lim", f"c/m{number}.forbidden")
    head = (
        f"POST {path} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {LIMITED_KEY}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def hostile_message(number: int, path: str, allowed: str, forbidden: str) -> bytes:
    """Return a later message of a session, which names the forbidden model."""
    model = f'"model": "{forbidden}"'
    if path == "/v1/realtime":
        model = f'"session": {{{model}}}'
        spellings = [
            f'{{"event_id": "{"x" * 200}", {model}, "type": "session.update"}}',
            f'   {{"type": "session.upd\\u0061te", {model}}}',
            f'{{"type": "session.update", {model}, "speed": NaN}}',
            f'{{"type": "session.update", "session": {{"Model": "{forbidden}", "model": "{allowed}"}}}}',
        ]
    else:
        spellings = [
            f'{{"input": "{"x" * 200}", {model}, "type": "response.create"}}',
            f'{{"type": "response.create", {model}, "temperature": NaN}}',
            f'{{"type": "response.create", {model},}}',
            f'\ufeff{{"type": "response.create", {model}}}',
            f'{{"type": "response.create", "model": "{allowed}", "MODEL": "{forbidden}"}}',
            f'[{{"type": "response.create", {model}}}]',
            f'{{"type": "response.create", "response": {{{model}}}}}',
        ]
    return Random(number).choice(spellings).encode()
