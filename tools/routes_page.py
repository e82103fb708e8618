"""The page on routes, ``docs/routes.rst``, from the route table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from mgw.nouns.families import FAMILIES
from mgw.nouns.vocabulary import Capability, Family
from mgw.routing.model_source import ModelAt
from mgw.routing.resolve import REQUIRED
from mgw.routing.route import ANY_METHOD, BodyStorage, Route, Treatment, UrlRewrite
from mgw.routing.routes import GUARDED_ROUTES, OPEN_ROUTES

_WIDTHS: Final = "31 33 13 12 11"
"""Of the columns, in hundredths of the page."""
_HEAD: Final = """\
Routes
======

This page lists every path that the gateway serves. It is generated from the route table (``make docs``).
Any other path returns 404, in the format that the path suggests, and is never forwarded. A wrong method
returns 405.

``routes.deny`` accepts the names of routes, of route groups (the column *Group*) and of families. The name of
a route is also the ``route`` of usage events and metrics.

Family of a path
----------------

Some paths exist in several families. The first of these rules that applies decides:

1. The header ``anthropic-version`` means Anthropic.
2. ``x-goog-api-key``, ``x-goog-api-client`` or the query parameter ``key`` mean Gemini.
3. Any header that starts with ``OpenAI-`` means OpenAI.
4. A provider named in the request (``provider=`` or ``X-Provider``) means its family, if that family has
   the path.
5. Otherwise, the family marked *first* below; if none is marked, OpenAI.

The OpenAI SDK sends ``OpenAI-Beta`` to the agents routes, so it reaches OpenAI agents without any setting.
It reaches OpenAI skills if the client has an organization or a project set, or names a provider:
``OpenAI(..., default_headers={"X-Provider": "openai"})``. With none of these, ``/v1/skills`` is
Anthropic's.

Gemini paths are served under ``/v1beta``, ``/v1`` and ``/v1alpha``. The upstream request uses the version
in the provider's ``base_url``.

Paths of Azure OpenAI
---------------------

With ``routes.azure``, OpenAI's routes are also served under these paths, except WebSocket routes and the
routes for operators:

- ``/openai/v1/…`` and ``/openai/…`` stand for ``/v1/…``.
- ``/openai/deployments/{model}/…`` stands for ``/v1/…`` if the route's model is in a body or a form. The path
  then says which model is requested, whatever the body says: ``/openai/deployments/fast/chat/completions``.

Provider for a request
----------------------

The model decides: an alias, ``<provider>/<model>``, or the family's default provider for a model without a
prefix. If a route needs no model, these decide, in this order: the query parameter ``provider`` (which is
removed before the request is forwarded), the header ``X-Provider``, the family's default provider. A model
in the body of a platform route takes precedence over these if it is an alias or has a prefix. The provider
must belong to the route's family, unless the table says that the route is translated for others; otherwise
the client gets a 400.

Route tables
------------

The method *WebSocket* is a GET that asks for an upgrade (`realtime sessions <realtime.rst>`_); a GET
without one gets a 426. The columns *Model* and *Notes* contain:

body, form, path, query, message
    Where the model is; *message* is the first WebSocket message. ``?`` means that it is optional. Other
    names are fields in a JSON body or message; ``[]`` stands for each element of a list.
first
    The path belongs to this family if nothing in the request says otherwise.
requires ``x``
    A capability that must be on for the provider; otherwise the client gets a 403, or a 501 for a
    WebSocket.
disk
    Large bodies are stored on disk (``spool``), not in memory.
address
    The response contains an address, which the gateway replaces with its own (``rewrite_urls``).

"""


def render(routes: Sequence[Route]) -> str:
    """Return the whole document."""
    relayed = [route for route in routes if route.treatment is not Treatment.LOCAL]
    parts = [_HEAD]
    for family in Family:
        title = f"{FAMILIES[family].title} routes"
        parts.append(_table(title, [route for route in relayed if route.family is family]))
    own = [route for route in routes if route.treatment is Treatment.LOCAL]
    parts.append(_table("The gateway's own routes", own))
    return "\n".join(parts)


def _table(title: str, routes: Iterable[Route]) -> str:
    lines = [
        title,
        "-" * len(title),
        "",
        ".. list-table::",
        "   :header-rows: 1",
        f"   :widths: {_WIDTHS}",
        "",
    ]
    lines += _line(("Path", "Methods and names", "Group", "Model", "Notes"))
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
    if route.treatment is Treatment.REALTIME:
        return "WebSocket"
    return "any" if route.method == ANY_METHOD else route.method


def _models(routes: Sequence[Route]) -> str:
    found: dict[str, None] = {}
    for route in routes:
        optional = "?" if route.models.optional else ""
        if route.treatment is Treatment.REALTIME:
            if route.models.at is not ModelAt.NOWHERE:
                found[route.models.at] = None
            found |= dict.fromkeys(f"``{_spelled(path)}``" for path in route.models.paths)
        elif route.models.paths and route.models.at is not ModelAt.PATH:
            inside = f"{route.models.form_part}: " if route.models.at is ModelAt.FORM else ""
            found |= dict.fromkeys(f"``{inside}{_spelled(path)}``{optional}" for path in route.models.paths)
            found |= {"query?": None} if route.models.in_query else {}
        elif route.models.at is not ModelAt.NOWHERE:
            found[f"{route.models.at}{optional}"] = None
    return ", ".join(found)


def _spelled(path: tuple[str | None, ...]) -> str:
    return "".join("[]" if step is None else f".{step}" for step in path).removeprefix(".")


def _notes(routes: Sequence[Route]) -> str:
    found: dict[str, None] = {}
    for route in routes:
        found |= dict.fromkeys(_notes_of(route))
    return "; ".join(found)


_WHO_MAY: Final = {
    **dict.fromkeys(OPEN_ROUTES, "no key required, even with ``edge_auth``"),
    **dict.fromkeys(GUARDED_ROUTES, "keys: see `dashboard.rst <dashboard.rst>`_"),
}


def _notes_of(route: Route) -> Iterable[str]:
    if route.preferred:
        yield "first"
    if route.treatment is Treatment.REFUSE:
        yield "not implemented: 501"
    if route.name in _WHO_MAY:
        yield _WHO_MAY[route.name]
    needed = REQUIRED.get(route.modality)
    if needed is not None and needed is not Capability.TEXT:
        yield f"requires ``{needed}``"
    others = sorted(route.translated_for - {route.family})
    if others:
        yield f"translated for {', '.join(others)}"
    if not route.native:
        yield f"not for providers of {route.family}"
    if route.body is BodyStorage.SPOOL:
        yield "disk"
    if route.url_rewrite is UrlRewrite.UPLOAD_URL:
        yield "address (``X-Goog-Upload-URL`` and related headers)"
    elif route.url_rewrite is UrlRewrite.RESULTS_URL:
        yield "address (``results_url``)"
