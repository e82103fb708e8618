"""Keys of an issuer that stand in a file: read again when it changes, and kept when it cannot be used."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mgw.clients.tokens.key_set import MAX_SET_BYTES
from mgw.exchange.offload import run_inline
from mgw.identity.jwks_file import JwksFile
from tests.support.deferreds import result_of
from tests.support.issuers import IssuerBench, IssuerLines, entry, ids_of, jwk, key_set


@pytest.fixture
def bench() -> IssuerBench:
    return IssuerBench()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(key_set(jwk("a")))
    return path


def replace(file: Path, content: bytes) -> None:
    """Write a new file and give it the name, as tools do."""
    beside = file.with_suffix(".new")
    beside.write_bytes(content)
    os.replace(beside, file)


def test_it_is_read_again_when_it_changes(bench: IssuerBench, file: Path) -> None:
    bench.begin(entry(jwks_file=str(file)))
    assert (bench.ids(), bench.changes) == ({"a"}, 1)
    bench.clock.pump([1.0] * 5)
    assert (len(bench.parsed), bench.changes) == (1, 1)
    replace(file, key_set(jwk("b")))
    bench.clock.advance(1)
    assert (bench.ids(), bench.changes) == ({"b"}, 2)
    file.write_bytes(key_set(jwk("c", "two"), jwk("d")))
    bench.clock.advance(1)
    assert bench.ids() == {"c", "d"}
    assert [document for _, document, _ in bench.told] == bench.parsed


def test_a_set_that_leaves_no_trace_is_found_if_it_comes_soon() -> None:
    asked: list[tuple[int, ...] | None] = []
    contents = [key_set(jwk(kid)) for kid in "aab"]

    def read(_: str, known: tuple[int, ...] | None) -> tuple[tuple[int, ...], bytes | None]:
        asked.append(known)
        return (1, 2), contents[len(asked) - 1] if known is None else None

    file = JwksFile("keys.json", run_inline, run_inline, read)
    found = [ids_of(result_of(file()).keys) for _ in range(5)]
    assert found == [{"a"}, {"a"}, {"b"}, {"b"}, {"b"}]
    assert asked == [None, None, None, (1, 2), (1, 2)]


def test_a_mounted_secret_is_followed_through_its_links(bench: IssuerBench, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "keys.json").write_bytes(key_set(jwk(name, name)))
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "keys.json").symlink_to("..data/keys.json")
    bench.begin(entry(jwks_file=str(tmp_path / "keys.json")))
    assert bench.ids() == {"one"}
    (tmp_path / "..new").symlink_to("two")
    os.replace(tmp_path / "..new", tmp_path / "..data")
    bench.clock.advance(1)
    assert bench.ids() == {"two"}


def spoil(file: Path) -> None:
    file.write_bytes(b'{"keys": [')


def empty(file: Path) -> None:
    file.write_bytes(b"")


def remove(file: Path) -> None:
    file.unlink()


def enlarge(file: Path) -> None:
    file.write_bytes(key_set(jwk("b")) + b" " * MAX_SET_BYTES)


def make_useless(file: Path) -> None:
    file.write_bytes(key_set({"kty": "oct", "k": "canary"}))


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def make_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


@pytest.mark.parametrize(
    "harm", [spoil, empty, remove, enlarge, make_useless, make_directory, make_pipe], ids=lambda f: f.__name__
)
def test_a_file_that_cannot_be_used_leaves_the_last_keys_for_ever(
    bench: IssuerBench, file: Path, harm: object
) -> None:
    bench.begin(entry(jwks_file=str(file), max_stale=60))
    with IssuerLines() as lines:
        assert callable(harm)
        harm(file)
        bench.clock.pump([1.0] * 59)
        assert len(lines) == 1
        assert lines[0].startswith("issuer corp: the keys could not be fetched: jwks_file ")
        assert "canary" not in lines[0]
        bench.clock.pump([1.0] * 300)
    assert bench.ids() == {"a"}
    assert [(s.succeeded, s.failed, s.age) for s in bench.feed.states()] == [(1, 1, 359.0)]
    if file.is_dir():
        file.rmdir()
    replace(file, key_set(jwk("b")))
    bench.clock.advance(1)
    assert bench.ids() == {"b"}


def test_what_is_as_it_was_before_it_was_spoiled_is_good_again(bench: IssuerBench, file: Path) -> None:
    bench.begin(entry(jwks_file=str(file)))
    spoil(file)
    bench.clock.advance(1)
    replace(file, key_set(jwk("a")))
    with IssuerLines() as lines:
        bench.clock.advance(1)
    assert lines == ["issuer corp: the keys could be fetched again"]
    assert [(s.succeeded, s.failed, s.age) for s in bench.feed.states()] == [(2, 1, 0.0)]
    assert bench.changes == 1


def test_a_file_that_comes_late_is_found(bench: IssuerBench, tmp_path: Path) -> None:
    file = tmp_path / "late.json"
    bench.begin(entry(jwks_file=str(file)))
    bench.clock.pump([1.0] * 100)
    assert bench.ids() is None
    file.write_bytes(key_set(jwk("a")))
    bench.clock.advance(1)
    assert bench.ids() == {"a"}


def test_who_asks_has_it_looked_at_now(bench: IssuerBench, file: Path) -> None:
    bench.begin(entry(jwks_file=str(file)))
    bench.clock.advance(0.5)
    replace(file, key_set(jwk("b")))
    assert bench.asks() == [0.5]
    assert bench.ids() == {"b"}
    assert bench.asks() is None
    bench.clock.advance(1)
    assert bench.asks() == [1.5]


def test_exactly_as_many_bytes_as_may_be_are_read(bench: IssuerBench, file: Path) -> None:
    document = key_set(jwk("b"))
    file.write_bytes(document + b" " * (MAX_SET_BYTES - len(document)))
    bench.begin(entry(jwks_file=str(file)))
    assert bench.ids() == {"b"}
