"""Laws of a directory of key files, on a real disk, with files that are drawn."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from mgw.cli.key_file import edit_settings, write_settings
from mgw.config.load import parse_key_file
from mgw.nouns.secret import Secret
from tests.memory.identity.test_keys_dir import Files, digest, text_of
from tests.support.laws import examples

NAMES = ("ann", "bob", "cyd")
VALID = tuple(text_of(key) for key in "xyz")
BROKEN = ("", "sha256: 1\n", "[", text_of("x", "nonsense: 1"))

steps = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from([*VALID, *BROKEN, None])), min_size=1, max_size=12
)


def expected(written: dict[str, str], in_force: dict[str, str]) -> dict[str, str]:
    """Return the keys in force after a look, by the texts that they are from.

    :param written: what the files contain.
    :param in_force: the same before the look.
    """
    found: dict[str, str] = {}
    for name in sorted(written):
        candidates = [written[name], in_force.get(name)]
        for text in candidates:
            if text in VALID and text not in found.values():
                found[name] = str(text)
                break
    return found


@examples(60)
@given(rounds=st.lists(steps, min_size=1, max_size=4))
def test_a_look_finds_what_is_valid_and_else_what_was(rounds: list[list[tuple[str, str | None]]]) -> None:
    with TemporaryDirectory() as folder:
        files, written, in_force = Files(Path(folder)), dict[str, str](), dict[str, str]()
        for changes in rounds:
            for name, text in changes:
                if text is None:
                    written.pop(name, None)
                    (files.path / f"{name}.yaml").unlink(missing_ok=True)
                else:
                    written[name] = text
                    files.write(name, text)
            before = dict(files.keys_dir.keys)
            change = files.look()
            in_force = expected(written, in_force)
            found = files.keys_dir.keys
            assert {name: key.sha256 for name, key in found.items()} == {
                name: Secret(digest("xyz"[VALID.index(text)])) for name, text in in_force.items()
            }
            assert set(change.gone) == before.keys() - found.keys()
            assert {key.name for key in change.changed} == {
                name for name in found if before.get(name) != found[name]
            }
            assert {key.name for key in change.changed} - change.before.keys() == found.keys() - before.keys()
            assert not files.look().changed


comments = st.sampled_from(["", "# a comment\n", "\n"])
texts = st.text("a'\"#: é", max_size=5).map("x{}x".format)
tags = st.dictionaries(st.text("ab", min_size=1), texts, max_size=2)


@given(
    before=st.lists(comments, min_size=5, max_size=5),
    stated=tags,
    edited=tags,
    disabled=st.none() | st.booleans(),
    is_block=st.booleans(),
)
def test_an_edit_is_what_it_says(
    before: list[str], stated: dict[str, str], edited: dict[str, str], disabled: bool | None, is_block: bool
) -> None:
    previous = f"sha256: {digest('p')}"
    parts = [
        write_settings({"sha256": digest("a")}),
        write_settings({"tags": stated}) if stated else "",
        f"previous:\n  {previous}\n  expires: 2030-01-01\n"
        if is_block
        else f"previous: {{{previous}, expires: 2030-01-01}}\n",
        "" if disabled is None else write_settings({"disabled": disabled}),
        "groups: [x,\n  y]\n",
    ]
    text = "".join(comment + part for comment, part in zip(before, parts, strict=True))
    whole = parse_key_file(text, "ann", "ann.yaml", None)[0]
    after = edit_settings(text, {"sha256": digest("b"), "previous": None, "disabled": True, "tags": edited})
    found = parse_key_file(after, "ann", "ann.yaml", None)[0]
    assert (found.sha256, found.previous, found.disabled) == (Secret(digest("b")), None, True)
    assert (found.tags, found.groups) == (edited, whole.groups)
    assert after.count("# a comment") == before.count("# a comment\n")
