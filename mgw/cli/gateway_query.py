"""One question to the dashboard's API of a running gateway, and its answer in JSON."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from http.client import BadStatusLine, HTTPException
from json import loads
from typing import Any, Final
from urllib.parse import SplitResult, urlencode

from mgw.cli.event_source import message_of, say_refused_key, why_of
from mgw.cli.gateway_address import connect_to
from mgw.cli.tail_lines import harmless

SECONDS: Final = 30.0
"""A gateway gives a query up after 20."""
MAX_ANSWER_BYTES: Final = 16 * 1024 * 1024


class QueryError(Exception):
    """There is no answer; the text says why."""


class UnreachableError(QueryError):
    """Nobody answers at the address."""


@dataclass(frozen=True, slots=True)
class GatewayQuery:
    """Asks one gateway."""

    address: SplitResult
    headers: Mapping[str, str] = field(repr=False)
    certificate: ssl.SSLContext | None = None
    """What shows a client certificate."""

    @property
    def shown(self) -> str:
        """The address, for a person."""
        return harmless(f"{self.address.scheme}://{self.address.netloc}{self.address.path.rstrip('/')}")

    def ask(self, path: str, parameters: Mapping[str, str]) -> dict[str, Any]:  # Any: JSON
        """Return what a path of the API answers.

        :raises QueryError: nothing that makes sense.
        """
        target = f"{self.address.path.rstrip('/')}{path}?{urlencode(parameters)}"
        connection = connect_to(self.address, SECONDS, self.certificate)
        headers = {"Accept": "application/json", "User-Agent": "mgw", **self.headers}
        try:
            with closing(connection):
                connection.request("GET", target, headers=headers)
                response = connection.getresponse()
                status, body = response.status, response.read(MAX_ANSWER_BYTES + 1)
        except BadStatusLine:
            raise QueryError(f"{self.shown} does not answer as an mgw gateway does") from None
        except ssl.SSLError as error:
            raise QueryError(f"{self.shown}: {harmless(why_of(error))}") from None
        except (OSError, HTTPException, UnicodeError) as error:
            raise UnreachableError(f"cannot connect to {self.shown}: {harmless(why_of(error))}") from None
        if status != 200:
            raise QueryError(self._refusal(status, body))
        return self._parse(body)

    def _parse(self, body: bytes) -> dict[str, Any]:  # Any: JSON
        try:
            found: Any = loads(body) if len(body) <= MAX_ANSWER_BYTES else None  # Any: JSON
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise QueryError(f"{self.shown} does not answer as an mgw gateway does")
        return found

    def _refusal(self, status: int, body: bytes) -> str:
        if status == 401:
            return f"{self.shown} {say_refused_key('Authorization' in self.headers, body)}"
        message = harmless(message_of(body))
        if status == 404:
            return f"{self.shown} has no dashboard{f': {message}' if message else ''}"
        return f"{self.shown} responds with status {status}{f': {message}' if message else ''}"
