"""What the gateway answers itself, but not to monitors, imported when it is first asked for.

It takes Klein and Twisted's request object, for which a process that relays has no use: a tenth of a second
and 6 MiB.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mgw.web.server_request import LocalApp, ServerRequest


@dataclass(slots=True, eq=False, repr=False)
class LateApp:
    """Builds the application for the first request that it is to serve."""

    build: Callable[[], LocalApp]
    _app: LocalApp | None = field(default=None, init=False)

    @property
    def app(self) -> LocalApp:
        """The application; it is built once."""
        if self._app is None:
            self._app = self.build()
        return self._app

    def serve(self, request: ServerRequest) -> Awaitable[None]:
        """Respond as the application does."""
        return self.app.serve(request)
