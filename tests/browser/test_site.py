"""The site of the documents in a browser, as `make site` builds it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.browser.conftest import ROOT, Run
from tests.documents.test_site import PAGES, build


class Handler(SimpleHTTPRequestHandler):
    """Serve files and say nothing."""

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder; yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def test_nothing_on_the_site_is_cut_off_and_code_is_copied_without_prompts(run: Run, tmp_path: Path) -> None:
    site = tmp_path / "site"
    built = build(ROOT, site)
    assert built.returncode == 0, built.stderr
    pages = sorted(f"/{page.relative_to(ROOT).with_suffix('.html').as_posix()}" for page in PAGES)
    with served(site) as url:
        run("site", url, MGW_PAGES=json.dumps(pages))
