"""What ``--check`` says of files that it cannot read, also when their names are keys in the wrong place."""

from __future__ import annotations

from os import mkfifo
from pathlib import Path

import pytest

from mgw.app.check import check
from mgw.config.load import parse, parse_profile
from mgw.config.problems import ConfigError
from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.nouns.secret import Secret

KEY = "sk-canary-7f3a91"


@pytest.mark.parametrize(
    "settings",
    [
        "providers: {KEY: {kind: openai}}",
        "providers: {KEY: {kind: openai, ca_file: /no/such/file}}",
        "providers: {main: {kind: openai, token_file: KEY}}",
        "providers: {main: {kind: openai, token_file: CorrectCanaryStaple}}",
        "providers: {main: {kind: openai, token_file: /run/KEY}}",
        "providers: {main: {kind: openai, ca_file: KEY}}",
        "providers: {main: {kind: gemini, models: [KEY]}}",
        "providers: {main: {kind: openai, base_url: 'https://host/KEY'}}",
        "providers: {main: {kind: openai}}\nlisten: 'KEY:80'",
        "providers: {main: {kind: openai}}\nlisten: 'unix:/run/KEY'",
        "providers: {main: {kind: openai}}\ntls: {cert_file: KEY, key_file: KEY}",
        "providers: {main: {kind: openai}}\nhooks: {jsonl: {output: /no/KEY}}",
        "providers: {main: {kind: openai}}\nspool: {dir: /proc/KEY}",
        "providers: {main: {kind: openai, models: [KEY]}}\nprices: {rows: [{model: gpt-5, input: 1}]}",
        "providers: {main: {kind: openai}}\naliases: {a: main/KEY}\nprices: {rows: [{model: a, input: 1}]}",
        "providers: {main: {kind: openai}}\nprices: {file: /no/KEY}",
        "providers: {main: {kind: openai}}\nprices: {rows: [{model: KEY, provider: KEY, input: KEY}]}",
        "providers: {main: {kind: openai}}\naliases: {KEY: main/m}",
        "providers: {main: {kind: openai}}\naliases: {KEY: nobody/m}",
        "providers: {main: {kind: openai}}\naliases: {KEY: [main/a, b]}",
        "providers: {main: {kind: openai}}\naliases: {KEY: main/a, KEY: main/b}",
        "providers: {main: {kind: openai}}\naliases: {a: KEY/m, b: KEY}",
        "providers: {main: {kind: openai, headers: {remove: [KEY], forward: [KEY]}}}",
        "providers: {main: {kind: openai, headers: {set: {KEY: a, key: b}}}}",
        "providers: {main: {kind: openai}}\nhooks: {webhook: {url: 'https://h/', headers: {KEY: a, key: b}}}",
        "providers: {main: {kind: openai}}\nhooks: {jsonl: {output: KEY/KEY}}",
        "providers: {main: {kind: openai}}\npublic_url: 'http://host/KEY'\nlisten: 'ssl:443:x=KEY'",
    ],
)
def test_check_repeats_no_key(settings: str, capsys: pytest.CaptureFixture[str]) -> None:
    check(lambda: parse(settings.replace("KEY", KEY).replace("key:", f"{KEY.upper()}:"), "mgw.yaml", {}))
    said = capsys.readouterr()
    assert said.out + said.err
    assert "canary" not in (said.out + said.err).lower()


PROFILE = "client_id: a\ntoken: {url: 'https://h/'}\n"


@pytest.mark.parametrize(
    "text",
    [
        PROFILE + "tools: {exact: {KEY: x, b: x}}",
        PROFILE + "headers: {set: {A: '{canary_7f3a91b2c4d5}'}}",
        PROFILE + "headers: {merge: {KEY: ['{canary_7f3a91b2c4d5}']}}",
        PROFILE + "account: {details: {'KEY ': [a]}}",
    ],
)
def test_what_is_wrong_with_a_profile_repeats_no_key(text: str) -> None:
    with pytest.raises(ConfigError) as failed:
        parse_profile(text.replace("KEY", KEY), "profile.yaml", {})
    assert "canary" not in str(failed.value).lower()


