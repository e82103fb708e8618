"""``GET /v1/dashboard/openapi.json``: the dashboard's API in OpenAPI 3.1.

Times are RFC 3339 in UTC; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, Final

import msgspec

from mgw import __version__
from mgw.clients.key_rows import IN_CONFIG, IN_DIRECTORY
from mgw.dashboard.cookies import COOKIE, SECURE_COOKIE
from mgw.dashboard.log_lines import DEFAULT_LINES, MAX_LINES
from mgw.dashboard.request_list import DEFAULT_LIMIT, MAX_LIMIT
from mgw.dashboard.usage_query import TAG_NAME, By
from mgw.nouns.key_state import KeyState
from mgw.usage.event import FIELDS, Outcome
from mgw.usage.event_field import EventField
from mgw.usage.event_search import FILTERS
from mgw.usage.figures import FIGURES
from mgw.usage.usage_read import FILTERS as USAGE_FILTERS

Json = dict[str, Any]  # Any: JSON

_TEXT: Final[Json] = {"type": "string"}
_NUMBER: Final[Json] = {"type": "number"}
_COUNT: Final[Json] = {"type": "integer", "minimum": 0}
_FLAG: Final[Json] = {"type": "boolean"}
_TIME: Final[Json] = {"type": "string", "format": "date-time"}


def _object(required: str, **members: Json) -> Json:
    """Return the schema of an object; the names of required members have blanks between them."""
    return {"type": "object", "properties": members, "required": required.split()}


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _one_of(*words: str) -> Json:
    return {"type": "string", "enum": list(words)}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


_SUMS: Final[Json] = {
    **dict.fromkeys(("requests", *FIGURES.values()), _COUNT),
    **dict.fromkeys(
        ("tokens_in", "tokens_out", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens"), _COUNT
    ),
    **dict.fromkeys(("session_minutes", "cost_usd"), _NUMBER),
    **dict.fromkeys(("unpriced", "uncounted"), _COUNT),
    **dict.fromkeys(("latency_ms", "ttft_ms"), _NUMBER),
    **dict.fromkeys(("latency_ms_p50", "latency_ms_p95", "ttft_ms_p50", "ttft_ms_p95"), _NUMBER),
}
_BY: Final[Json] = {"anyOf": [_one_of(*By), {"type": "string", "pattern": f"^{TAG_NAME.pattern}$"}]}
_COUNTED: Final = f"requests {' '.join(FIGURES.values())}"
_UNDER_WAY: Final[Json] = {
    **dict.fromkeys(("request_id", "dialect", "route", "provider", "model", "client"), _TEXT),
    "time": _TIME,
    "seconds": _NUMBER,
}


def event_schema(fields: Sequence[EventField]) -> Json:
    """Return the schema of usage events with these fields."""
    required = " ".join(field.name for field in fields if field.is_required)
    return _object(required, **{field.name: dict(field.json_schema) for field in fields})


_EVENT: Final = event_schema(FIELDS)
"""A usage event."""
_HEALTH: Final = _object(
    "state",
    state=_one_of("ok", "failing", "unknown"),
    since=_TIME,
    last_success=_TIME,
    last_failure=_object("time", time=_TIME, error=_TEXT, http_status=_COUNT),
)
_ACCOUNT: Final = _object(
    "name state",
    name=_TEXT,
    state=_one_of("ready", "resting", "expired", "signed_out"),
    rests_until=_TIME,
    expires=_TIME,
)
_CREDENTIALS: Final = _object(
    "mode state",
    mode=_TEXT,
    key_hash={"type": "string", "pattern": "^[0-9a-f]{12}$"},
    state=_one_of("ready", "expired", "missing", "resting", "unknown"),
    expires=_TIME,
    entry=_TEXT,
    accounts=_list(_ACCOUNT),
)
_PROVIDER: Final = _object(
    "name kind family base_url defaults capabilities credentials",
    **dict.fromkeys(("name", "kind", "family", "base_url"), _TEXT),
    defaults=_list(_TEXT),
    capabilities=_list(_TEXT),
    health=_HEALTH,
    credentials=_CREDENTIALS,
)
_LOGIN: Final = _object(
    "entry profile flows state",
    entry=_TEXT,
    profile=_TEXT,
    flows=_list(_one_of("device", "pkce")),
    state=_one_of("signed_in", "signed_out", "expired", "unknown"),
    pending=_FLAG,
)
_TRY_IT: Final = {
    **_object("as", **{"as": _one_of("client", "key", "anyone")}, client=_TEXT),
    "description": "How the page that sends requests authenticates: as the client that has signed in, with a "
    "gateway key that the user enters, or without a key. Absent if the page is off.",
}
_PRICES: Final = (
    *("input", "output", "cache_read", "cache_write", "reasoning"),
    *("per_image", "per_minute", "per_million_characters"),
)
SCHEMAS: Final[Json] = {
    "profiles": _object(
        "service version started generation loaded draining in_flight sessions max_sessions usage_source "
        "prices auth providers aliases models",
        service=_TEXT,
        version=_TEXT,
        started=_TIME,
        generation=_COUNT,
        loaded=_TIME,
        draining=_FLAG,
        in_flight=_COUNT,
        sessions=_COUNT,
        max_sessions=_COUNT,
        usage_source=_one_of("sqlite", "memory"),
        prices=_FLAG,
        auth=_one_of("keys", "loopback"),
        providers=_list(_PROVIDER),
        aliases=_list(_object("name targets", name=_TEXT, targets=_list(_TEXT))),
        models=_list(
            _object(
                "id provider upstream_model capabilities",
                id=_TEXT,
                provider=_TEXT,
                upstream_model=_TEXT,
                capabilities=_list(_TEXT),
                price=_object("", **dict.fromkeys(_PRICES, _NUMBER)),
            )
        ),
        logins=_list(_LOGIN),
        try_it=_TRY_IT,
    ),
    "usage": _object(
        "source since until step totals series",
        source=_one_of("sqlite", "memory"),
        since=_TIME,
        until=_TIME,
        step=_COUNT,
        by=_BY,
        totals=_object(_COUNTED, **_SUMS),
        series=_list(_object(f"time {_COUNTED}", time=_TIME, key=_TEXT, **_SUMS)),
        groups=_list(_object(_COUNTED, key=_TEXT, **_SUMS)),
    ),
    "requests": _object(
        "source in_flight in_progress requests",
        source=_one_of("sqlite", "memory"),
        in_flight=_COUNT,
        in_progress=_list(
            _object(
                "request_id time seconds dialect route transport stream",
                **_UNDER_WAY,
                transport=_one_of("http", "websocket"),
                stream=_FLAG,
                http_status=_COUNT,
            )
        ),
        requests=_list(_EVENT),
        next=_TEXT,
    ),
    "sessions": _object(
        "max_sessions sessions",
        max_sessions=_COUNT,
        sessions=_list(
            _object(
                "request_id time seconds dialect route",
                **_UNDER_WAY,
                upstream_model=_TEXT,
                **dict.fromkeys(("bytes_in", "bytes_out", "frames_in", "frames_out"), _COUNT),
            )
        ),
    ),
    "limits": _object(
        "limits",
        omitted=_COUNT,
        limits=_list(
            _object(
                "holder limit period used reserved",
                **dict.fromkeys(("holder", "limit", "period"), _TEXT),
                **dict.fromkeys(("used", "reserved", "max"), _NUMBER),
                resets=_TIME,
            )
        ),
    ),
    "keys": _object(
        "keys",
        keys=_list(
            _object(
                "name state where",
                name=_TEXT,
                state=_one_of(*KeyState),
                where=_one_of(IN_CONFIG, IN_DIRECTORY),
                groups=_list(_TEXT),
                expires=_TIME,
                previous_expires=_TIME,
            )
        ),
    ),
    "logs": _object(
        "lines",
        lines=_list(
            _object(
                "time level text",
                time=_TIME,
                level=_one_of("debug", "info", "warn", "error", "critical"),
                text=_TEXT,
            )
        ),
    ),
    "login": _object(
        "entry flow state",
        entry=_TEXT,
        flow=_one_of("device", "pkce"),
        state=_one_of("pending", "complete", "failed", "cancelled", "expired"),
        **dict.fromkeys(("message", "user_code", "verification_uri", "verification_uri_complete"), _TEXT),
        authorization_url=_TEXT,
        wants_code=_FLAG,
        expires=_TIME,
    ),
    "error": _object(
        "error",
        error=_object(
            "message type",
            message=_TEXT,
            type=_TEXT,
            param={"type": ["string", "null"]},
            code={"type": ["string", "null"]},
        ),
    ),
}
"""What is answered, by name."""

_REFUSED: Final[Json] = {
    "description": "The request was rejected.",
    "content": {"application/json": {"schema": _ref("error")}},
}
_RETRY: Final[Json] = {"Retry-After": {"description": "Seconds to wait before a retry.", "schema": _COUNT}}


def _unavailable(why: str) -> Json:
    return {**_REFUSED, "description": why, "headers": _RETRY}


_UNAVAILABLE: Final[Json] = {
    "usage": _unavailable(
        "Too many queries are waiting, or the usage events cannot be read or take too long to add up."
    ),
    "requests": _unavailable(
        "Too many queries are waiting, or the usage events cannot be read or take too long to search."
    ),
    "events": _unavailable("Too many clients are reading events, or the gateway is stopping."),
    "login": _unavailable("Too many logins are in progress, or the gateway is stopping."),
}
"""Why a part may answer 503.  With workers, each may: the process that answers does not respond."""
_LINES: Final = (
    "The last lines of the process log, oldest first, up to 1 MiB in total. `usage` and `http` lines are "
    "not included, nor are lines from before the dashboard was turned on. Secrets are redacted as in the "
    "log. The list is empty if twistd sends its log elsewhere."
)
_REQUESTS: Final = (
    "The requests in progress, oldest first, and those that have completed, newest first. The latter are "
    "usage events from the `hooks.sqlite` file, or the last 10,000 of this process without it. All filters "
    "match exactly; `status` is an outcome, an HTTP status such as 503, or a class such as 5xx. `next` is "
    "the `cursor` of the next page, and absent on the last one; with `cursor`, `in_progress` is empty. "
    "`limit=0` returns only the requests in progress."
)
_LIMITS: Final = (
    "The limits that last longer than a minute, with what is used of each in its current period. Limits that "
    "apply to each client separately are listed for the clients that have used them: at most 1,000 rows, "
    "those with the largest share used, and `omitted` counts the others. `search` selects rows with this "
    "text in `holder`, in any case. Amounts are requests, tokens or US dollars, as the name of the limit "
    "says; `resets` is absent for `total`."
)
_FILTERS: Final[Json] = {
    "since": _TIME,
    "until": _TIME,
    "status": _TEXT,
    **dict.fromkeys(FILTERS, _TEXT),
    "limit": {"type": "integer", "minimum": 0, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
    "cursor": _TEXT,
}
_READS: Final[tuple[tuple[str, str, Json], ...]] = (
    ("profiles", "The gateway and its providers, aliases, models and logins.", {}),
    (
        "usage",
        "Totals of the usage events, as a time series and by group.",
        {
            "since": _TIME,
            "until": _TIME,
            "step": _COUNT,
            "by": _BY,
            **dict.fromkeys(USAGE_FILTERS, _TEXT),
            "status": _one_of(*Outcome),
        },
    ),
    ("requests", _REQUESTS, _FILTERS),
    ("sessions", "The open realtime sessions.", {}),
    ("limits", _LIMITS, {"search": _TEXT}),
    ("keys", "The gateway keys with names, without the keys themselves.", {}),
    ("logs", _LINES, {"lines": {**_COUNT, "maximum": MAX_LINES, "default": DEFAULT_LINES}}),
)


@cache
def describe_api() -> bytes:
    """Return the description of the API."""
    paths: Json = {
        f"/v1/dashboard/{name}": {
            "get": _operation(summary, _json(name), _query(parameters), unavailable=_UNAVAILABLE.get(name))
        }
        for name, summary, parameters in _READS
    }
    paths["/v1/dashboard/events"] = {"get": _events()}
    paths["/v1/dashboard/oauth/{entry}"] = _logins()
    paths["/v1/dashboard/try"] = {"post": _try_it()}
    whole = _response("The OpenAPI document.", {"type": "object"})
    paths["/v1/dashboard/openapi.json"] = {"get": _operation("This OpenAPI document.", whole, [])}
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "mgw dashboard", "version": __version__},
            "paths": paths,
            "components": {
                "schemas": SCHEMAS,
                "securitySchemes": {
                    "bearer": {"type": "http", "scheme": "bearer"},
                    "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
                    "session": {"type": "apiKey", "in": "cookie", "name": COOKIE.decode()},
                    "session_under_tls": {"type": "apiKey", "in": "cookie", "name": SECURE_COOKIE.decode()},
                },
            },
            "security": [{"bearer": []}, {"key": []}, {"session": []}, {"session_under_tls": []}, {}],
        }
    )


def _operation(
    summary: str,
    response: Json,
    parameters: Iterable[Json],
    status: str = "200",
    unavailable: Json | None = None,
) -> Json:
    responses = {status: response, "4XX": _REFUSED}
    if unavailable is not None:
        responses["503"] = unavailable
    return {"summary": summary, "parameters": list(parameters), "responses": responses}


def _response(description: str, schema: Json, content_type: str = "application/json") -> Json:
    return {"description": description, "content": {content_type: {"schema": schema}}}


def _json(name: str) -> Json:
    return _response("OK.", _ref(name))


def _query(parameters: Json) -> list[Json]:
    return [{"name": name, "in": "query", "schema": schema} for name, schema in parameters.items()]


def _events() -> Json:
    summary = (
        "Usage events, log lines, and changes to providers and sessions, as they happen. The stream ends "
        "when the client's session or token ends, when its key is removed, and when the gateway stops."
    )
    stream = _response("Server-sent events.", _TEXT, "text/event-stream")
    last_id = {"name": "Last-Event-ID", "in": "header", "schema": _TEXT}
    asked = [*_query({"kinds": _TEXT}), last_id]
    return _operation(summary, stream, asked, unavailable=_UNAVAILABLE["events"])


def _try_it() -> Json:
    summary = (
        "Set a cookie with which the dashboard's page can send requests to a model for one minute, as the "
        "client that has signed in with a gateway key. The page's own `Origin` is required."
    )
    return _operation(summary, {"description": "The cookie was set."}, [], "204")


def _logins() -> Json:
    begin = _operation(
        "Start a login (201), or continue one with a code (200).",
        _json("login"),
        [],
        "201",
        _UNAVAILABLE["login"],
    )
    begin["responses"]["200"] = _json("login")
    body = _object("", flow=_one_of("device", "pkce"), code=_TEXT)
    begin["requestBody"] = {"content": {"application/json": {"schema": body}}}
    entry = {"name": "entry", "in": "path", "required": True, "schema": _TEXT}
    return {
        "parameters": [entry],
        "get": _operation("The state of a login.", _json("login"), []),
        "post": begin,
        "delete": _operation("Cancel a login.", {"description": "The login was canceled."}, [], "204"),
    }
