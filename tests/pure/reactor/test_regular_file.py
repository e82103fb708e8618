"""Files that an operator names are regular, bounded, and never waited for."""

from __future__ import annotations

import ast
import os
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

import mgw
from mgw.config.load import MAX_FILE_BYTES, MAX_PRICE_FILE_BYTES, read_text
from mgw.config.settings import TlsSettings
from mgw.credentials import google_files
from mgw.credentials.google_files import read_google_file
from mgw.credentials.oauth2 import read_token
from mgw.credentials.token_request import TokenRequestError
from mgw.reactor.regular_file import MAX_CERTIFICATE_FILE, MAX_TOKEN_FILE, read_regular_file
from mgw.upstream.tls import client_context
from mgw.web.tls import Certificate
from tests.support.certificates import authority, issue

SOURCES: Final = Path(mgw.__file__).parent
OTHER_FILES: Final = MappingProxyType(
    {
        "bodies/file.py": "files of the gateway's own, without a name",
        "cli/auth.py": "a file or pipe that somebody names at the command line",
        "cli/completion.py": "files of the package",
        "cli/example.py": "files of the package",
        "cli/key_file.py": "a lock, a directory, and the new file that replaces a key file",
        "cli/running.py": "files of the kernel",
        "cli/tail.py": "/dev/null",
        "credentials/subscription/store.py": "a lock, a directory, and the new file that replaces the store",
        "dashboard/static.py": "files of the package",
        "identity/limit_file.py": "makes the database of the totals, and the lock of its process",
        "workers/forked_process.py": "/dev/null",
        "workers/worker_count.py": "files of the kernel",
        "workers/worker_state.py": "files of the kernel",
        "ops/heap.py": "a file of the kernel",
        "ops/logs.py": "twistd's --logfile, for writing",
        "reactor/regular_file.py": "the one place",
        "usage/old_batches.py": "files of an older version's own, in a directory for it alone",
        "usage/spool_database.py": "makes the database and its journal, in a directory for it alone",
        "usage/output.py": "an output, which may be a pipe and is opened without blocking",
        "usage/usage_table.py": "makes the database, and looks whether it is a regular file",
    }
)
"""Which modules open files in another way, and which files those are."""


USER: Final = b'{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}'
READERS: Final[dict[str, tuple[Callable[[str], object], bytes, int]]] = {
    "settings": (read_text, b"#", MAX_FILE_BYTES),
    "prices": (lambda path: read_text(path, MAX_PRICE_FILE_BYTES), b"#", MAX_PRICE_FILE_BYTES),
    "a token": (lambda path: read_token(path, "a token"), b"token", MAX_TOKEN_FILE),
    "credentials of Google": (read_google_file, USER, google_files.MAX_FILE_BYTES),
}
"""What reads a kind of file, what such a file begins with, and how large it may be."""


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def test_a_file_is_read_up_to_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 600_000)
    assert read_regular_file(path, 600_000) == b"x" * 600_000
    with pytest.raises(OSError, match="larger than 599999 bytes"):
        read_regular_file(path, 599_999)


@pytest.mark.parametrize("kind", READERS)
def test_a_file_of_the_largest_size_is_read_and_a_larger_one_is_not(tmp_path: Path, kind: str) -> None:
    read, begin, limit = READERS[kind]
    path = tmp_path / "file"
    path.write_bytes(begin.ljust(limit))
    read(str(path))
    path.write_bytes(begin.ljust(limit + 1))
    with pytest.raises((OSError, ValueError, TokenRequestError)):
        read(str(path))


def test_certificates_of_the_largest_size_are_read_and_larger_ones_are_not(tmp_path: Path) -> None:
    issued = issue(authority(tmp_path), "gateway.example")
    ours = TlsSettings(cert_file=str(issued.cert_file), key_file=str(issued.key_file))
    content = issued.cert_file.read_bytes()
    issued.cert_file.write_bytes(content.ljust(MAX_CERTIFICATE_FILE))
    client_context(ours.cert_file)
    Certificate.read(ours)
    issued.cert_file.write_bytes(content.ljust(MAX_CERTIFICATE_FILE + 1))
    with pytest.raises(OSError, match="larger than"):
        client_context(ours.cert_file)
    with pytest.raises(ValueError, match="larger than"):
        Certificate.read(ours)


def test_a_link_to_a_regular_file_is_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("text")
    (tmp_path / "link").symlink_to("file")
    assert read_regular_file(tmp_path / "link", 4) == b"text"


def test_a_pipe_that_nobody_writes_to_is_not_waited_for(pipe: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_regular_file(pipe, 4)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty", "/dev/ptmx"])
def test_a_device_is_not_read(device: str) -> None:
    with pytest.raises(OSError, match=r"not a regular file|No such"):
        read_regular_file(device, 4)


def test_a_socket_and_a_directory_are_not_read(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        with pytest.raises(OSError, match="not a regular file"):
            read_regular_file(tmp_path / "s", 4)
    with pytest.raises(IsADirectoryError):
        read_regular_file(tmp_path, 4)


def test_what_the_kernel_makes_up_has_no_size_and_is_read() -> None:
    assert b"Name:" in read_regular_file("/proc/self/status", 100_000)


def test_an_error_that_comes_while_a_file_is_read_names_it() -> None:
    with pytest.raises(OSError, match="Input/output") as caught:
        read_regular_file("/proc/self/mem", 100_000)
    assert caught.value.filename == "/proc/self/mem"


def opened(tree: ast.AST) -> Iterator[str]:
    """Yield the ways in which a module opens files by their paths."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        match node.func:
            case ast.Name("open"):
                yield "open"
            case ast.Attribute(_, ("read_bytes" | "read_text") as name):
                yield name
            case ast.Attribute(ast.Name("os" | "io"), "open"):
                yield "os.open"
            case ast.Attribute(ast.Call(ast.Name("Path")), "open"):
                yield "Path.open"


OPENING: Final = re.compile(r"\b(?:open|read_bytes|read_text)\b")
"""The words without which nothing is opened: few modules have one, and only those are parsed."""


def test_no_module_opens_a_configured_file_in_another_way() -> None:
    found = {
        str(path.relative_to(SOURCES))
        for path in SOURCES.rglob("*.py")
        if OPENING.search(text := path.read_text()) and any(opened(ast.parse(text)))
    }
    assert found == OTHER_FILES.keys(), "read it with mgw.reactor.regular_file, or say here what it is"
