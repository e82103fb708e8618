"""What one configuration file became; a request keeps the generation that it began with.

A reload swaps one reference: new requests take the new generation, requests in flight finish on the old
one, and its connections close when the last of them is done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mgw.config.model import Config
from mgw.credentials.provider import CredentialProvider
from mgw.routing.catalog import Catalog
from mgw.routing.resolve import Resolver
from mgw.upstream.client import Upstream


@dataclass(slots=True)
class Generation:
    """One configuration, and all that was built from it."""

    number: int
    config: Config
    resolver: Resolver
    catalog: Catalog
    credentials: Mapping[str, CredentialProvider]
    upstreams: Mapping[str, Upstream]
    in_use: int = 0
    _retired: bool = field(default=False)

    def enter(self) -> None:
        """One more request is under way."""
        self.in_use += 1

    def leave(self) -> None:
        """One request is done."""
        self.in_use -= 1
        if self._retired and not self.in_use:
            self._close()

    def retire(self) -> None:
        """No new request comes: close when those under way are done."""
        self._retired = True
        if not self.in_use:
            self._close()

    def _close(self) -> None:
        for credential in self.credentials.values():
            credential.close()
        for upstream in self.upstreams.values():
            upstream.close()
