"""Klein's resource tree, awaited: which endpoint runs, what errors mean, and what a request leaves behind."""

from __future__ import annotations

from types import SimpleNamespace
from typing import ClassVar, cast

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure
from twisted.web.iweb import IRequest
from twisted.web.server import Request
from werkzeug.exceptions import MethodNotAllowed, NotFound

from mgw.nouns.errors import GatewayError, Reason
from mgw.reactor.resource_tree import ResourceTree
from tests.support.deferreds import refusal_of, result_of


class Pages:
    """Some endpoints."""

    app: ClassVar[ResourceTree] = ResourceTree()

    def __init__(self) -> None:
        self.called: list[object] = []
        self.waiting: Deferred[None] = Deferred()
        self.tree = self.app

    @app.route("/one", methods=["GET"])
    def one(self, request: Request) -> None:
        self.called.append("one")

    @app.route("/later", methods=["POST"])
    async def later(self, request: Request) -> None:
        self.called.append("later")
        await self.waiting

    @app.route("/things/<name>", methods=["GET"])
    def thing(self, request: Request, name: str) -> None:
        self.called.append(name)

    @app.route("/below/<rest:path>")
    def below(self, request: Request, path: str) -> None:
        self.called.append(path)

    @app.route("/refuses", methods=["GET"])
    def refuses(self, request: Request) -> None:
        raise GatewayError(Reason.MALFORMED, "refused")

    @app.handle_errors(NotFound)
    def on_unknown_path(self, request: IRequest, failure: Failure) -> None:
        raise GatewayError(Reason.UNKNOWN_ROUTE, "not here")

    def serve(self, path: str, method: bytes = b"GET") -> Deferred[None]:
        request = cast(Request, SimpleNamespace(method=method))  # nothing else of it is looked at
        return Deferred.fromCoroutine(self.tree.serve(request, path))


CALLED = {
    "a path": ("/one", ["one"]),
    "a parameter": ("/things/a b", ["a b"]),
    "a rest with slashes": ("/below/a//b/", ["a//b/"]),
    "a rest with a line break": ("/below/a\nb", ["a\nb"]),
    "no rest": ("/below/", [""]),
}


@pytest.mark.parametrize(("path", "called"), CALLED.values(), ids=CALLED)
def test_the_endpoint_of_a_path_runs_on_the_object_that_has_the_tree(path: str, called: list[object]) -> None:
    pages, other = Pages(), Pages()
    result_of(pages.serve(path))
    assert (pages.called, other.called) == (called, [])


@pytest.mark.parametrize("path", ["/one/", "//one/", "/two", "/things/", "/things/a/b", "/things//a"])
def test_a_slash_more_is_another_path_and_leads_nowhere(path: str) -> None:
    pages = Pages()
    assert refusal_of(pages.serve(path)).message == "not here"
    assert pages.called == []


def test_an_error_without_a_handler_is_raised_as_it_is() -> None:
    with pytest.raises(MethodNotAllowed) as raised:
        result_of(Pages().serve("/one", b"PUT"))
    assert set(raised.value.valid_methods or ()) == {"GET", "HEAD"}


def test_a_refusal_is_raised_as_it_is() -> None:
    assert refusal_of(Pages().serve("/refuses")).message == "refused"


def test_an_endpoint_is_awaited_and_cancelled_with_its_request() -> None:
    pages = Pages()
    served = pages.serve("/later", b"POST")
    assert not served.called
    served.cancel()
    with pytest.raises(CancelledError):
        result_of(served)
    assert pages.waiting.called
