"""What a key may use that is limited to some models, on every route that names one and in every spelling.

The provider here is the worst one that there could be: what reaches it is read by several readers, each of
which takes another liberty.  None of them may find a model that the key may not use.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from gzip import compress, decompress
from typing import Any, Final
from urllib.parse import parse_qsl, unquote

import pytest

from mgw.routing.model_source import ModelAt
from mgw.routing.route import Route, Treatment
from mgw.routing.routes import ROUTES
from tests.memory.web.test_admission import serve
from tests.memory.web.test_named_keys import status
from tests.support.channels import get
from tests.support.web_servers import WebServerHarness

TEXT: Final = """
providers:
  main: {kind: openai_compat, base_url: "https://openai.example/v1", api_key: sk-main-0001, capabilities: CAN}
  claude: {kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}
  gem: {kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
aliases: {bad-alias: main/good, good-alias: main/good-target}
edge_auth:
  enabled: true
  keys: [key-plain, {name: limited, key: key-limited, models: ["good*"]}]
""".replace(
    "CAN",
    "{image_gen: true, video_gen: true, audio_speech: true, audio_transcribe: true, realtime: true}",
)
ROWS: Final = [
    route
    for route in ROUTES
    if route.may_name_models and route.treatment not in (Treatment.LOCAL, Treatment.REALTIME)
]
JSON_ROWS: Final = [
    route for route in ROWS if route.method in ("POST", "PATCH") and route.models.at is not ModelAt.FORM
]
FORM_ROWS: Final = [route for route in ROWS if route.models.at is ModelAt.FORM]
NOT_PASSED_ON: Final = [row for row in ROWS if row.name in ("generate_speech", "anthropic_audio_speech")]
"""Their bodies are always written anew; the first one's names no model."""
by_name: Final = partial(pytest.mark.parametrize, "route", ids=lambda route: route.name)
GOOD, BAD = '"good"', '"bad"'
JSON_TYPE: Final = "Content-Type: application/json"
FORM_TYPE: Final = "Content-Type: multipart/form-data; boundary=xYz"

# --- requests ----------------------------------------------------------------------------------------------


def address(route: Route, query: str = "", model: str = "good") -> str:
    path = re.sub(r"\{\w+\}", "x", route.path.replace("{model}", model).replace("{path}", "x"))
    return f"{path}?{query}" if query else path


def ask(route: Route, body: bytes, *headers: str, query: str = "", key: str = "key-limited") -> bytes:
    own = ["anthropic-version: 2023-06-01"] if route.family.value == "anthropic" else []
    own += ["x-goog-api-client: genai"] if route.family.value == "gemini" else []
    lines = (*own, *headers, f"Content-Length: {len(body)}", f"Authorization: Bearer {key}")
    return get(address(route, query), *lines, method=route.method) + body


Path = tuple[str | None, ...]


def paths_of(route: Route) -> tuple[Path, ...]:
    return route.models.paths or (("model",),)


def nested(path: Path, inner: str) -> str:
    """Return a document in which an object stands where the last key of the path belongs."""
    for step in reversed(path[:-1]):
        inner = f"[{inner}]" if step is None else f'{{"{step}":{inner}}}'
    return inner


def members(path: Path, *pairs: tuple[str, str], more: str = "") -> bytes:
    """Return a document whose last object has these members; ``KEY`` stands for the path's last key."""
    key = path[-1]
    assert key is not None
    inner = ",".join(f"{name.replace('KEY', key)}:{value}" for name, value in pairs)
    return nested(path, f"{{{inner}{more}}}").encode()


def spellings(key: str) -> list[str]:
    """Return how a key may be spelled so that some reader takes it for that key."""
    first = f"\\u{ord(key[0]):04x}"
    return [
        f'"{key}"',
        f'"{first}{key[1:]}"',
        f'"{key.title()}"',
        f'"{key.upper()}"',
        f'"\\u{ord(key[0].upper()):04x}{key[1:]}"',
        f'"{key}\\u0000"',
        f'"{key}\\ud800"',
    ]


def hostile_documents(path: Path) -> Iterator[bytes]:
    """Yield documents in which some reader finds the forbidden model at the end of a path."""
    key = path[-1]
    assert key is not None
    good, padding = ('"KEY"', GOOD), ('"pad"', f'"{"x" * 300}"')
    for name in spellings(key):
        other = (name, BAD)
        for pairs in ((good, other), (other, good), (other,), (padding, other, good), (other, padding, good)):
            yield members(path, *pairs)
            yield members(path, *pairs, padding)
    for value in ('["bad"]', '{"id":"bad"}', r'"bad\u0000good"', r'"good\ud800"', r'"\u0062ad"', "7"):
        yield members(path, good, ('"KEY"', value))
        yield members(path, ('"KEY"', value))
    yield members(path, ('"KEY"', BAD), more=',"x":NaN')
    yield members(path, ('"KEY"', GOOD), more=',"x":[1,],"KEY":"bad"'.replace("KEY", key))
    whole, bad = members(path, good), members(path, ('"KEY"', BAD))
    yield from (
        b"\xef\xbb\xbf" + bad,
        whole + bad,
        bad + whole,
        whole + b"\n" + bad,
        bad + b"//",
        b"/**/" + bad,
    )
    yield from (bad[:-1] + b",}", bad.replace(b'"', b"'"), bad.decode().encode("utf-16"))
    yield whole[:-1] + b"," + bad[1:]  # all of the way twice
    yield bad[:-1] + b"," + whole[1:]
    yield whole[:-1] + b',"deep":' + b"[" * 5000 + b"]" * 5000 + b"," + bad[1:]


def part(name: str, content: str, disposition: str = 'form-data; name="{}"', more: str = "") -> str:
    return f"--xYz\r\nContent-Disposition: {disposition.format(name)}{more}\r\n\r\n{content}\r\n"


def form(*parts: str) -> bytes:
    return ("".join(parts) + "--xYz--\r\n").encode()


# --- the readers of the worst provider ---------------------------------------------------------------------

Read = Callable[[list[tuple[str, Any]]], Any]  # Any: JSON


def last_wins(pairs: list[tuple[str, Any]]) -> Any:  # Any: JSON
    return dict(pairs)


def first_wins(pairs: list[tuple[str, Any]]) -> Any:  # Any: JSON
    return dict(reversed(pairs))


def folded(pairs: list[tuple[str, Any]]) -> Any:  # Any: JSON
    return {key.partition("\0")[0].casefold(): value for key, value in pairs}


def folded_first(pairs: list[tuple[str, Any]]) -> Any:  # Any: JSON
    return folded([*reversed(pairs)])


def names_in(value: Any) -> Iterator[str]:  # Any: JSON
    """Yield every string in a document, and what is left of it in readers that drop what is no text."""
    if isinstance(value, dict):
        for each in value.values():
            yield from names_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from names_in(each)
    elif isinstance(value, str):
        yield from (value, value.partition("\0")[0], value.encode(errors="ignore").decode())


def read_leniently(body: bytes) -> set[str]:
    """Return all names that some reader finds in a body: Python's takes NaN, and several documents here."""
    found: set[str] = set()
    for encoding in ("utf-8-sig", "utf-16"):
        text = re.sub(r",\s*([}\]])", r"\1", body.decode(encoding, "ignore"))
        for hook in (last_wins, first_wins, folded, folded_first):
            decoder, position = json.JSONDecoder(object_pairs_hook=hook, strict=False), 0
            while 0 <= position < len(text):
                try:
                    value, position = decoder.raw_decode(text, position)
                except (ValueError, RecursionError):
                    position = text.find("{", position + 1)
                else:
                    found.update(names_in(value))
    found.update(
        re.findall(r"(?is)name\*?=[^\r\n]*\r?\n(?:[^\r\n]+\r?\n)*\r?\n([^\r\n]*)", body.decode("latin-1"))
    )
    return found


def names_upstream(harness: WebServerHarness) -> set[str]:
    """Return all names that some provider may have found in all that went upstream."""
    found: set[str] = set()
    for connection in harness.pipeline.endpoint.connections:
        head, _, body = connection.received.partition(b"\r\n\r\n")
        path, _, query = head.split(b" ")[1].decode().partition("?") if head else ("", "", "")
        for coded, decode in ((b"gzip", decompress), (b"deflate", zlib.decompress)):
            if re.search(rb"(?i)content-encoding: *" + coded, head):
                body = decode(body)
        found |= read_leniently(body) | set(re.split("[/:]", unquote(path)))
        found |= {value for _, value in parse_qsl(query.replace(";", "&"))}
    return found


def refused(harness: WebServerHarness, data: bytes) -> None:
    """Send a request until its head is known, and see that it is refused each time."""
    before = len(harness.pipeline.endpoint.connections)
    for _ in range(3):
        answer = serve(harness, data)
        assert status(answer) in (400, 404), (data[-300:], answer[:200])
        assert len(harness.pipeline.endpoint.connections) == before, data[-300:]


@pytest.fixture
def harness() -> WebServerHarness:
    return WebServerHarness(TEXT)


# --- the laws ----------------------------------------------------------------------------------------------


@by_name(JSON_ROWS)
def test_json_in_which_some_provider_finds_another_model_goes_nowhere(
    harness: WebServerHarness, route: Route
) -> None:
    for path in paths_of(route):
        for document in hostile_documents(path):
            serve(harness, ask(route, document, JSON_TYPE, key="key-plain"))  # which makes nothing known
    harness.pipeline.endpoint.connections.clear()
    for path in paths_of(route):
        for document in hostile_documents(path):
            refused(harness, ask(route, document, JSON_TYPE))
    assert not names_upstream(harness)


@by_name(JSON_ROWS)
def test_what_a_restricted_key_may_ask_for_goes_on_as_it_came(
    harness: WebServerHarness, route: Route
) -> None:
    for path in paths_of(route):
        for value in (GOOD, r'"\u0067ood"'):
            document = members(path, ('"KEY"', value), more=r',"x":"\ud800","y":1e999,"X":[{"Y":1,"y":2}]')
            for key in ("key-plain", "key-limited"):
                for _ in range(3):
                    answer = serve(harness, ask(route, document, JSON_TYPE, key=key))
                    upstream = harness.pipeline.endpoint.connections
                    if route in NOT_PASSED_ON:
                        continue
                    assert status(answer) != 400, (document, answer)
                    if upstream and status(answer) == 200:
                        assert upstream[-1].received.endswith(document)


@by_name(JSON_ROWS)
def test_a_body_of_another_type_or_coding_goes_nowhere(harness: WebServerHarness, route: Route) -> None:
    path = paths_of(route)[0]
    good = members(path, ('"KEY"', GOOD))
    wrapped = members(path, ('"KEY"', GOOD), more=',"x":"&model=bad&"')
    for header in (
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=xYz",
        "application/json, application/x-www-form-urlencoded",
        "application/json; charset=utf-7",
        "application/json; charset=utf-8; charset=utf-16",
        "application/msgpack",
    ):
        refused(harness, ask(route, wrapped, f"Content-Type: {header}"))
    refused(harness, ask(route, wrapped, JSON_TYPE, "Content-Type: application/x-www-form-urlencoded"))
    bad = members(path, ('"KEY"', GOOD), ('"KEY"', BAD))
    refused(harness, ask(route, compress(bad), JSON_TYPE, "Content-Encoding: gzip"))
    refused(harness, ask(route, zlib.compress(bad), JSON_TYPE, "Content-Encoding: deflate"))
    refused(harness, ask(route, bad, JSON_TYPE, "Content-Encoding: gzip"))
    refused(harness, ask(route, good, JSON_TYPE, "Content-Encoding: unknown"))
    for query in ("model=bad", "Model=bad", "x=1;model=bad", "mod%65l=bad", "model[]=bad", "%256dodel=bad"):
        refused(harness, ask(route, good, JSON_TYPE, query=query))
    for coding, encode in (("gzip", compress), ("deflate", zlib.compress)):
        answer = serve(harness, ask(route, encode(good), JSON_TYPE, f"Content-Encoding: {coding}"))
        assert status(answer) != 400 or route in NOT_PASSED_ON
    assert "bad" not in names_upstream(harness)


OTHERS: Final = [(route, path) for route in JSON_ROWS for path in route.models.others]


@pytest.mark.parametrize(
    ("route", "path"), OTHERS, ids=[f"{route.name}-{'.'.join(map(str, path))}" for route, path in OTHERS]
)
def test_further_models_of_a_request_are_looked_at(
    harness: WebServerHarness, route: Route, path: Path
) -> None:
    def document(inner: str) -> bytes:
        for step in reversed(path):
            inner = f"[{inner}]" if step is None else f'{{"{step}":{inner}}}'
        outer = members(paths_of(route)[0], ('"KEY"', GOOD))
        if route.models.at is ModelAt.BATCH:
            return outer.replace(b"}]}", b"}" + b"," + inner.encode()[len('{"requests":[') :])
        return outer[:-1] + b"," + inner.encode()[1:]

    refused(harness, ask(route, document(BAD), JSON_TYPE))
    refused(harness, ask(route, document('"main/bad"'), JSON_TYPE))
    upper = re.sub(rb'"(\w+)"(?=:(?:\[*"bad"))', lambda found: found[0].upper(), document(BAD))
    refused(harness, ask(route, upper, JSON_TYPE))
    answer = serve(harness, ask(route, document(GOOD), JSON_TYPE))
    assert status(answer) == 200, answer


FURTHER: Final = [
    ("chat", "content_policy_fallbacks[].model"),
    ("chat", "context_window_fallbacks[].model"),
    ("chat", "tools[].model"),
    ("count_tokens", "generate_content_request.model"),
    ("fine_tuning_alpha_graders_run", "grader.graders.model"),
    ("fine_tuning_jobs_create", "method.reinforcement.grader.graders.model"),
    ("gemini_agents_create", "agent_config.model"),
    ("gemini_auth_tokens", "bidi_generate_content_setup.model"),
    ("gemini_auth_tokens", "bidi_generate_content_setup.setup.model"),
    ("gemini_interactions_create", "agentConfig.model"),
    ("gemini_interactions_create", "agent_config.model"),
    ("gemini_triggers_create", "interaction.agent_config.model"),
    ("gemini_triggers_patch", "interaction.agent_config.model"),
    ("generate_content", "generationConfig.routingConfig.manualMode.modelName"),
    ("generate_content", "generation_config.routing_config.manualMode.model_name"),
    ("images_edits", "svg.model"),
    ("images_generations", "svg.model"),
    ("live_sessions_create", "session.delegation.responses.tools[].model"),
    ("stream_generate_content", "generationConfig.routing_config.manual_mode.modelName"),
    ("responses", "input[].tools[].model"),
    ("responses", "input[].tools[].svg.model"),
    ("anthropic_organizations_claude_tag_slack_channels_create", "settings.model"),
]
"""What vendors' SDKs send as models beside or in place of the one."""


@pytest.mark.parametrize(("name", "place"), FURTHER)
def test_models_that_sdks_name_elsewhere_are_looked_at(
    harness: WebServerHarness, name: str, place: str
) -> None:
    route = next(route for route in ROWS if route.name == name)
    path: list[str | None] = []
    for key in place.split("."):
        path += [key.removesuffix("[]"), None] if key.endswith("[]") else [key]

    def document(value: str) -> bytes:
        inner = members((*path,), ('"KEY"', value))
        own = route.names_one_model or route.models.at is ModelAt.FORM or ("model",) in route.models.paths
        return b'{"model":"good",' + inner[1:] if own else inner

    refused(harness, ask(route, document(BAD), JSON_TYPE))
    assert status(serve(harness, ask(route, document(GOOD), JSON_TYPE))) == 200


def test_a_model_that_some_host_takes_for_another_in_a_path_is_unknown(harness: WebServerHarness) -> None:
    route = next(route for route in ROWS if route.name == "chat")
    for model in ("good/../bad", "good/..", r"good\\..\\bad", "main/good/../../bad", "good/./../bad"):
        refused(harness, ask(route, b'{"model":"%b"}' % model.encode(), JSON_TYPE))
    for model in ("good..2", "good/2.5", "good.", "good/...x"):
        assert status(serve(harness, ask(route, b'{"model":"%b"}' % model.encode(), JSON_TYPE))) == 200


def test_lists_of_fallbacks_by_name_are_refused(harness: WebServerHarness) -> None:
    for name in ("chat", "completions", "responses"):
        route = next(route for route in ROWS if route.name == name)
        for key in ("fallbacks", "context_window_fallbacks", "content_policy_fallbacks"):
            refused(
                harness, ask(route, b'{"model":"good","%b":[{"good":["bad"]}]}' % key.encode(), JSON_TYPE)
            )


@pytest.mark.parametrize("size", [1, 70_000])
def test_a_form_may_name_a_further_model_that_the_key_may_use(harness: WebServerHarness, size: int) -> None:
    route = next(route for route in ROWS if route.name == "images_edits")

    def document(model: str) -> bytes:
        return form(part("image", "z" * size), part("model", "good"), part("svg[model]", model))

    refused(harness, ask(route, document("bad"), FORM_TYPE))
    refused(harness, ask(route, document("main/bad"), FORM_TYPE))
    for model, named in (("good-2", "good-2"), ("main/good-2", "main/good-2"), ("good-alias", "good-target")):
        answer = serve(harness, ask(route, document(model), FORM_TYPE))
        allowed = model != "main/good-2"
        assert status(answer) == (200 if allowed else 404), answer
        if allowed:
            assert harness.pipeline.endpoint.connections[-1].received.endswith(document(named))


@by_name(FORM_ROWS)
def test_forms_in_which_some_server_finds_another_model_go_nowhere(
    harness: WebServerHarness, route: Route
) -> None:
    name = route.models.form_part
    good, bad = ('{"model":"good"}', '{"model":"bad"}') if route.models.paths else ("good", "bad")
    hostile = [
        form(part(name, good), part(name, bad)),
        form(part(name, bad), part(name, good)),
        *(form(part(name, good), part(other, bad)) for other in (name.title(), f"{name}[]", f" {name}")),
        form(part(name, good), part("Model", "bad"), part("x", "y")),
        form(part(name, good), part(name, bad, 'form-data; name="x"; name="{}"')),
        form(part(name, good), part(name, bad, 'form-data; name="{}"; name="x"')),
        form(part(name, good), part(name, bad, "form-data; name*=utf-8''{}")),
        form(part(name, good), part(name, bad, "form-data; name='{}'")),
        form(part(name, good), part("x", bad, more=f'\r\nContent-Disposition: form-data; name="{name}"')),
        form(part(name, good), part("x", bad, more=f'\nContent-Disposition: form-data; name="{name}"')),
        form(
            part(name, good), part("x", f'\n--xYz\nContent-Disposition: form-data; name="{name}"\n\n{bad}\n')
        ),
        form(part(name, good)) + form(part(name, bad)),
        form(part("x", "y"), part(name, bad)),
    ]
    for body in hostile:
        refused(harness, ask(route, body, FORM_TYPE))
        for size in (70_000,):  # on disk
            refused(
                harness,
                ask(route, form(part("file", "z" * size)).replace(b"--xYz--\r\n", b"") + body, FORM_TYPE),
            )
    refused(
        harness,
        ask(
            route,
            form(part(name, good)),
            'Content-Type: multipart/form-data; a="; boundary=no"; boundary=xYz',
        ),
    )
    refused(harness, ask(route, b"model=bad", "Content-Type: application/x-www-form-urlencoded"))
    refused(harness, ask(route, b"model=bad"))
    for query in ("model=bad", "Model=bad", "model=good&model=bad", "x=1;model=bad"):
        refused(harness, ask(route, form(part(name, good)), FORM_TYPE, query=query))
    assert not names_upstream(harness)
    answer = serve(harness, ask(route, form(part("file", "x"), part(name, good)), FORM_TYPE))
    assert status(answer) in (200, 403), answer


@by_name(FORM_ROWS)
def test_json_in_place_of_a_form_is_read_as_strictly(harness: WebServerHarness, route: Route) -> None:
    paths = [(route.models.form_part, *path) for path in route.models.paths] or [("model",)]
    for path in paths:
        for document in hostile_documents(path):
            refused(harness, ask(route, document, JSON_TYPE))
        assert status(serve(harness, ask(route, members(path, ('"KEY"', GOOD)), JSON_TYPE))) in (200, 403)
    assert "bad" not in names_upstream(harness)


QUERY_ROWS: Final = [route for route in ROWS if route.models.in_query]


@by_name(QUERY_ROWS)
@pytest.mark.parametrize("key", ["key-plain", "key-limited"])
@pytest.mark.parametrize(
    "query", ["model=good&model=bad", "model=good&mod%65l=good", "%6dodel=bad&model=good"]
)
def test_a_query_that_says_its_model_twice_is_refused_for_everybody(
    harness: WebServerHarness, route: Route, key: str, query: str
) -> None:
    refused(harness, ask(route, b"v=0", "Content-Type: application/sdp", query=query, key=key))


UPGRADE: Final = (
    *("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
SESSIONS: Final = ["/v1/realtime", "/v1/realtime/translations", "/v1/responses/ws"]


def open_session(path: str, query: str, key: str) -> bytes:
    return get(f"{path}?{query}", *UPGRADE, f"Authorization: Bearer {key}", method="GET")


@pytest.mark.parametrize("path", SESSIONS)
def test_the_query_of_a_session_says_its_model_once(harness: WebServerHarness, path: str) -> None:
    for query in ("model=good&model=bad", "model=good&%6dodel=good"):
        for key in ("key-plain", "key-limited"):
            refused(harness, open_session(path, query, key))
    for query in ("model=good&Model=bad", "model=good;model=bad", "model=good&model[]=bad"):
        refused(harness, open_session(path, query, "key-limited"))
    serve(harness, open_session(path, "model=good", "key-limited"))
    assert len(harness.pipeline.endpoint.connections) == 1


def test_an_offer_of_a_call_passes_whose_query_names_the_model(harness: WebServerHarness) -> None:
    route = next(route for route in QUERY_ROWS if route.name == "realtime_calls_create")
    ask_for = partial(ask, route, b"v=0", "Content-Type: application/sdp")
    assert status(serve(harness, ask_for(query="model=good"))) == 200
    refused(harness, ask_for(query="model=bad"))
    assert "bad" not in names_upstream(harness)


@pytest.mark.parametrize("key", ["key-plain", "key-limited"])
def test_a_form_that_states_a_parameter_twice_is_refused_for_everybody(
    harness: WebServerHarness, key: str
) -> None:
    for route in FORM_ROWS:
        body = form(part("x", "good", 'form-data; name="{}"; name="model"'))
        refused(harness, ask(route, body, FORM_TYPE, key=key))


@pytest.mark.parametrize("key", ["key-plain", "key-limited"])
def test_a_list_of_models_is_renamed_each_time(harness: WebServerHarness, key: str) -> None:
    route = next(route for route in ROWS if route.name == "chat")
    serve(harness, ask(route, b'{"model":"good"}', JSON_TYPE, key=key))
    for number in range(4):
        document = b'{"model":"good","x":%d,"models":["good-alias","good-2"]}' % number
        assert status(serve(harness, ask(route, document, JSON_TYPE, key=key))) == 200
        sent = harness.pipeline.endpoint.connections[-1].received
        assert sent.endswith(b'"models":["good-target","good-2"]}')


def test_a_client_that_may_use_every_model_sends_what_it_likes(harness: WebServerHarness) -> None:
    route = next(route for route in ROWS if route.name == "chat")
    for document in (b'{"model":"good","Model":"bad"}', b'{"model":"a","x":1,"model":"bad"}'):
        answer = serve(harness, ask(route, document, "Content-Type: text/x-y", key="key-plain"))
        assert status(answer) == 200
        assert harness.pipeline.endpoint.connections[-1].received.endswith(document)
