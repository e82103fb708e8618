"""What a provider says of an error is shown without credentials, escaped, and no more than its beginning."""

from __future__ import annotations

import json
import time
from base64 import b64encode, urlsafe_b64encode
from unicodedata import category
from urllib.parse import quote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mgw.nouns.secret import REDACTED, Secret
from mgw.usage.error_message import MAX_CHARACTERS, format_error_message

SECRET = "canary~key~7f3a91"
WILD = st.text(
    st.sampled_from('a \n\x00\x1b\x85\u202e\u2028\u2066\ud800\U000e0001é你\\"\u3000') | st.characters()
)


def shown(text: str, *secrets: str) -> str | None:
    return format_error_message(text, map(Secret, secrets))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Rate limit reached for gpt-5: try again in 2 s.",
            "Rate limit reached for gpt-5: try again in 2 s.",
        ),
        ("  a line\nand another\r\n", r"a line\nand another"),
        ("\x1b[31mred\x1b[0m \x00 \x9b", r"\x1b[31mred\x1b[0m \x00 \x9b"),
        ("left \u202eright\u2066 \u200b", r"left \u202eright\u2066 \u200b"),
        ("\u2028one\u2029 \u0085two", r"one\u2029 \x85two"),
        ("half \ud83d of a pair", r"half \ud83d of a pair"),
        ("上下文太长。\u3000请缩短 🙂", "上下文太长。\u3000请缩短 🙂"),
        ("", None),
        (" \n ", None),
    ],
    ids=[
        "plain",
        "lines",
        "control",
        "direction",
        "separators",
        "surrogate",
        "other scripts",
        "nothing",
        "blank",
    ],
)
def test_what_does_not_print_is_escaped(text: str, found: str | None) -> None:
    assert shown(text) == found


@pytest.mark.parametrize("more", [0, 1])
def test_the_first_300_characters_are_shown(more: int) -> None:
    text = "m" * (MAX_CHARACTERS + more)
    assert shown(text) == "m" * MAX_CHARACTERS + "…" * more


def test_an_escape_is_not_cut() -> None:
    assert shown("m" * (MAX_CHARACTERS - 3) + "\0") == "m" * (MAX_CHARACTERS - 3) + "…"
    assert shown("m" * (MAX_CHARACTERS - 4) + "\0") == "m" * (MAX_CHARACTERS - 4) + r"\x00"


@pytest.mark.parametrize(
    "text",
    [
        f"Incorrect API key provided: {SECRET}.",
        f"{SECRET}",
        f"x{SECRET}x",
        SECRET.replace("~", r"\u007e"),
        "Incorrect API key provided: sk-proj-canary~key~7f3a91 and canary~key~7f3a91",
    ],
)
def test_a_known_credential_is_overwritten_wherever_it_stands(text: str) -> None:
    found = shown(text, SECRET)
    assert found is not None
    assert "7f3a91" not in found
    assert REDACTED in found


@pytest.mark.parametrize("head", [295, 285, MAX_CHARACTERS])
def test_a_credential_at_the_end_of_what_is_shown_is_not_shown_in_part(head: int) -> None:
    text = f"{'m ' * (head // 2)}sk-canary7f3a91aaaaaaaaaaaaaaaaaa {SECRET}"
    found = shown(text, SECRET)
    assert found is not None
    assert "canary" not in found


@given(before=WILD, after=WILD, repeated=st.integers(1, 40))
@example(before="m" * 290, after="", repeated=1)
def test_it_is_never_long_never_controls_and_never_tells_the_secret(
    before: str, after: str, repeated: int
) -> None:
    found = shown((before + SECRET + after) * repeated, SECRET)
    assert found is not None
    assert len(found) <= MAX_CHARACTERS + 1
    assert SECRET not in found
    assert all(category(one) not in {"Cc", "Cf", "Cs", "Zl", "Zp"} for one in found)
    assert json.loads(json.dumps(found)) == found.encode().decode()


@pytest.mark.parametrize(
    "spelled",
    [
        quote(quote(SECRET.replace("~", "/"), safe=""), safe=""),
        f"x{quote(SECRET.replace('~', '/'), safe='')}x",
        SECRET.replace("~", "/").replace("c", r"\u0063"),
        SECRET.replace("~", "/").replace("c", r"\x63"),
        SECRET.replace("~", "/").replace("c", "%63"),
        SECRET.replace("~", "\u200b/"),
        *(b64encode(b"user:"[:n] + SECRET.replace("~", "/").encode()).decode() for n in range(5)),
        urlsafe_b64encode(b"\xff\xfe:" + SECRET.replace("~", "/").encode()).decode().rstrip("="),
    ],
)
def test_a_known_credential_is_overwritten_however_it_is_encoded(spelled: str) -> None:
    assert shown(f"Not a key: {spelled} Try another.", SECRET.replace("~", "/")) == (
        f"Not a key: {REDACTED} Try another."
    )


def test_words_that_spell_no_credential_stay() -> None:
    text = "The model gpt-5-mini-2025-08-07 does not exist: 100%25 of req_011CSHoEeqs5C35K2UUqR7Fy"
    assert shown(text, SECRET, "short", "another-credential-0123456789") == text


def test_a_hostile_message_is_read_at_once() -> None:
    secrets = [f"sk-test-{number:040}" for number in range(2000)]
    shown("", *secrets)
    for text in ("%25" * 2730, "\\u0025" * 1365, "QUJD" * 2048, "a/ " * 2730, "Zm9vYmFyZm9v " * 630):
        took = []
        for _ in range(3):  # a collection of all that the tests have left may fall into one
            before = time.process_time()
            shown(text, *secrets)
            took.append(time.process_time() - before)
        assert min(took) < 0.1
