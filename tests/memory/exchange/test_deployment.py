"""A model that the path names in place of the body: what becomes of the body's bytes."""

from __future__ import annotations

import gzip
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.exchange.deployment import name_in_json
from mgw.nouns.errors import GatewayError, Reason
from tests.memory.web.test_admission import upstream_heads
from tests.memory.web.test_keyless import UPGRADE, Client
from tests.support.pipelines import answered

PATH: Final = "/openai/deployments/{}/{}"
CONFIG: Final = """
providers:
  main: {kind: openai, api_key: sk-1}
  azure: {kind: azure_openai, base_url: "https://a.openai.azure.com/openai/v1", api_key: az-1}
  claude: {kind: anthropic, api_key: sk-ant-1}
defaults: {openai_dialect: main}
aliases: {fast: main/gpt-5, far: azure/gpt-6, other: claude/claude-x}
edge_auth: {enabled: true, keys: [edge, {name: few, key: edge-of-few, models: [main/gpt-5, fast]}]}
routes: {azure: true}
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"a":1}', b'{"model":"m","a":1}'),
        (b' {\n "a": 1}', b' {"model":"m",\n "a": 1}'),
        (b"{}", b'{"model":"m"}'),
        (b"{ }", b'{"model":"m" }'),
        (b'{"a":{"model":"x"}}', b'{"model":"m","a":{"model":"x"}}'),
        (b'{"model" : "x" , "a":1}', b'{"model" : "m" , "a":1}'),
        (b'{"model":7,"m\\u006fdel":null}', b'{"model":"m","m\\u006fdel":"m"}'),
        (b'{"model":["x"]}', b'{"model":"m"}'),
        (b'{"model":"m","a":1}', b'{"model":"m","a":1}'),
    ],
)
def test_a_model_is_replaced_or_put_in_first(body: bytes, expected: bytes) -> None:
    assert name_in_json(body, "m") == expected


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b"{", b"{'a':1}", b'{"a":1}{}', b"nul"])
def test_what_is_no_object_is_malformed(body: bytes) -> None:
    with pytest.raises(GatewayError) as refused:
        name_in_json(body, "m")
    assert refused.value.reason is Reason.MALFORMED


KEYS: Final = st.sampled_from(["model", "a", "mod el", "é"])
VALUES: Final = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=4,
)


PAIRS: Final = st.lists(st.tuples(KEYS, VALUES), max_size=4)


@given(PAIRS, st.text(min_size=1, max_size=6), st.sampled_from(["", " "]))
def test_the_model_is_the_one_and_everything_else_stays(
    pairs: list[tuple[str, Any]], model: str, blank: str
) -> None:
    members = f",{blank}".join(f"{json.dumps(key)}:{blank}{json.dumps(value)}" for key, value in pairs)
    named = name_in_json(f"{{{blank}{members}{blank}}}".encode(), model)
    found: list[tuple[str, Any]] = json.loads(named, object_pairs_hook=lambda pairs: pairs)
    assert {value for key, value in found if key == "model"} == {model}
    others = [(key, value) for key, value in dict(json.loads(named)).items() if key != "model"]
    assert others == [(key, value) for key, value in dict(pairs).items() if key != "model"]


def sent(
    path: str, body: bytes, *headers: str, key: str = "edge", kind: str = "application/json"
) -> tuple[str, bytes, Client]:
    """Return the target and the body that went upstream, of the same request sent three times."""
    client = Client(CONFIG)
    found = []
    for _ in range(3):
        client.connect("127.0.0.1")
        head = [f"POST {path} HTTP/1.1", "Host: gateway", f"api-key: {key}", f"Content-Type: {kind}"]
        lines = [*head, f"Content-Length: {len(body)}", *headers, "", ""]
        client.harness.send("\r\n".join(lines).encode() + body)
        connection = client.harness.pipeline.endpoint.connections[-1]
        upstream_head, _, upstream_body = connection.received.partition(b"\r\n\r\n")
        found.append((upstream_head.split(b" ")[1].decode(), upstream_body))
        connection.send(answered())
        connection.close()
        assert client.harness.received().startswith(b"HTTP/1.1 200 ")
    assert found[0] == found[1] == found[2]
    return *found[0], client


@pytest.mark.parametrize(
    ("model", "target", "upstream"),
    [
        ("fast", "/v1/embeddings", "gpt-5"),
        ("main%2Fgpt-5", "/v1/embeddings", "gpt-5"),
        ("gpt-9", "/v1/embeddings", "gpt-9"),
        ("far", "/openai/v1/embeddings?api-version=2024-10-21", "gpt-6"),
    ],
)
def test_a_request_goes_where_its_path_says(model: str, target: str, upstream: str) -> None:
    path = PATH.format(model, "embeddings") + "?api-version=2024-10-21"
    for body in (b'{"input":"a"}', b'{"model":"azure/other","input":"a"}'):
        found, upstream_body, client = sent(path, body)
        assert found == target
        expected = b'{"model":"%b","input":"a"}' % upstream.encode()
        assert upstream_body == expected
        assert {event.route for event in client.harness.observer.events} == {"embeddings"}
        assert client.harness.observer.lines[0] == ("POST", path.partition("?")[0], 200)


def test_a_version_in_the_query_stays_with_azure_and_other_parameters_stay() -> None:
    body = b'{"model":"%b","input":"a"}'
    for path, model, target in (
        ("/openai/v1/embeddings?api-version=preview", b"fast", "/v1/embeddings"),
        ("/openai/embeddings?a=b&api%2Dversion=1", b"fast", "/v1/embeddings?a=b"),
        ("/openai/v1/embeddings?api-version=preview", b"far", "/openai/v1/embeddings?api-version=preview"),
        ("/v1/embeddings?api-version=preview", b"fast", "/v1/embeddings?api-version=preview"),
    ):
        assert sent(path, body % model)[0] == target


def test_a_compressed_body_goes_on_without_its_coding() -> None:
    body = gzip.compress(b'{"model":"x","input":"a"}')
    _, found, client = sent(PATH.format("fast", "embeddings"), body, "Content-Encoding: gzip")
    assert found == b'{"model":"gpt-5","input":"a"}'
    assert not any(b"content-encoding" in head.lower() for head in upstream_heads(client.harness))


FORM: Final = "multipart/form-data; boundary=b"
FILE: Final = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\nmodel\r\n--b--\r\n'


def part(model: bytes) -> bytes:
    return b'--b\r\nContent-Disposition: form-data; name="model"\r\n\r\n' + model + b"\r\n"


@pytest.mark.parametrize("size", [0, 400_000])  # the larger ones are on disk
def test_a_form_names_the_model_too(size: int) -> None:
    file = FILE.replace(b"\r\n\r\nmodel", b"\r\n\r\n" + b"x" * size)
    path = PATH.format("fast", "audio/transcriptions")
    for body in (file, part(b"claude/x") + file):
        assert sent(path, body, kind=FORM)[1] == part(b"gpt-5") + file


def refused(path: str, body: bytes, *headers: str, key: str = "edge") -> dict[str, Any]:
    client = Client(CONFIG)
    client.connect("127.0.0.1")
    lines = [f"POST {path} HTTP/1.1", "Host: gateway", f"api-key: {key}", f"Content-Length: {len(body)}"]
    client.harness.send("\r\n".join([*lines, *headers, "", ""]).encode() + body)
    response = client.harness.received()
    assert not upstream_heads(client.harness)
    error: dict[str, Any] = client.harness.body()["error"]
    return error | {"status": int(response.split(b" ")[1])}


@pytest.mark.parametrize(("model", "status"), [("gpt-6", 404), ("far", 404), ("azure%2Fgpt-6", 404)])
def test_a_key_that_may_use_some_models_may_use_no_other_by_the_path(model: str, status: int) -> None:
    path = PATH.format(model, "embeddings")
    for body in (b'{"input":"a"}', b'{"model":"fast","input":"a"}'):
        assert refused(path, body, "Content-Type: application/json", key="edge-of-few")["status"] == status
    _, found, _ = sent(PATH.format("fast", "embeddings"), b'{"model":"far"}', key="edge-of-few")
    assert found == b'{"model":"gpt-5"}'


def test_errors_are_openais() -> None:
    json_type = "Content-Type: application/json"
    found = refused(PATH.format("fast", "chat/completions"), b"[]", json_type)
    assert (found["status"], found["type"]) == (400, "invalid_request_error")
    found = refused("/openai/nothing", b"{}", json_type, "anthropic-version: 2023-06-01")
    assert (found["status"], found["type"]) == (404, "invalid_request_error")
    found = refused(PATH.format("fast", "chat/completions"), b"{}", json_type, key="wrong")
    assert (found["status"], found["code"]) == (401, "invalid_api_key")
    form = f"Content-Type: {FORM}"
    found = refused(PATH.format("fast", "audio/transcriptions"), b"preamble\r\n" + FILE, form)
    assert (found["status"], found["param"]) == (400, "model")


def test_a_websocket_is_refused() -> None:
    for path, status in (("/openai/v1/responses", 426), ("/openai/realtime?deployment=fast", 404)):
        client = Client(CONFIG)
        response = client.ask("Host: gateway", "api-key: edge", *UPGRADE, path=path, method="GET")
        assert int(response.split(b" ")[1]) == status


def test_the_catalog_is_there() -> None:
    client = Client(CONFIG)
    for path in ("/openai/models?api-version=1", "/openai/v1/models"):
        client.ask("Host: gateway", "api-key: edge", path=path, method="GET")
        assert [entry["id"] for entry in client.harness.body()["data"]][:3] == ["fast", "far", "other"]
    client.ask("Host: gateway", "api-key: edge", path="/openai/v1/models/main%2Fgpt-5", method="GET")
    assert client.harness.body()["id"] == "main/gpt-5"
