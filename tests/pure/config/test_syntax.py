"""What is said of a text that is no YAML: the mistake, and the line that it stands on."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from mgw.app.check import reader_of
from mgw.config.problems import ConfigError

MAIN = "providers:\n  main:\n"
QUOTE = "the quote that opens here is not closed on this line"
TAB = "this line is indented with a tab, and YAML allows only spaces"
DEEPER = "this line is indented more than the one above it, which already has a value"
NO_LEVEL = "the indentation of this line does not match any line above it"
NO_COLON = 'expected "key: value", found no colon followed by a space'
BRACKET = "the [ or { that opens here is not closed"


def said_of(folder: Path, content: bytes) -> list[str]:
    file = folder / "mgw.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigError) as refusal:
        reader_of(str(file))()
    return [str(problem).removeprefix(f"{file}:") for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("providers:\n\tmain: {kind: openai}\n", 2, TAB),
        (f"{MAIN}\t\tkind: openai\n", 3, TAB),
        (f"{MAIN}    kind: openai\n  \tbase_url: http://h/v1\n", 4, TAB),
        (f'{MAIN}    kind: "openai\n    base_url: "https://h/v1"\n', 3, QUOTE),
        (f"{MAIN}    kind: 'openai\n    base_url: https://h/v1\n", 3, QUOTE),
        (f"{MAIN}    kind: 'openai\n    api_key: 'k'\n    auth: bearer\n", 3, QUOTE),
        (f'listen: ":8787\n{MAIN}    kind: openai\n', 1, QUOTE),
        (f"{MAIN}    kind: openai\n      base_url: https://h/v1\n", 4, DEEPER),
        (f"{MAIN}    kind: openai\n\n      auth: bearer\n", 5, DEEPER),
        ("providers:\n    main: {kind: openai}\n  claude: {kind: anthropic}\n", 3, NO_LEVEL),
        ("listen: ':1'\n providers:\n  main: {}\n", 2, NO_LEVEL),
        (f"{MAIN}    kind openai\n    base_url: https://h/v1\n", 3, NO_COLON),
        (f"{MAIN}    kind: openai\n    base_url:https://h/v1\n", 4, 'put a space after "base_url:"'),
        (f"{MAIN}    base_url: a: b\n", 3, 'a second ": " on one line: put the value in quotes'),
        ("providers: {main: {kind: openai}\nlisten: ':1'\n", 1, BRACKET),
        (f"{MAIN}    models: [a, b\n    kind: openai\n", 3, BRACKET),
        ("aliases: {a: main/b]\n", 1, 'expected "," or the closing bracket of a list or mapping'),
        ('listen: "x" y\n', 1, "unexpected text after the end of a value: put the whole value in quotes"),
        ("listen: @x\n", 1, "a value that begins with @, ` or % needs quotes"),
        ("listen: *:8787\n", 1, "a value that begins with * needs quotes"),
        ("listen: *all\n", 1, "an alias without an anchor: a value that begins with * needs quotes"),
        ("providers: - main\n", 1, 'a list must begin on the line below its key, with "- "'),
        ('listen: "\\d"\n', 1, "an escape sequence that YAML does not know: use single quotes"),
        ("a: 1\n---\nb: 2\n", 2, "a second document begins here: only one is allowed"),
        ("a: 1\nb\nc: 1\n", 2, NO_COLON),
        ("providers:\n  main\n    kind: openai\n", 2, NO_COLON),
        (f"{MAIN}    kind: openai\nlisten\n  ':1': 2\n", 4, NO_COLON),
    ],
)
def test_a_syntax_error_is_told_where_it_was_made(tmp_path: Path, text: str, line: int, said: str) -> None:
    assert said_of(tmp_path, text.encode()) == [f"{line}: not YAML: {said}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("# ä\nlisten: ':1'\n".encode("latin-1"), "1: not YAML: a character that is not valid UTF-8"),
        (
            "a: 1\nb: é\n".encode("cp1252"),
            "2: not YAML: a character that is not valid UTF-8 (is the file",
        ),
        ("listen: ':1'\n".encode("utf-16"), "1: not YAML: the file is encoded as UTF-16: save it as UTF-8"),
        (
            "listen: ':1'\n".encode("utf-16-le"),
            "1: not YAML: the file is encoded as UTF-16: save it as UTF-8",
        ),
        (codecs.BOM_UTF16_BE + "a: 1".encode("utf-16-be"), "1: not YAML: the file is encoded as UTF-16"),
    ],
    ids=["latin-1", "cp1252", "utf-16", "without a mark", "big-endian"],
)
def test_another_encoding_is_called_by_its_name(tmp_path: Path, content: bytes, said: str) -> None:
    (found,) = said_of(tmp_path, content)
    assert found.startswith(said)


def test_a_byte_order_mark_of_utf_8_is_no_mistake(tmp_path: Path) -> None:
    file = tmp_path / "mgw.yaml"
    file.write_text("providers: {main: {kind: openai}}\n", encoding="utf-8-sig")
    assert list(reader_of(str(file))().providers) == ["main"]


PROVIDER = "providers.main: expected a mapping such as {kind: openai, api_key_env: OPENAI_API_KEY}"
REST = "\ndefaults: {openai_dialect: main}\naliases: {fast: main/x}\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "providers:\n  - main: {kind: openai}",
            "providers: expected a mapping of names such as {main: {kind: openai, api_key_env: OPENAI_API",
        ),
        ("providers: main", "providers: expected a mapping of names such as {main"),
        ("provider: {main: {kind: openai}}", "provider: unknown key, did you mean providers?"),
        ("providers: {main: openai}", f"{PROVIDER}, found a string"),
        (
            "providers:\n  main:\n    kind:openai",
            f'{PROVIDER}, found a string (put a space after "kind:")',
        ),
        ("providers: {main: {knd: openai}}", "providers.main.knd: unknown key, did you mean kind?"),
        (
            "providers: {main: {kind: openai, auth: bearer, api_kye: x}}",
            "providers.main.api_kye: unknown key, did you mean api_key?",
        ),
        (
            "providers: {main: {kind: openai_compat, base_ulr: 'http://h/v1'}}",
            "providers.main.base_ulr: unknown key, did you mean base_url?",
        ),
        (
            "providers: {main: {kind: openai}}\nedge_auth: {enabled: true, kyes: [a]}",
            "edge_auth.kyes: unknown key, did you mean keys?",
        ),
        (
            "providers: {main: {kind: openai}}\ntls: {cert_fil: /a, key_file: /b}",
            "tls.cert_fil: unknown key, did you mean cert_file?",
        ),
        (
            "providers: {main: {kind: openai}}\nhooks: {jsonl: {outptu: stdout}}",
            "hooks.jsonl.outptu: unknown key, did you mean output?",
        ),
        (
            "providers: {main: {kind: openai}}\ntranslation: {models: [{match: a, famly: openai}]}",
            "translation.models.0.famly: unknown key, did you mean family?",
        ),
        (
            "providers: {main: {kind: openai}}\nedge_auth: true",
            "edge_auth: expected a mapping such as {enabled: true",
        ),
        (
            "providers: {main: {kind: opnai}}",
            "providers.main.kind: unknown value 'opnai', did you mean openai?",
        ),
    ],
)
def test_one_mistake_is_one_error(tmp_path: Path, text: str, said: str) -> None:
    (found,) = said_of(tmp_path, (text + REST).encode())
    assert found.partition(": ")[2].startswith(said)
