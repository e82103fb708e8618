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
from mgw.reactor.resource_tree import MOST_CHARACTERS, MOST_PATHS, ResourceTree
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


@pytest.mark.parametrize(
    "path", ["/one/", "//one", "//one/", "///one", "/two", "/things/", "/things/a/b", "/things//a"]
)
def test_a_slash_more_is_another_path_and_leads_nowhere(path: str) -> None:
    pages = Pages()
    assert refusal_of(pages.serve(path)).message == "not here"
    assert pages.called == []


@pytest.mark.parametrize("path", ["/one", "/things/a", "/below/a/b"])
def test_a_path_that_was_found_is_not_looked_for_again(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pages = Pages()
    result_of(pages.serve(path))
    monkeypatch.setattr(pages.tree.url_map, "bind", None)
    result_of(pages.serve(path))
    first, second = pages.called
    assert first == second


@pytest.mark.parametrize("path", ["/two", "//one", "/one/"])
def test_a_path_that_leads_nowhere_is_not_looked_for_again(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = Pages()
    first = refusal_of(pages.serve(path))
    monkeypatch.setattr(pages.tree.url_map, "bind", None)
    second = refusal_of(pages.serve(path))
    assert first is not second
    assert first.message == second.message == "not here"


def test_a_method_that_a_path_does_not_take_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    pages, said = Pages(), []
    for _ in range(2):
        with pytest.raises(MethodNotAllowed) as raised:
            result_of(pages.serve("/one", b"PUT"))
        said.append((raised.value, sorted(raised.value.valid_methods or ())))
        monkeypatch.setattr(pages.tree.url_map, "bind", None)
    assert said[0][0] is not said[1][0]
    assert said[0][1] == said[1][1] == ["GET", "HEAD"]


def test_what_was_found_is_for_one_path_and_one_method() -> None:
    pages = Pages()
    result_of(pages.serve("/things/a"))
    result_of(pages.serve("/things/b"))
    assert pages.called == ["a", "b"]
    with pytest.raises(MethodNotAllowed):
        result_of(pages.serve("/things/a", b"PUT"))
    assert refusal_of(pages.serve("/things/a/b")).message == "not here"


def test_only_so_many_and_so_long_paths_are_remembered() -> None:
    pages = Pages()
    long = "/things/".ljust(MOST_CHARACTERS + 1, "a")
    for path in [f"/things/{n}" for n in range(MOST_PATHS * 3)] + [long, long[:-1]]:
        result_of(pages.serve(path))
    remembered = {path for path, _ in pages.tree.remembered}
    assert len(remembered) <= MOST_PATHS
    assert remembered & {long, long[:-1]} == {long[:-1]}


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
