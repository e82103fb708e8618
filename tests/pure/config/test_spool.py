"""Where request bodies wait, and how much of them."""

from __future__ import annotations

import pytest

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.config.settings import SpoolSettings

ONE = "providers: {main: {kind: openai}}\n"
GIB = 1024**3
PLAIN_BYTES = "expected a whole number of bytes above 0, without a unit (4 GiB is 4294967296)"


def spool_of(settings: str = "", **environ: str) -> SpoolSettings:
    return parse(ONE + settings, "mgw.yaml", environ).spool


def said_of(settings: str) -> str:
    with pytest.raises(ConfigError) as refusal:
        spool_of(f"spool:\n  {settings}\n")
    (problem,) = refusal.value.problems
    return str(problem)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        (
            {"STATE_DIRECTORY": "/var/lib/gw", "XDG_STATE_HOME": "/state", "HOME": "/home/a"},
            "/var/lib/gw/spool",
        ),
        ({"STATE_DIRECTORY": "/var/lib/gw:/var/lib/other"}, "/var/lib/gw/spool"),
        ({"XDG_STATE_HOME": "/state", "HOME": "/home/a"}, "/state/mgw/spool"),
        ({"HOME": "/home/a"}, "/home/a/.local/state/mgw/spool"),
        ({"HOME": "/"}, "/.local/state/mgw/spool"),
        ({"STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/home/a"}, "/home/a/.local/state/mgw/spool"),
        (
            {"STATE_DIRECTORY": "gw:/x", "XDG_STATE_HOME": "./state", "HOME": "/home/a"},
            "/home/a/.local/state/mgw/spool",
        ),
        ({"HOME": "~"}, "/var/lib/mgw/spool"),
        ({}, "/var/lib/mgw/spool"),
    ],
)
def test_bodies_wait_below_the_state_directory(environ: dict[str, str], folder: str) -> None:
    assert spool_of(**environ).dir == folder


def test_a_stated_folder_stands_over_the_environment() -> None:
    assert spool_of("spool: {dir: /srv/spool}", STATE_DIRECTORY="/var/lib/gw").dir == "/srv/spool"


def test_the_limits_have_defaults() -> None:
    spool = spool_of("spool: {dir: /s}")
    assert (spool.body_memory, spool.body_disk) == (GIB // 2, 4 * GIB)


def test_a_spool_made_by_hand_is_that_of_an_empty_environment() -> None:
    assert SpoolSettings() == spool_of()


def test_the_spool_is_as_written() -> None:
    text = "spool: {dir: '/srv/a spool', body_memory: 1, body_disk: 34359738368}"
    assert spool_of(text) == SpoolSettings(dir="/srv/a spool", body_memory=1, body_disk=32 * GIB)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("dir: spool", "dir: expected an absolute path (one that begins with /), found 'spool'"),
        ("dir: ~/spool", "dir: expected an absolute path (one that begins with /), found '~/spool'"),
        ("dir: ''", "dir: expected a string, found an empty string"),
        ("dir: 5", "dir: expected an absolute path, found the number 5"),
        ("dir:", "dir: expected an absolute path, found nothing"),
        (
            "body_disk: 4GiB",
            f"body_disk: {PLAIN_BYTES}, found a string (write 4294967296)",
        ),
        (
            "body_disk: 0",
            f"body_disk: {PLAIN_BYTES}, found the number 0",
        ),
        (
            "body_disk: true",
            f"body_disk: {PLAIN_BYTES}, found true",
        ),
        ("size: 5", "size: unknown key; allowed keys: dir, body_memory, body_disk, max_bytes"),
        (
            "body_dsk: 5",
            (
                "body_dsk: unknown key, did you mean body_disk? "
                "(allowed: dir, body_memory, body_disk, max_bytes)"
            ),
        ),
        ("max_bytes: 0", f"max_bytes: {PLAIN_BYTES}, found the number 0"),
    ],
)
def test_a_wrong_setting_is_told_what_was_expected(setting: str, said: str) -> None:
    assert said_of(setting) == f"mgw.yaml:3: spool.{said}"
