"""What the log says of a key that has changed."""

from __future__ import annotations

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.clients.key_changes import describe_key_change, key_changes
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file


def key_of(*settings: str, key: str = "a", name: str = "bob") -> NamedKeySettings:
    text = "\n".join([f"sha256: '{sha256(key.encode()).hexdigest()}'", *settings])
    return parse_key_file(text, name, f"{name}.yaml", None)[0]


PREVIOUS = f"previous: {{sha256: '{'b' * 64}', expires: 2037-01-01}}"
CHANGES = {
    "disabled: true": "disabled",
    "expires: 2037-03-31": "expires",
    "limits: [{requests: 5, per: day}]": "limits",
    "requests_per_minute: 5": "limits",
    "models: [gpt-a]": "models",
    "groups: [ops]": "groups",
    "tags: {team: nlp}": "tags",
    "priority: batch": "priority",
    PREVIOUS: "previous key",
}


@pytest.mark.parametrize(("setting", "what"), CHANGES.items(), ids=CHANGES.values())
def test_each_setting_that_changes_is_named(setting: str, what: str) -> None:
    plain, other = key_of(), key_of(setting)
    assert describe_key_change(plain, other) == f"changed ({what})"
    back = "enabled" if what == "disabled" else what
    assert describe_key_change(other, plain) == f"changed ({back})"


def test_every_setting_of_a_key_file_is_looked_at() -> None:
    """A setting that nobody looks at would be a change without a line."""
    seen = {setting.partition(":")[0] for setting in CHANGES}
    no_part_of_it = {"name", "key", "key_env", "position", "sha256"}
    limits = {"tokens_per_minute", "max_in_flight"}
    assert set(NamedKeySettings.model_fields) - no_part_of_it - limits == seen


def test_a_rotation_is_told_without_its_previous_key() -> None:
    after = key_of(PREVIOUS, "disabled: true", key="b")
    assert describe_key_change(key_of(), after) == "changed (rotated, disabled)"


@given(
    st.lists(st.sampled_from(sorted(CHANGES)), unique_by=lambda one: CHANGES[one]),
    st.sampled_from(["a", "b"]),
)
def test_nothing_of_a_key_is_shown(settings: list[str], key: str) -> None:
    before, after = key_of(), key_of(*settings, key=key)
    told = describe_key_change(before, after)
    if not settings and key == "a":
        assert told is None
    else:
        assert told is not None
        words = set(told.removeprefix("changed (").removesuffix(")").split(", "))
        expected = {CHANGES[one] for one in settings}
        assert words == (expected if key == "a" else (expected - {"previous key"}) | {"rotated"})


def test_keys_that_appear_go_or_stay() -> None:
    before = {name: key_of(name=name) for name in ("stays", "goes", "changes")}
    after = {"new": key_of(name="new"), "stays": key_of(name="stays"), "changes": key_of("tags: {a: b}")}
    assert list(key_changes(before, after)) == [
        ("goes", "removed"),
        ("new", "added"),
        ("changes", "changed (tags)"),
    ]
