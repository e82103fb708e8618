"""The router: the closest template of a path is found."""

from typing import Final

import pytest

from mgw_sim.api import Family, Request, Response, UnaryResponse
from mgw_sim.http.router import Route, Router


def _answer(_: Request) -> Response:
    return UnaryResponse(b"")


def _found(table: Router, path: str) -> tuple[str, tuple[str, ...]] | None:
    found = table.find(path)
    return None if found is None else (found.routes[Family.OPENAI]["GET"].template, found.ids)


TEMPLATES: Final = (
    "/a/{}",
    "/a/b",
    "/a/{}/c",
    "/a/{}:do",
    "/m/{...}",
    "/m/{...}:say",
    "/m/{}/ops/{}",
    "/f:r",
)


@pytest.mark.parametrize(
    ("path", "template", "ids"),
    [
        ("/a/b", "/a/b", ()),
        ("/a/x", "/a/{}", ("x",)),
        ("/a/b/c", "/a/{}/c", ("b",)),
        ("/a/x:do", "/a/{}:do", ("x",)),
        ("/a/x:y", "/a/{}", ("x:y",)),
        ("/a/%62", "/a/b", ()),
        ("/a/x%2Fy", "/a/{}", ("x/y",)),
        ("/m/p/q", "/m/{...}", ("p/q",)),
        ("/m/p/q:say", "/m/{...}:say", ("p/q",)),
        ("/m/p:1:say", "/m/{...}:say", ("p:1",)),
        ("/m/p/ops/q", "/m/{}/ops/{}", ("p", "q")),
        ("/m/p/opt/q", "/m/{...}", ("p/opt/q",)),
        ("/f:r", "/f:r", ()),
    ],
)
def test_a_path_finds_the_closest_template(path: str, template: str, ids: tuple[str, ...]) -> None:
    table = Router(Route(Family.OPENAI, "GET", one, _answer) for one in TEMPLATES)
    assert _found(table, path) == (template, ids)


@pytest.mark.parametrize("path", ["/", "/a", "/a/", "/a/x/d", "/m", "/m/", "/x", "/a//c", "/A/b", "/a/b/"])
def test_a_path_that_no_template_has_is_not_found(path: str) -> None:
    table = Router(Route(Family.OPENAI, "GET", one, _answer) for one in TEMPLATES)
    assert table.find(path) is None
