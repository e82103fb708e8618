"""The shared files of AWS's tools: their dialect of INI, and which file counts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import process_time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.config.aws_profiles import (
    MAX_FILE_BYTES,
    AwsProfile,
    profile_named,
    read_profiles,
    read_shared_file,
    shared_files,
)

HOME: Final = {"HOME": "/h"}


def profiles_in(config: str = "", credentials: str = "") -> dict[str, dict[str, str]]:
    """What the two files say, by profile."""
    files = {"/h/.aws/config": config, "/h/.aws/credentials": credentials}
    found = read_profiles(HOME, lambda path: files[path].encode())
    return {
        name: {key: profile.get(key) or "" for key in (*profile.config, *profile.credentials)}
        for name, profile in found.items()
    }


def refused(config: str) -> str:
    with pytest.raises(ValueError, match=r"^/h/\.aws/config, line \d+: ") as refusal:
        profiles_in(config)
    return str(refusal.value).partition(", ")[2]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("[profile a]", {"a": {}}),
        ("[profile some-thing:long/the_one%only.a@b+]", {"some-thing:long/the_one%only.a@b+": {}}),
        ("[profile \ta \t]\n[profile\tb]", {"a": {}, "b": {}}),
        ("[profile 'two words']\nx = 1", {"two words": {"x": "1"}}),
        ("[profile a]\r\nx = 1\r\ny=2\r", {"a": {"x": "1", "y": "2"}}),
        ("[profile a]\nx = 1=2:3\nname \t=  \tvalue \t", {"a": {"x": "1=2:3", "name": "value"}}),
        ("[profile a]\nx : 1", {"a": {"x": "1"}}),
        ("[profile a]\nx =", {"a": {"x": ""}}),
        ("\ufeff[default]\nx = 1", {"default": {"x": "1"}}),
        ("\t \n[profile a]\n\t\n \nx = 1\n\t \n[profile b]\n \t", {"a": {"x": "1"}, "b": {}}),
        (
            "# c\n[profile a] # c\nx = 1 # c # d\n;\ny = 2 ;\n[profile b]; c",
            {"a": {"x": "1", "y": "2"}, "b": {}},
        ),
        ("[profile a]\nx = 1;2\ny = 1#2", {"a": {"x": "1;2", "y": "1#2"}}),
        ("[profile a]\nx = 1\n -2\n -3 # c", {"a": {"x": "1\n-2\n-3 # c"}}),
        ("[profile a]\n  x = 1\n  y = 2\n", {"a": {"x": "1", "y": "2"}}),
        ("[profile a]\ns3 =\n  x = 1\n\n  y = 2\nz = 3", {"a": {"s3": "\nx = 1\ny = 2", "z": "3"}}),
        ("[profile a]\nX = 1\n[profile b]\n[profile a]\nx = 2\nY = 3", {"a": {"x": "2", "y": "3"}, "b": {}}),
        ("[profile default]\nx = 1\n[default]\ny = 2", {"default": {"x": "1"}}),
        ("[default]\ny = 2\n[profile default]\nx = 1", {"default": {"x": "1"}}),
        ("[a]\nx = 1\n[sso-session b]\nx = 1\n[services c]\nx = 1\n[profile]\nx = 1\n[profilex]\n", {}),
        ("[profile in valid]\nx = 1\n[profile 'b]\nx = 1", {}),
    ],
)
def test_a_config_file_has_the_profiles_that_its_sections_name(
    text: str, found: dict[str, dict[str, str]]
) -> None:
    assert profiles_in(text) == found


@pytest.mark.parametrize("name", ["a" * 100_000, "'" + "a" * 100_000 + "'", '"' + '\\"' * 50_000])
def test_a_header_that_is_far_too_long_names_no_profile(name: str) -> None:
    begun = process_time()
    assert profiles_in(f"[profile {name}]\nx = 1\n[profile b]\ny = 2") == {"b": {"y": "2"}}
    assert process_time() - begun < 0.1  # a name takes more than time in proportion


def test_a_credentials_file_names_profiles_without_a_prefix() -> None:
    found = profiles_in("", "[a]\nx = 1\n[default]\ny = 2\n[profile b]\nz = 3\n[ c ]")
    assert found == {"a": {"x": "1"}, "default": {"y": "2"}, "profile b": {"z": "3"}, "c": {}}


def test_a_profile_has_the_settings_of_both_files_and_the_credentials_file_wins() -> None:
    found = profiles_in("[profile a]\nx = 1\ny = 1\n[profile b]", "[a]\ny = 2")
    assert found == {"a": {"x": "1", "y": "2"}, "b": {}}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1", "line 1: expected the name of a profile in brackets"),
        ("\n  -more", "line 2: expected the name of a profile in brackets"),
        ("[profile a", "line 1: expected ] behind the name of a profile"),
        ("[profile a] b", "line 1: expected ] behind the name of a profile"),
        ("[profile a]\n= 1", "line 2: expected a setting as name = value"),
        ("[profile a]\ncanary-7f3a91", "line 2: expected a setting as name = value"),
        ("[profile a]\nx = 1\n[profile a]\n  -more", "line 4: expected a setting as name = value"),
    ],
)
def test_a_line_of_another_format_is_named_and_never_quoted(text: str, said: str) -> None:
    assert refused(text) == said


def test_a_file_that_is_no_text_is_named() -> None:
    with pytest.raises(ValueError, match=r"^/h/\.aws/credentials is not a text file in UTF-8$"):
        read_profiles(HOME, lambda _: b"\xff\xfe")


def test_the_files_are_those_that_the_environment_names() -> None:
    assert shared_files({}) == ("/.aws/credentials", "/.aws/config")
    assert shared_files(HOME) == ("/h/.aws/credentials", "/h/.aws/config")
    named = {"AWS_SHARED_CREDENTIALS_FILE": "/run/c", "AWS_CONFIG_FILE": "~/aws.ini", **HOME}
    assert shared_files(named) == ("/run/c", "/h/aws.ini")


def test_a_file_that_is_missing_is_no_fault_and_one_that_cannot_be_read_is(tmp_path: Path) -> None:
    file = tmp_path / "config"
    environ = {"AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none" / "x"), "AWS_CONFIG_FILE": str(file)}
    assert read_profiles(environ, read_shared_file) == {}
    file.write_text("[default]\nregion = us-east-1\n")
    assert read_profiles(environ, read_shared_file)["default"].get("region") == "us-east-1"
    file.write_bytes(b"#" * (MAX_FILE_BYTES + 1))
    with pytest.raises(ValueError, match=f"cannot be read: larger than {MAX_FILE_BYTES} bytes"):
        read_profiles(environ, read_shared_file)
    file.unlink()
    file.mkdir()
    with pytest.raises(ValueError, match="expected a file, found a directory"):
        read_profiles(environ, read_shared_file)


def test_a_missing_profile_is_told_with_its_places_and_the_nearest_name() -> None:
    environ = {"HOME": "/h", "AWS_CONFIG_FILE": "/etc/aws"}
    places = r"\(\[NAME\] in /h/.aws/credentials or \[profile NAME\] in /etc/aws\)"
    profiles = {name: AwsProfile(name) for name in ("production", "staging")}
    assert profile_named("staging", profiles, environ).name == "staging"
    with pytest.raises(
        ValueError, match=rf"^no profile of AWS is named 'prodution' {places}, did you mean production\?$"
    ):
        profile_named("prodution", profiles, environ)
    with pytest.raises(ValueError, match=rf"^no profile of AWS is named 'x' {places}$"):
        profile_named("x", profiles, environ)


def test_no_repr_shows_what_stands_in_a_profile() -> None:
    profile = AwsProfile("a", {"aws_secret_access_key": "canary"}, {"x": "canary"})
    assert "canary" not in repr(profile)


NAMES: Final = st.sampled_from(["a", "b", "default", "x_y"])
VALUES: Final = st.text("abc=:/+ []'\"%", max_size=8).map(str.strip).filter(bool)
LINES: Final = st.one_of(
    st.builds("{} = {}".format, st.sampled_from(["region", "Role_Arn", "x"]), VALUES),
    st.builds("{}={}".format, st.sampled_from(["region", "x"]), VALUES),
    st.builds("  {}".format, st.sampled_from(["more", "k = v"])),
    st.sampled_from(["", "  ", "# comment", "; comment", "  # comment"]),
)


def _section(header: str, lines: list[str]) -> str:
    return "\n".join([f"[{header}]", "first = 1", *lines])


def _name(line: str) -> str:
    return line.partition("=")[0].strip().lower()


CONFIGS: Final = st.dictionaries(NAMES, st.lists(LINES, max_size=6, unique_by=_name), max_size=4)


def _by_botocore(config: str, credentials: str, folder: Path) -> Mapping[str, Any]:  # Any: blocks and texts
    loader = pytest.importorskip("botocore.configloader")
    (folder / "config").write_text(config)
    (folder / "credentials").write_text(credentials)
    profiles: dict[str, Any] = loader.load_config(str(folder / "config"))["profiles"]
    for name, settings in loader.raw_config_parse(str(folder / "credentials")).items():
        profiles.setdefault(name, {}).update(settings)  # as a session does it
    return profiles


@given(config=CONFIGS, credentials=CONFIGS)
def test_files_mean_what_they_mean_to_botocore(
    config: dict[str, list[str]], credentials: dict[str, list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    headers = {name: name if name == "default" else f"profile {name}" for name in config}
    texts = (
        "\n".join(_section(headers[name], lines) for name, lines in config.items()),
        "\n".join(_section(name, lines) for name, lines in credentials.items()),
    )
    expected = _by_botocore(*texts, tmp_path_factory.mktemp("aws"))
    found = profiles_in(*texts)
    assert found.keys() == expected.keys()
    for name, settings in expected.items():
        for key, value in settings.items():
            if isinstance(value, str):  # blocks say nothing of credentials
                assert found[name][key] == "\n".join(line for line in value.split("\n") if line)


@pytest.mark.parametrize("text", ["[default]\n" + "x = 1\n" * 100_000, "[default]\nx =\n" + " y\n" * 200_000])
def test_a_large_file_is_read_in_a_time_proportional_to_it(text: str) -> None:
    assert set(profiles_in(text)) == {"default"}
