"""The keys of issuers of tokens, from the first configuration on that has an issuer.

What verifies signatures takes long to import, and most gateways have no use for it: without an entry in
``edge_auth.jwt`` nothing is imported, made or called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Final

from mgw.config.edge_auth import EdgeAuthSettings
from mgw.config.jwt import JwtSettings

if TYPE_CHECKING:
    from mgw.identity.issuers import IssuerKeys

_NEEDED: Final = "mgw.app.issuer_keys"


def entries_of(settings: EdgeAuthSettings) -> Sequence[JwtSettings]:
    """Return the issuers whose tokens are looked at."""
    return settings.jwt if settings.enabled else ()


def import_for_issuers(settings: EdgeAuthSettings) -> None:
    """Import what issuers need, if there are any: before workers are forked, or in a thread at a reload."""
    if entries_of(settings):
        import_module(_NEEDED)


def _nothing() -> None:
    pass


def _nobody() -> IssuerKeys:
    raise AssertionError("a process that may have issuers says how their keys are made")


@dataclass(slots=True, eq=False, repr=False)
class LateIssuerKeys:
    """Makes the keys of issuers when they are needed, and keeps them.

    :param make: makes them; called once at most.
    """

    make: Callable[[], IssuerKeys] = _nobody
    keys: IssuerKeys | None = None
    on_change: Callable[[], None] = _nothing
    """Called when keys are new, others, gone, or may not be used any longer."""
    _is_running: bool = False

    def needed(self) -> IssuerKeys:
        """Return the keys of issuers, made if they were not yet."""
        if self.keys is None:
            self.keys = self.make()
            self.keys.on_change = self._on_change
            if self._is_running:
                self.keys.begin()
        return self.keys

    def use(self, settings: EdgeAuthSettings) -> None:
        """Use the issuers of a configuration."""
        entries = entries_of(settings)
        if entries or self.keys is not None:
            self.needed().use(entries)

    def begin(self) -> None:
        """Get keys from now on."""
        self._is_running = True
        if self.keys is not None:
            self.keys.begin()

    def stop(self) -> None:
        """Get nothing more."""
        self._is_running = False
        if self.keys is not None:
            self.keys.stop()

    def _on_change(self) -> None:
        self.on_change()
