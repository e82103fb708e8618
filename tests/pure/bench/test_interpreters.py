"""How the interpreters of a measurement are described: what is known of their builds, and what is not."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.interpreters import Facts, are_the_same, build_of, facts_of

PLAIN = Facts(
    implementation="CPython",
    version="3.11.7",
    prefix="/opt/python",
    program="/opt/python/bin/python3.11",
    library="/opt/python/lib/libpython3.11.so.1.0",
    flags="'--prefix=/opt/python' '--enable-shared' -Wsign-compare -DNDEBUG -g -fwrapv -O3 -Wall",
)
COMPILED = "GNU C11 12.2.0 -mtune=generic -march=x86-64 -g -O3 -std=c11 -fwrapv"


@pytest.mark.parametrize(
    ("flags", "described"),
    [
        pytest.param("'--enable-optimizations' '--with-lto'", "3.12.4 with PGO and LTO", id="both"),
        pytest.param("'--enable-optimizations'", "3.12.4 with PGO", id="optimized"),
        pytest.param("-O3 -fprofile-use -fprofile-correction -flto", "3.12.4 with PGO and LTO", id="flags"),
    ],
)
def test_a_build_that_says_how_it_was_configured_is_believed(flags: str, described: str) -> None:
    build = build_of(replace(PLAIN, version="3.12.4", flags=flags))
    assert (build.short, build.source) == (described, "its configuration")


@pytest.mark.parametrize(
    ("producers", "described"),
    [
        pytest.param((COMPILED,), "CPython 3.11.7 without PGO (its debug information)", id="neither"),
        pytest.param(
            (COMPILED, f"{COMPILED} -fprofile-use"),
            "CPython 3.11.7 with PGO (its debug information)",
            id="profiled",
        ),
        pytest.param(
            (f"{COMPILED} -fprofile-use -flto", "GNU GIMPLE 12.2.0 -O3 -fltrans"),
            "CPython 3.11.7 with PGO and LTO (its debug information)",
            id="both",
        ),
        pytest.param(
            (f"{COMPILED} -flto=auto",),
            "CPython 3.11.7 with LTO, without PGO (its debug information)",
            id="lto",
        ),
    ],
)
def test_the_debug_information_proves_either_answer(producers: tuple[str, ...], described: str) -> None:
    assert str(build_of(replace(PLAIN, producers=producers))) == described


def test_debians_build_is_known_by_its_changelog_since_nothing_else_of_it_says_so() -> None:
    said = "  * Enable LTO/PGO builds on some architectures.\n"
    build = build_of(replace(PLAIN, program="/usr/bin/python3.11", prefix="/usr", changelog=said))
    assert (build.pgo, build.lto, build.source) == (True, True, "the package's changelog")


def test_what_nobody_says_is_not_known_and_not_denied() -> None:
    build = build_of(PLAIN)
    assert build.pgo is None
    assert str(build) == "CPython 3.11.7, PGO not known (its configuration says nothing)"


def test_two_environments_of_one_interpreter_are_the_same() -> None:
    assert are_the_same(PLAIN, replace(PLAIN, flags="other"))
    assert not are_the_same(PLAIN, replace(PLAIN, program="/usr/bin/python3.11"))


def test_this_interpreter_can_be_asked() -> None:
    found = facts_of(Path(sys.executable))
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert Path(found.program).is_file()
    assert str(build_of(found)).startswith(f"{found.implementation} {found.version}")
