"""The dashboard's API with answers that a test chooses, so that the page can be shown what is rare.

``POST /stub/events`` adds usage events and sends them through the feed, ``POST /stub/past`` only adds them,
``POST /stub/progress`` says which requests are in progress, ``POST /stub/set`` changes what is true: ``key``
(none: no key is needed), ``up`` (not: connections are cut), ``source`` of the usage, ``slow`` (seconds that
the usage takes), ``history`` (the status of the list of requests), ``late`` (how many events it lacks yet),
``flow``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from mgw.config.dashboard import PAGES
from mgw.dashboard.static import _POLICY, TYPES
from mgw.usage.event import Outcome

COUNTED: Final = {
    "answered": "ok",
    "failed": "upstream_error",
    "rejected": "rejected",
    "aborted": "client_abort",
}
SUMMED: Final = ("tokens_in", "tokens_out", "cache_read_tokens", "reasoning_tokens", "cost_usd")
TIMED: Final = ("latency_ms", "ttft_ms")
COOKIE: Final = "mgw_dashboard=right"
API: Final = "/v1/dashboard/"
PAGE: Final = 100
EXACT: Final = ("client", "provider", "model", "route", "error", "request_id", "upstream_request_id")
LIMITS: Final[list[dict[str, Any]]] = [  # Any: JSON
    {
        "holder": "gateway",
        "limit": "usd_per_month",
        "period": "2026-11",
        "used": 811.425,
        "reserved": 100,
        "max": 2000,
        "resets": "2026-12-01T00:00:00Z",
    },
    {
        "holder": "group:research",
        "limit": "tokens_per_day",
        "period": "2026-11-28",
        "used": 1_900_000,
        "reserved": 0,
        "max": 2_000_000,
        "resets": "2026-11-29T00:00:00Z",
    },
    {
        "holder": "group:research/alice",
        "limit": "requests_total",
        "period": "total",
        "used": 12,
        "reserved": 0,
        "max": 10,
    },
]
KEYS: Final[list[dict[str, Any]]] = [  # Any: JSON
    {"name": "alice", "state": "active", "where": "config", "groups": ["research"]},
    {"name": "bob", "state": "expired", "where": "keys_dir", "expires": "2026-11-01T00:00:00Z"},
]
OUTCOMES: Final = frozenset(Outcome)
Json = dict[str, Any]  # Any: JSON


def limit_of(number: int) -> Json:
    """Return a row of one of many clients."""
    row = {"holder": f"client-{number}", "limit": "tokens_total", "period": "total"}
    return row | {"used": number, "reserved": 0, "max": 100_000}


def key_of(number: int) -> Json:
    """Return the key of one of many clients."""
    return {"name": f"client-{number}", "state": "active", "where": "keys_dir"}


def rfc3339(unix: float) -> str:
    """Return a time as the API writes it."""
    return datetime.fromtimestamp(unix, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def unix(text: str) -> float:
    """Return the time that the API wrote."""
    return datetime.fromisoformat(text).timestamp()


def sums(events: list[Json]) -> Json:
    """Return what the API says of some events."""
    found: Json = {"requests": len(events)}
    for name, status in COUNTED.items():
        found[name] = sum(event["status"] == status for event in events)
    answered = [event for event in events if event["status"] == "ok"]
    found["unpriced"] = sum("cost_usd" not in event for event in answered)
    found["uncounted"] = sum(event["stream"] and "tokens_in" not in event for event in answered)
    for name in SUMMED:
        values = [event[name] for event in events if name in event]
        if values:
            found[name] = sum(values)
    answered = [event for event in events if event["status"] == "ok"]
    found["unpriced"] = sum("cost_usd" not in event for event in answered)
    found["uncounted"] = sum(bool(event.get("stream")) and "tokens_in" not in event for event in answered)
    for name in TIMED:
        values = sorted(event[name] for event in answered if name in event)
        if values:
            found[name] = sum(values) / len(values)
            found[f"{name}_p50"], found[f"{name}_p95"] = values[len(values) // 2], values[-1]
    return found


class State:
    """What the stub answers with; ``changed`` guards it and wakes the feeds."""

    def __init__(self) -> None:
        self.changed = Condition()
        self.set: Json = {
            "key": None,
            "up": True,
            "source": "sqlite",
            "draining": False,
            "slow": 0,
            "history": 200,
            "late": 0,
            "clients": 0,
        }
        self.progress: list[Json] = [under_way()]
        self.events: list[Json] = []
        self.feed: list[tuple[str, Json]] = []
        self.profiles: Json = {}
        self.flows: dict[str, Json] = {}

    def newer(self, sent: int) -> list[tuple[str, Json]]:
        """Return what came to the feed after so many, when there is something, but soon."""
        with self.changed:
            self.changed.wait_for(lambda: len(self.feed) > sent, 0.5)
            return self.feed[sent:]

    def usage(self, query: dict[str, str]) -> Json:
        """Add the events up; the grid of steps is that of the API."""
        until = unix(query["until"]) if "until" in query else datetime.now(UTC).timestamp()
        since, step, by = unix(query["since"]), int(query["step"]), query.get("by")
        chosen = [event for event in self.events if since <= unix(event["time"]) < until]
        steps: dict[tuple[float, Any], list[Json]] = {}
        groups: dict[Any, list[Json]] = {}
        for event in chosen:
            key = event.get("key_hash" if by == "key" else by) if by else None
            steps.setdefault((unix(event["time"]) // step * step, key), []).append(event)
            groups.setdefault(key, []).append(event)
        answer: Json = {"source": self.set["source"], "since": rfc3339(since), "until": rfc3339(until)}
        answer |= {"step": step, "totals": sums(chosen)}
        answer["series"] = [
            {"time": rfc3339(time), **keyed(key), **sums(events)} for (time, key), events in steps.items()
        ]
        if by:
            answer["groups"] = [{**keyed(key), **sums(events)} for key, events in groups.items()]
        return answer

    def requests(self, query: dict[str, str]) -> Json:
        """Return a page of the events, the newest first; a cursor is the place of the last that was shown."""
        written = self.events[: len(self.events) - self.set["late"]]
        wanted = [event for event in written if fits(event, query)]
        wanted.sort(key=place, reverse=True)
        if "cursor" in query:
            wanted = [event for event in wanted if place(event) < tuple(query["cursor"].split("|"))]
        limit = int(query.get("limit", PAGE))
        progress = [] if "cursor" in query else self.progress
        answer: Json = {
            "source": self.set["source"],
            "in_flight": len(self.progress),
            "in_progress": progress,
        }
        answer["requests"] = wanted[:limit]
        if len(wanted) > limit:
            answer["next"] = "|".join(place(wanted[limit - 1]))
        return answer


def place(event: Json) -> tuple[str, str]:
    """Return what the list is ordered by."""
    return event["time"], event["request_id"]


def fits(event: Json, query: dict[str, str]) -> bool:
    """Return whether a request is among those that are asked for."""
    if "since" in query and unix(event["time"]) < unix(query["since"]):
        return False
    if "until" in query and unix(event["time"]) >= unix(query["until"]):
        return False
    if "status" in query and not has_status(event, query["status"]):
        return False
    fields = {"key": "key_hash"} | {name: name for name in EXACT}
    return all(event.get(fields[name]) == query[name] for name in fields if name in query)


def has_status(event: Json, status: str) -> bool:
    """Return whether a request ended with an outcome, an HTTP status, or one of a class."""
    code = str(event.get("http_status", ""))
    if status in OUTCOMES:
        return bool(event["status"] == status)
    return code[:1] == status[0] if status.endswith("xx") else code == status


def keyed(key: Any) -> Json:
    """Return the key of a group that has one."""
    return {} if key is None else {"key": key}


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def handle_one_request(self) -> None:
        """Answer, unless connections are cut: then only the stub's own addresses have an answer."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if url.path.startswith("/stub/"):
            self._control(url.path.removeprefix("/stub/"), json.loads(body))
        elif not self.state.set["up"]:
            self.close_connection = True
        elif url.path.startswith(API):
            query = {name: values[0] for name, values in parse_qs(url.query).items()}
            self._api(url.path.removeprefix(API), query, body)
        else:
            self._page(url.path, body)

    def _send(self, status: int, body: bytes = b"", kind: str = "application/json", cookie: str = "") -> None:
        self.send_response(status)
        policy = {"Content-Security-Policy": _POLICY.decode(), "Cache-Control": "no-store"}
        sized = {"Content-Length": str(len(body)), "Content-Type": kind}
        for name, value in {**policy, **sized, **({"Set-Cookie": cookie} if cookie else {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _json(self, answer: Any, status: int = 200) -> None:
        self._send(status, json.dumps(answer).encode())

    def _refuse(self, status: int, message: str) -> None:
        self._json({"error": {"message": message, "type": "error", "param": None, "code": None}}, status)

    def _is_known(self) -> bool:
        return self.state.set["key"] is None or COOKIE in self.headers.get("Cookie", "")

    def _control(self, word: str, body: Any) -> None:
        with self.state.changed:
            if word == "set":
                self.state.set |= body
            elif word == "profiles":
                self.state.profiles = body
            elif word == "flow":
                self.state.flows[body["entry"]] |= body
            elif word == "past":
                self.state.events += body
            elif word == "progress":
                self.state.progress = body
            elif word == "feed":
                self.state.feed += [(kind, data) for kind, data in body]
            else:
                self.state.events += body
                self.state.feed += [("usage", event) for event in body]
            self.state.changed.notify_all()
        self._json({})

    def _page(self, path: str, body: bytes) -> None:
        if path == "/ui/login":
            fits = json.loads(body)["key"] == self.state.set["key"]
            cookie = f"{COOKIE}; Path=/; HttpOnly; SameSite=Strict"
            return self._send(204, cookie=cookie) if fits else self._refuse(401, "another key")
        if path == "/ui/logout":
            return self._send(204, cookie="mgw_dashboard=; Path=/; Max-Age=0")
        if path == "/ui":
            known = self._is_known()
            name = "index.html" if known else "sign-in.html"
            return self._send(200 if known else 401, (PAGES / name).read_bytes(), "text/html; charset=utf-8")
        file = PAGES / Path(path.removeprefix("/ui/assets/"))
        if not file.is_file():
            return self._refuse(404, "no such file")
        return self._send(200, file.read_bytes(), TYPES[file.suffix].decode())

    def _api(self, path: str, query: dict[str, str], body: bytes) -> None:
        if not self._is_known():
            return self._refuse(401, "a key is needed")
        if path.startswith("oauth/"):
            return self._oauth(path.removeprefix("oauth/"), json.loads(body or b"{}"))
        if path == "events":
            return self._feed()
        if path == "requests" and self.state.set["history"] != 200:
            return self._refuse(self.state.set["history"], "too many queries are waiting")
        if path == "usage":
            time.sleep(self.state.set["slow"])
        with self.state.changed:
            answers: dict[str, Json] = {
                "profiles": {**self.state.profiles, "usage_source": self.state.set["source"]},
                "sessions": {"max_sessions": 8, "sessions": [{**under_way(), "bytes_in": 1, "bytes_out": 9}]},
                "limits": {"limits": [*LIMITS, *map(limit_of, range(self.state.set["clients"]))]},
                "keys": {"keys": [*KEYS, *map(key_of, range(self.state.set["clients"]))]},
                "logs": {"lines": [{"time": rfc3339(0), "level": "warn", "text": "the first line"}]},
            }
            answers["profiles"]["auth"] = "keys" if self.state.set["key"] else "loopback"
            answers["profiles"]["logins"] = [self._login(row) for row in self.state.profiles["logins"]]
            answers["profiles"]["draining"] = self.state.set["draining"]
            if path == "requests":
                return self._json(self.state.requests(query))
            return self._json(self.state.usage(query) if path == "usage" else answers[path])

    def _login(self, row: Json) -> Json:
        is_pending = self.state.flows.get(row["entry"], {}).get("state") == "pending"
        return {**row, "pending": True} if is_pending else row

    def _oauth(self, entry: str, body: Json) -> None:
        flows = self.state.flows
        if self.command == "DELETE":
            flows.pop(entry, None)
            return self._send(204)
        if self.command == "GET":
            return self._json(flows[entry]) if entry in flows else self._refuse(404, "no flow")
        if "code" in body:
            if body["code"] != "right":
                return self._refuse(400, "the provider refused this code")
            flows[entry] |= {"state": "complete", "message": "signed in"}
            return self._json(flows[entry])
        flows[entry] = {"entry": entry, "flow": body["flow"], "state": "pending"}
        address = "https://provider.example/"
        if body["flow"] == "device":
            flows[entry] |= {"user_code": "ABCD-1234", "verification_uri": f"{address}device"}
        else:
            flows[entry] |= {"authorization_url": f"{address}authorize", "wants_code": True}
        return self._json(flows[entry], 201)

    def _feed(self) -> None:
        self.close_connection = True
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"retry: 300\n\n")
        sent = int(self.headers.get("Last-Event-ID", f"x-{len(self.state.feed)}").rpartition("-")[2])
        try:
            while self.state.set["up"] and self._is_known():
                for kind, data in self.state.newer(sent):
                    sent += 1
                    self.wfile.write(f"id: x-{sent}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode())
                self.wfile.write(b":\n\n")
        except OSError:
            pass  # the page has left


def under_way() -> Json:
    """Return a request that is under way."""
    row = {"request_id": "r1", "time": rfc3339(0), "seconds": 4.2, "dialect": "openai", "route": "chat"}
    return {**row, "provider": "main", "model": "slow-model", "client": "alice", "transport": "http"}


class Server(ThreadingHTTPServer):
    """A server whose clients may leave at any time."""

    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """Say nothing: the page leaves as it likes, and a wrong answer fails its scenario."""


@contextmanager
def start_stub() -> Iterator[str]:
    """Serve on a free port of the loopback interface, and return the address."""
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"state": State()}))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
