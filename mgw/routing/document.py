"""The route table as people read it: ``python -m mgw.routing.document`` writes ``docs/routes.rst``."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Final

from mgw.routing.capabilities import REQUIRED
from mgw.routing.route import ANY_METHOD, BodyKept, ModelAt, Route, Treatment, Turned
from mgw.routing.routes import OPEN_ROUTES, ROUTES
from mgw.vocabulary import Capability, Family

_HEAD: Final = """\
Routes
======

Every path that the gateway serves, made from the table that it serves them by (``make routes``).
Anything else answers 404 in the dialect that the path suggests, and is never forwarded; a wrong method
answers 405.

The names of a row and of its resource are what ``routes.deny`` takes; the row's name is the ``route`` of
usage events and metrics.

Which family a path belongs to
------------------------------

On a path that several families have, the header ``anthropic-version`` makes a request Anthropic's; else
``x-goog-api-key``, ``x-goog-api-client`` or the parameter ``key`` make it Gemini's; else any header that
begins with ``OpenAI-`` makes it OpenAI's; else a provider that the request names (``provider=`` or
``X-Provider``) makes it that provider's family's, if the path is one of theirs; else it belongs to the
family that is marked *first* below, else to OpenAI's.

So OpenAI's agents are reached by its SDK as it is, since it sends ``OpenAI-Beta`` there, and its skills by
a client that has an organization or a project set, or that names a provider:
``OpenAI(..., default_headers={"X-Provider": "openai"})``.  With none of these, ``/v1/skills`` is Anthropic's.

Gemini's paths are served under ``/v1beta``, ``/v1`` and ``/v1alpha`` alike; what goes upstream has the
version of the provider's ``base_url``.

Which provider serves a request
-------------------------------

A model chooses the provider: an alias, ``<provider>/<model>``, or the default of the family for a bare
id.  Where a route needs no model, the parameter ``provider`` (taken out before the request goes on), else
the header ``X-Provider``, else the family's default decide; a model that the body of a platform route
names decides before them if it is an alias or has a prefix.  The provider must be of the route's family,
unless the table says that the route is translated for others: 400 if not.

In the columns *Model* and *Notes*:

body, form, path
    where the model is looked for.  ``?``: it may be left out.  Other names are places deep in a JSON
    body; ``[]`` stands for each element of a list.
first
    the path is this family's where the client shows no other.
needs ``x``
    a capability that the provider must have on: 403 if not.
disk
    a large body waits on disk (``spool``), and takes no memory.
address
    the answer tells an address, which is turned to the gateway (``rewrite_urls``).

"""
_TITLES: Final = MappingProxyType(
    {
        Family.OPENAI: "OpenAI's routes",
        Family.ANTHROPIC: "Anthropic's routes",
        Family.GEMINI: "Gemini's routes",
    }
)


def render(routes: Sequence[Route]) -> str:
    """Return the whole document."""
    relayed = [route for route in routes if route.treatment is not Treatment.OWN]
    parts = [_HEAD]
    for family, title in _TITLES.items():
        parts.append(_table(title, [route for route in relayed if route.family is family]))
    own = [route for route in routes if route.treatment is Treatment.OWN]
    parts.append(_table("The gateway's own routes", own))
    return "\n".join(parts)


def _table(title: str, routes: Iterable[Route]) -> str:
    lines = [title, "-" * len(title), "", ".. list-table::", "   :header-rows: 1", ""]
    lines += _line(("Path", "Methods and names", "Resource", "Model", "Notes"))
    by_path = sorted(routes, key=lambda route: route.path)
    for path, of_path in groupby(by_path, key=lambda route: route.path):
        rows = list(of_path)
        methods = ", ".join(f"{_method(row)} ``{row.name}``" for row in rows)
        lines += _line((f"``{path}``", methods, rows[0].group, _models(rows), _notes(rows)))
    return "\n".join([*lines, ""])


def _line(cells: Sequence[str]) -> list[str]:
    first, *others = cells
    return [f"   * - {first}", *(f"     - {cell}".rstrip() for cell in others)]


def _method(route: Route) -> str:
    return "any" if route.method == ANY_METHOD else route.method


def _models(routes: Sequence[Route]) -> str:
    found: dict[str, None] = {}
    for route in routes:
        optional = "?" if route.model_optional else ""
        if route.body_models and route.model_at is not ModelAt.PATH:
            inside = f"{route.form_part}: " if route.model_at is ModelAt.FORM else ""
            found |= dict.fromkeys(f"``{inside}{_spelled(path)}``{optional}" for path in route.body_models)
        elif route.model_at is not ModelAt.NOWHERE:
            found[f"{route.model_at}{optional}"] = None
    return ", ".join(found)


def _spelled(path: tuple[str | None, ...]) -> str:
    return "".join("[]" if step is None else f".{step}" for step in path).removeprefix(".")


def _notes(routes: Sequence[Route]) -> str:
    found: dict[str, None] = {}
    for route in routes:
        found |= dict.fromkeys(_notes_of(route))
    return "; ".join(found)


def _notes_of(route: Route) -> Iterable[str]:
    if route.preferred:
        yield "first"
    if route.treatment is Treatment.REFUSE:
        yield "not implemented: 501"
    if route.name in OPEN_ROUTES:
        yield "open, also with edge auth"
    needed = REQUIRED.get(route.modality)
    if needed is not None and needed is not Capability.TEXT:
        yield f"needs ``{needed}``"
    others = sorted(route.translated_for - {route.family})
    if others:
        yield f"translated for {', '.join(others)}"
    if not route.native:
        yield f"not for providers of {route.family}"
    if route.body is BodyKept.SPOOL:
        yield "disk"
    if route.turned is Turned.UPLOAD_URL:
        yield "address (``X-Goog-Upload-URL`` and its like)"
    elif route.turned is Turned.RESULTS_URL:
        yield "address (``results_url``)"


if __name__ == "__main__":
    sys.stdout.write(render(ROUTES))
