"""Klein's resource tree, awaited: paths and methods stand as decorators where their endpoints do.

Klein's map decides which endpoint has a path and a method, runs it on the object that the tree is bound to,
and has the error handlers of the tree say what an error means.  What they raise is whoever awaits the request
to tell the client, as it is with every other error of the gateway.

Klein's own resource is not what runs this.  It leaves each request, its headers and its body in a reference
cycle (45 objects, by a closure that names itself), answers and logs a path that is not UTF-8 by itself, looks
at the name of the host, and cannot be awaited.  A look at the map leaves 8 objects in a cycle, none of which
knows the request: what it finds is remembered, so that a request like an earlier one leaves none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from traceback import clear_frames
from typing import Any, Final, cast

from klein import Klein
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.web.server import Request
from werkzeug.exceptions import HTTPException, MethodNotAllowed, NotFound
from werkzeug.routing import BaseConverter

from mgw.nouns.errors import GatewayError, forget_frames

MOST_PATHS: Final = 256
"""How many paths a tree remembers with what it found for them; beyond it all are forgotten."""
MOST_CHARACTERS: Final = 256
"""How long a path may be that is remembered."""

_Found = tuple[str, Mapping[str, Any]] | Callable[[], HTTPException]  # Any: what converters return
"""An endpoint and its arguments, or what makes the error that says that there is none."""


class Rest(BaseConverter):
    """All that is left of a path, slashes included; it may be nothing."""

    regex = "(?s:.*)"
    part_isolating = False
    weight = 200


class ResourceTree(Klein):
    """The endpoints of a class, by path and method; read from an instance, it runs them on that one.

    Nothing redirects: a slash more, at the end of a path or within it, makes another path.
    """

    def __init__(self) -> None:
        super().__init__()
        self.url_map.merge_slashes = False  # else // is answered with a 308 to another path, in HTML
        self.url_map.converters["rest"] = Rest
        self.remembered: dict[tuple[str, str], _Found] = {}
        """What was found for a path and a method."""

    def __get__(self, instance: Any, owner: object) -> ResourceTree:  # Any: whatever has a tree
        """Return the tree of an instance, which should keep it: each look makes another."""
        return cast(ResourceTree, super().__get__(instance, owner))  # it is made by ``self.__class__()``

    async def serve(self, request: Request, path: str) -> None:
        """Have the endpoint of a request respond to it.

        :param path: what the rules of this tree are compared with.
        :raises HTTPException: no endpoint has the path, or none of those has the method; unless an error
            handler of the tree says something else.
        """
        asked = path, request.method.decode("ascii")
        try:
            found = self.remembered.get(asked) or self._find(*asked)
            if not isinstance(found, tuple):
                raise found()
            served = self.execute_endpoint(found[0], request, **found[1])
            if isinstance(served, Deferred):
                await served.addErrback(_without_frames)
            return
        except Exception as error:
            fitting = (handler for kinds, handler in self._error_handlers if isinstance(error, tuple(kinds)))
            handler = next(fitting, None)
            if handler is None:
                raise
            failure = Failure(error)
        self.execute_error_handler(handler, request, failure)

    def _find(self, path: str, method: str) -> _Found:
        """Ask the map for a path and a method, and remember what it says."""
        found = self._look(path, method)
        if len(path) <= MOST_CHARACTERS:
            if len(self.remembered) >= MOST_PATHS:
                self.remembered.clear()
            self.remembered[path, method] = found
        return found

    def _look(self, path: str, method: str) -> _Found:
        if path.startswith("//"):  # the map would take it for a path with one slash less
            return NotFound
        try:
            rule, arguments = self.url_map.bind("").match(path, method, return_rule=True)
        except MethodNotAllowed as error:
            return partial(MethodNotAllowed, error.valid_methods)
        except NotFound:
            return NotFound
        return rule.endpoint, arguments


def _without_frames(failure: Failure) -> Failure:
    """Release the frames behind a refusal: among them is one that refers to the Deferred of the failure."""
    error = failure.value
    if isinstance(error, GatewayError | CancelledError):
        clear_frames(failure.tb)
        forget_frames(error)
        failure.tb = None
    return failure
