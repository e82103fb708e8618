"""Whoever repeats a secret of the gateway, its log does not show it: after a reload, and in workers."""

from __future__ import annotations

import json
import signal
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from mgw.credentials.subscription.store import CredentialStore, StoredCredential
from mgw.nouns.secret import Secret
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.google_keys import authorized_user, private_pem, service_account, write_json
from tests.support.raw_client import RawClient, asking, chat, request
from tests.support.raw_upstream import COMPLETION, JSON, RawUpstream, Turn, counted
from tests.support.waiting import WAIT_SECONDS

MAIN: Final = """
providers:
  main: {{kind: openai, base_url: "{url}/v1", api_key: sk-canary}}
"""
OTHERS: Final = """
  file: {{kind: openai_compat, base_url: "{url}/v1", auth: token_file, token_file: {folder}/token}}
  renewed:
    kind: openai_compat
    base_url: "{url}/v1"
    auth: oauth2
    oauth: {{token_url: "{url}/token", client_id: me, refresh_token: canary-rotated-0}}
  user: {{kind: openai_compat, base_url: "{url}/v1", auth: adc, service_account_file: {folder}/user.json}}
  robot:
    {{kind: openai_compat, base_url: "{url}/v1", auth: service_account,
     service_account_file: {folder}/robot.json}}
  account:
    kind: openai_compat
    base_url: "{url}/v1"
    auth: oauth2
    oauth: {{credentials: one, profile: example}}
profiles: {{example: {{file: {folder}/profile.yaml}}}}
credential_store: {folder}/credentials/store.json
"""
WORDS: Final = [
    *("canary-of-a-token-file", "canary-access-1", "canary-access-2"),
    *("canary-rotated-0", "canary-rotated-1", "canary-rotated-2"),
    *("canary-user-secret", "canary-user-refresh", "canary-profile-secret"),
    *("canary-store-access", "canary-store-refresh"),
]
_UNKNOWN: Final = b" sent the unknown finish reason "
TARGETS: Final = ("file", "renewed", "account")


def write_files(folder: Path) -> None:
    (folder / "token").write_text("canary-of-a-token-file")
    write_json(folder / "user.json", authorized_user())
    write_json(folder / "robot.json", service_account())
    (folder / "profile.yaml").write_text(
        "client_id: id\nclient_secret: canary-profile-secret\ntoken: {url: 'http://127.0.0.1:9/token'}\n"
    )
    entry = StoredCredential(
        profile="example",
        access_token=Secret("canary-store-access"),
        refresh_token=Secret("canary-store-refresh"),
        created_at=0.0,
    )
    CredentialStore(folder / "credentials" / "store.json").update(lambda entries: entries.update(one=entry))


class Provider:
    """An upstream that gives tokens, refuses the first of them, and ends responses with any word."""

    def __init__(self) -> None:
        self.word = "stop"
        self._tokens = 0

    def __call__(self, turn: Turn) -> None:
        if turn.target == "/token":
            self._tokens += 1
            number = self._tokens
            token = {"access_token": f"canary-access-{number}", "refresh_token": f"canary-rotated-{number}"}
            turn.send(counted(json.dumps(token).encode(), JSON))
        elif turn.value(b"authorization") == b"Bearer canary-access-1":
            turn.send(counted(b"{}", JSON, status=401))
        else:
            turn.send(counted(COMPLETION.replace(b'"stop"', json.dumps(self.word).encode()), JSON))


def has_lines(count: int, data: bytes) -> bool:
    return data.count(_UNKNOWN) >= count


def repeat_all(gateway: GatewayProcess, provider: Provider, words: list[str]) -> None:
    """Have a provider end responses with each word, and wait until the log has told of it."""
    before = gateway.stderr.data.count(_UNKNOWN)
    with RawClient(gateway.port) as client:
        for number, word in enumerate(words, start=before + 1):
            provider.word = word
            client.send(request(asking("main/gpt-1", max_tokens=9), path="/v1/messages"))
            assert client.read_response().status == 200
            gateway.stderr.wait_for(partial(has_lines, number), WAIT_SECONDS, f"line {number}")


@pytest.mark.parametrize("workers", ["", "workers: 1\n"], ids=["one process", "a worker"])
def test_no_line_shows_a_secret_of_a_file_or_a_token(
    workers: str, upstream: RawUpstream, tmp_path: Path
) -> None:
    write_files(tmp_path)
    provider = Provider()
    upstream.begin(provider)
    main = MAIN.format(url=upstream.url)
    config = f"{main}{OTHERS.format(url=upstream.url, folder=tmp_path)}{workers}listen: 127.0.0.1:0\n"
    words = [*WORDS, private_pem().splitlines()[3]]
    with start_gateway(config, {"HOME": str(tmp_path), "STATE_DIRECTORY": str(tmp_path)}) as gateway:
        with RawClient(gateway.port) as client:
            for target in TARGETS:
                client.send(chat(f"{target}/gpt-1"))
                assert client.read_response().status == 200, target
        repeat_all(gateway, provider, words)
        gateway.rewrite(f"{main}{workers}listen: 127.0.0.1:0\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 2\n")
        repeat_all(gateway, provider, words)
        said = gateway.stderr.data.decode()
        assert said.count("unknown finish reason '[redacted]'") == 2 * len(words)
        assert not [word for word in words if word in said]