@pytest.mark.parametrize("state", ["nobody", "another profile", "lost"])
def test_check_repeats_no_key_in_the_place_of_an_account(
    state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    store = CredentialStore(tmp_path / "credentials" / "store.json")
    if state != "nobody":
        profile = "other" if state == "another profile" else "example"
        entry = StoredCredential(
            profile=profile, access_token=Secret("t"), created_at=0.0, is_lost=state == "lost"
        )
        store.update(lambda entries: entries.update({KEY: entry}))
    text = f"""
providers: {{main: {{kind: openai, auth: oauth2, oauth: {{credentials: {KEY}, profile: example}}}}}}
profiles: {{example: {{file: {tmp_path}/profile.yaml}}}}
credential_store: {store.path}
"""
    assert check(lambda: parse(text, "mgw.yaml", {})) == 0
    said = capsys.readouterr()
    assert "mgw auth login …" in said.out
    assert "canary" not in said.out + said.err


@pytest.mark.parametrize("hook", ["jsonl: {output: FILE}", "sqlite: {path: FILE}"])
def test_an_output_whose_name_is_too_long_is_told_in_one_line(
    hook: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "providers: {main: {kind: openai}}\nhooks: {" + hook.replace("FILE", "/x" * 3000) + "}"
    assert check(lambda: parse(text, "mgw.yaml", {})) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(" does not exist")
    assert len(line) < 500


def test_check_warns_of_a_setting_that_was_removed(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(lambda: parse("providers: {main: {kind: openai}}\nexpress: false\n", "mgw.yaml", {})) == 0
    assert "warning: mgw.yaml:2: express: removed, " in capsys.readouterr().out


TOKEN_FILES = {
    "token_file": "token_file: FILE",
    "oauth.subject_token_file": "auth: oauth2, oauth: {grant: token_exchange, token_url: 'https://h/t', "
    "client_id: c, subject_token_file: FILE}",
    "oauth.assertion_file": "auth: oauth2, oauth: {grant: jwt_bearer, token_url: 'https://h/t', "
    "assertion_file: FILE}",
}


@pytest.mark.parametrize(("where", "settings"), TOKEN_FILES.items(), ids=TOKEN_FILES)
def test_check_warns_of_a_token_file_that_will_not_be_read(
    where: str, settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def warnings_of(file: Path) -> list[str]:
        text = "providers: {main: {kind: openai, " + settings.replace("FILE", str(file)) + "}}"
        assert check(lambda: parse(text, "mgw.yaml", {})) == 0
        return [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]

    (tmp_path / "token").write_text("t")
    mkfifo(tmp_path / "pipe")
    warning, effect = f"warning: mgw.yaml:1: providers.main.{where}: ", "requests fail until it can be read"
    assert warnings_of(tmp_path / "token") == []
    assert warnings_of(tmp_path / "none") == [f"{warning}file not found; {effect}"]
    assert warnings_of(tmp_path) == [f"{warning}expected a file, found a directory; {effect}"]
    pipe = f"the file cannot be read: not a regular file; {effect}"
    assert warnings_of(tmp_path / "pipe") == [f"{warning}{pipe}"]


def test_check_warns_of_a_credential_store_that_no_login_could_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "profile.yaml").write_text(PROFILE)
    (tmp_path / "file").write_text("")
    store = tmp_path / "file" / "store.json"
    text = f"""
providers: {{main: {{kind: openai, auth: oauth2, oauth: {{credentials: a, profile: example}}}}}}
profiles: {{example: {{file: {tmp_path}/profile.yaml}}}}
credential_store: {store}
"""
    assert check(lambda: parse(text, "mgw.yaml", {})) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "credential_store" in line]
    reason = f"{store.parent} cannot be written to: {store.parent} is not a folder"
    assert said == [f"warning: mgw.yaml:4: credential_store: {reason}"]
