"""A page of another origin in a real browser, before a gateway: what it may send and read, and what not."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from tests.browser.conftest import SECONDS
from tests.support.gateway import start_gateway
from tests.support.simulator import start_simulator

KEY: Final = "edge-canary-cors"
PAGE: Final = """<!doctype html><title>page</title><pre id="said"></pre><script>
const url = URL;
const key = KEY;
const chat = (body, headers) => fetch(url + "/v1/chat/completions", {
  method: "POST",
  headers: {"Content-Type": "application/json", "X-Stainless-Lang": "js", ...headers},
  body: JSON.stringify({model: "main/gpt-1", messages: [{role: "user", content: "Hello"}], ...body}),
});
const bearer = {Authorization: "Bearer " + key};
const asks = {
  whole: async () => (await (await chat({}, bearer)).json()).choices[0].message.content,
  stream: async () => (await (await chat({stream: true}, {"api-key": key})).text()).includes("[DONE]"),
  unauthorized: async () => (await (await chat({}, {})).json()).error.code,
  id: async () => (await chat({}, bearer)).headers.get("x-gateway-request-id")?.slice(0, 4),
  models: async () => (await fetch(url + "/v1/models", {headers: {"x-api-key": key}})).status,
  simple: async () => (await fetch(url + "/v1/nothing")).status,
  missing: async () => (await fetch(url + "/v1/nothing", {headers: {"x-api-key": key}})).status,
  metrics: async () => (await fetch(url + "/metrics", {headers: {"x-api-key": key}})).status,
  dashboard: async () => (await fetch(url + "/v1/dashboard/usage")).status,
  cookies: async () => (await fetch(url + "/v1/models", {credentials: "include"})).status,
};
(async () => {
  const said = {};
  for (const [name, ask] of Object.entries(asks)) {
    try { said[name] = await ask(); } catch (error) { said[name] = error.name; }
  }
  document.getElementById("said").textContent = JSON.stringify(said);
  document.title = "done";
})();
</script>"""


@contextmanager
def start_site(pages: list[str]) -> Iterator[str]:
    """Serve the last of these pages; yield the origin that it has."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = pages[-1].encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def shown(chromium: str, url: str, profile: Path) -> dict[str, Any]:  # Any: JSON
    """Return what a page has written once nothing of it is under way."""
    command = [
        *(chromium, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"),
        *("--disable-background-networking", "--disable-component-update", f"--user-data-dir={profile}"),
        *("--virtual-time-budget=20000", "--dump-dom", url),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr
    return dict(json.loads(html.unescape(found[1])))


def gateway_config(url: str, cors: str) -> str:
    return f"""
providers: {{main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}}}
defaults: {{openai_dialect: main}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
{cors}"""


REFUSED: Final = dict.fromkeys(
    (
        *("whole", "stream", "unauthorized", "id", "models", "simple", "missing"),
        *("metrics", "dashboard", "cookies"),
    ),
    "TypeError",
)
READ: Final = {
    "whole": "You said: Hello",
    "stream": True,
    "unauthorized": "invalid_api_key",
    "id": "req_",
    "models": 200,
    "simple": 401,
}


@pytest.mark.parametrize(
    ("cors", "expected"),
    [
        ("cors: {{origins: [{origin}]}}", REFUSED | READ),
        ('cors: {{origins: ["*"]}}', REFUSED | READ),
        ("cors: {{origins: [https://app.example.com]}}", REFUSED),
        ("", REFUSED),
    ],
    ids=["allowed", "any", "another", "none"],
)
def test_a_page_reads_what_its_origin_may(tmp_path: Path, cors: str, expected: dict[str, Any]) -> None:
    chromium = os.environ.get("MGW_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("neither chromium nor google-chrome is installed")
    pages: list[str] = []
    with start_simulator() as simulator, start_site(pages) as origin:
        text = gateway_config(simulator.url, cors.format(origin=origin))
        with start_gateway(text) as gateway:
            page = PAGE.replace("= URL", f"= {json.dumps(gateway.url)}")
            pages.append(page.replace("key = KEY", f"key = {json.dumps(KEY)}"))
            assert shown(chromium, origin, tmp_path) == expected
