"""Keys that end: by time, by their files, by a reload; and what that does to requests in progress."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Final
from unittest.mock import patch

import pytest

from mgw.clients.client import named_client
from mgw.config.key_settings import NamedKeySettings
from mgw.config.load import parse_key_file
from mgw.usage.event import Outcome
from mgw.web.key_changes import KeyChanges
from tests.memory.web.test_admission import reload, serve, upstream_heads
from tests.memory.web.test_cancellation import (
    MOMENTS,
    STARTED,
    STREAM_HEAD,
    TRANSLATED,
    Late,
    check_nothing_is_left,
    queueing,
)
from tests.support.channels import post
from tests.support.configs import THREE_FAMILIES
from tests.support.exchanges import JSON, KEY
from tests.support.memory_sessions import LIVE, SessionHarness
from tests.support.pipelines import answered
from tests.support.web_servers import WebServerHarness, settled

CHAT: Final = "/v1/chat/completions"
BODY: Final = b'{"model":"gpt-b","messages":[{"role":"user","content":"hi"}],"max_tokens":9}'
KEYS: Final = """
edge_auth:
  enabled: true
  cut_revoked: {cut}
  keys:
    - plain-canary-0001
    - {{name: alice, key: alice-canary-0001, expires: "1970-01-01T00:10:00Z"}}
    - {{name: barred, key: off-canary-0001, disabled: true}}
    - name: rotated
      key: rotated-canary-0002
      previous: {{sha256: "{previous}", expires: "1970-01-01T00:05:00Z"}}
"""
BEFORE_ROTATION: Final = "rotated-canary-0001"
KEYLESS: Final = THREE_FAMILIES.replace("api_key: sk-main-0001, ", "")
"""The provider gets the credentials of clients."""
NEW_AND_KNOWN = pytest.mark.usefixtures("heads")


SPOKEN: Final = (
    b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
    b'[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}\n\n'
)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def digest(key: str) -> str:
    return sha256(key.encode()).hexdigest()


def config_text(*, cut: bool = False) -> str:
    return THREE_FAMILIES + KEYS.format(cut=str(cut).lower(), previous=digest(BEFORE_ROTATION))


def file_key(name: str, key: str, *further: str) -> NamedKeySettings:
    text = "\n".join([f"sha256: {digest(key)}", *further])
    return parse_key_file(text, name, f"{name}.yaml", None)[0]


class Harness(WebServerHarness):
    """A server with keys that change."""

    def __init__(self, *, cut: bool = False) -> None:
        super().__init__(config_text(cut=cut) + "stream_keepalive: {interval: 15}\n")
        self.expired: list[str] = []
        self.changes = KeyChanges(self.server, self.expired.append)
        self.changes.follow()


def ask(key: str) -> bytes:
    return post(BODY, f"Authorization: Bearer {key}", JSON, path=CHAT)


def status(response: bytes) -> int:
    return int(response.split(b" ")[1])


@NEW_AND_KNOWN
def test_a_key_is_valid_until_the_instant_at_which_it_expires() -> None:
    harness = Harness()
    for _ in range(3):
        assert status(serve(harness, ask("alice-canary-0001"))) == 200
    harness.unix_seconds = 599.999
    assert status(serve(harness, ask("alice-canary-0001"))) == 200
    harness.unix_seconds = 600.0
    response = serve(harness, ask("alice-canary-0001"))
    assert status(response) == 401
    assert b"invalid_api_key" in response
    assert b"this gateway key has expired" in response
    assert len(upstream_heads(harness)) == 4
    assert status(serve(harness, ask("plain-canary-0001"))) == 200


@NEW_AND_KNOWN
def test_a_clock_that_is_set_back_revives_no_key() -> None:
    harness = Harness()
    for _ in range(3):
        assert status(serve(harness, ask("alice-canary-0001"))) == 200
    harness.unix_seconds = 600.0
    harness.clock.advance(1)  # nobody asks while it is over
    harness.unix_seconds = 10.0
    assert status(serve(harness, ask("alice-canary-0001"))) == 401
    harness.server.use(harness.generation)  # nor does a reload
    assert status(serve(harness, ask("alice-canary-0001"))) == 401
    assert sorted(harness.expired) == ["key alice", "the previous key of rotated"]


def test_a_refusal_after_the_end_is_remembered_as_well() -> None:
    harness = Harness()
    harness.unix_seconds = 600.0
    assert status(serve(harness, ask("alice-canary-0001"))) == 401
    harness.unix_seconds = 10.0
    assert status(serve(harness, ask("alice-canary-0001"))) == 401


@NEW_AND_KNOWN
def test_the_key_before_a_rotation_is_valid_until_its_own_end() -> None:
    harness = Harness()
    for key in (BEFORE_ROTATION, "rotated-canary-0002"):
        assert status(serve(harness, ask(key))) == 200
    assert [event.client for event in harness.observer.events] == ["rotated"] * 2
    harness.unix_seconds = 300.0
    assert status(serve(harness, ask(BEFORE_ROTATION))) == 401
    assert status(serve(harness, ask("rotated-canary-0002"))) == 200
    harness.clock.advance(1)
    assert harness.expired == ["the previous key of rotated"]


@pytest.mark.parametrize(("end", "end_of_previous"), [(5, 60), (60, 5)])
def test_no_key_from_before_a_rotation_outlives_the_new_one(end: int, end_of_previous: int) -> None:
    harness = Harness()
    settings = [
        f"expires: 1970-01-01T00:00:{end - 1:02}Z",
        "previous:",
        f"  sha256: {digest('file-canary-0001')}",
        f"  expires: 1970-01-01T00:00:{end_of_previous - 1:02}Z",
    ]
    harness.changes.use([file_key("carol", "file-canary-0002", *settings)], ())
    for seconds in (0, 3, 10, 59):
        harness.unix_seconds = float(seconds)
        assert (status(serve(harness, ask("file-canary-0002"))) == 200) is (seconds < end - 1)
        is_valid = seconds < min(end, end_of_previous) - 1
        assert (status(serve(harness, ask("file-canary-0001"))) == 200) is is_valid
    harness.changes.use([file_key("carol", "file-canary-0002", "disabled: true", *settings[1:])], ())
    assert b"is disabled" in serve(harness, ask("file-canary-0001"))


def test_a_disabled_key_is_refused_with_a_sentence_and_counted() -> None:
    harness = Harness()
    response = serve(harness, ask("off-canary-0001"))
    assert status(response) == 401
    assert b"this gateway key is disabled" in response
    assert harness.observer.reasons == ["disabled"]


@NEW_AND_KNOWN
def test_keys_of_files_come_change_and_go() -> None:
    harness = Harness()
    assert status(serve(harness, ask("file-canary-0001"))) == 401
    harness.changes.use([file_key("carol", "file-canary-0001")], ())
    for _ in range(3):
        assert status(serve(harness, ask("file-canary-0001"))) == 200
    assert harness.observer.events[-1].client == "carol"
    harness.changes.use([file_key("carol", "file-canary-0001", "models: [nothing]")], ())
    assert status(serve(harness, ask("file-canary-0001"))) == 404
    harness.changes.use([file_key("carol", "file-canary-0001", "disabled: true")], ())
    assert b"is disabled" in serve(harness, ask("file-canary-0001"))
    harness.changes.use([file_key("carol", "file-canary-0001")], ())
    assert status(serve(harness, ask("file-canary-0001"))) == 200
    harness.changes.use((), ["carol"])
    assert b"has been removed" in serve(harness, ask("file-canary-0001"))
    assert harness.observer.reasons == ["key", "disabled", "revoked"]


def test_keys_of_files_outlive_a_reload_and_a_key_of_the_configuration_wins() -> None:
    harness = Harness()
    harness.changes.use([file_key("carol", "file-canary-0001"), file_key("alice", "other-canary-0001")], ())
    harness.server.use(harness.generation)
    assert status(serve(harness, ask("file-canary-0001"))) == 200
    assert status(serve(harness, ask("alice-canary-0001"))) == 200
    assert status(serve(harness, ask("other-canary-0001"))) == 401
    harness.changes.use((), ["alice"])
    assert status(serve(harness, ask("alice-canary-0001"))) == 200


def test_two_files_may_swap_their_keys_in_two_slices() -> None:
    harness = Harness()
    one, other = "first-canary-0001", "second-canary-0001"
    harness.changes.use([file_key("carol", one), file_key("zoe", other, "disabled: true")], ())
    harness.changes.use([file_key("carol", other)], ())
    harness.changes.use([file_key("zoe", one, "disabled: true")], ())
    assert status(serve(harness, ask(other))) == 200
    assert b"is disabled" in serve(harness, ask(one))
    harness.changes.use((), ["zoe"])
    assert status(serve(harness, ask(other))) == 200
    assert b"has been removed" in serve(harness, ask(one))


def test_no_file_takes_a_key_of_the_configuration() -> None:
    harness = Harness()
    for key in ("plain-canary-0001", "alice-canary-0001", BEFORE_ROTATION):
        harness.changes.use([file_key("carol", key, "disabled: true")], ())
        assert status(serve(harness, ask(key))) == 200
        harness.changes.use((), ["carol"])
        assert status(serve(harness, ask(key))) == 200


def test_a_reload_uses_the_clients_that_a_thread_has_made_of_files() -> None:
    harness = Harness()
    registry, settings = harness.server.registry, harness.generation.config.edge_auth
    harness.changes.use([file_key("carol", "carol-canary-0001"), file_key("zoe", "zoe-canary-00001")], ())
    registry.prepare(settings)
    harness.changes.use([file_key("zoe", "other-canary-0001")], ())  # meanwhile
    with patch("mgw.clients.client.named_client", wraps=named_client) as make:
        harness.server.use(harness.generation)
    made = [call.args[0].name for call in make.call_args_list]
    assert "carol" not in made
    assert made.count("zoe") == 1
    assert status(serve(harness, ask("carol-canary-0001"))) == 200
    assert status(serve(harness, ask("other-canary-0001"))) == 200
    assert status(serve(harness, ask("zoe-canary-00001"))) == 401


def test_clients_that_were_made_for_another_configuration_are_not_used() -> None:
    harness = Harness()
    harness.changes.use([file_key("carol", "carol-canary-0001")], ())
    other = harness.generation.config.edge_auth.model_copy(update={"timezone": "Asia/Tokyo"})
    harness.server.registry.prepare(other)
    harness.server.use(harness.generation)
    client = harness.server.gate.find_client(bytes.fromhex(digest("carol-canary-0001")))
    assert client is not None
    assert client.zone == "UTC"


@NEW_AND_KNOWN
@pytest.mark.parametrize("key", ["plain-canary-0001", "alice-canary-0001"])
def test_a_key_that_a_reload_takes_away_is_refused_and_never_goes_upstream(key: str) -> None:
    harness = Harness()
    assert status(serve(harness, ask(key))) == 200
    reload(harness, KEYLESS + "edge_auth: {enabled: true, keys: [other-canary-0001]}\n")
    response = serve(harness, ask(key))
    assert status(response) == 401
    assert b"this gateway key has been removed" in response
    for spelled in (key, key.replace("-", "%2D"), f"{key}:{key}"):
        assert not goes_upstream(harness, "other-canary-0001", spelled)
    assert goes_upstream(harness, "other-canary-0001", "sk-canary-of-the-client")


def goes_upstream(harness: Harness, key: str | None, own: str) -> bool:
    """Whether a credential beside a gateway key reaches the provider, which has no other."""
    before = len(upstream_heads(harness))
    authorization = () if key is None else (f"Authorization: Bearer {key}",)
    response = serve(harness, post(BODY, *authorization, f"x-api-key: {own}", JSON, path=CHAT))
    heads = upstream_heads(harness)[before:]
    assert status(response) == (200 if heads else 401)
    assert all(own.encode() in head for head in heads)
    return bool(heads)


@pytest.mark.parametrize("state", ["expires: 1970-01-01T00:00:01Z", "disabled: true", "gone"])
def test_no_ended_key_is_the_credential_of_a_client(state: str) -> None:
    """Not even without edge auth, or beside a key that is valid."""
    harness = Harness()
    reload(harness, config_text().replace(THREE_FAMILIES, KEYLESS))
    harness.changes.use([file_key("carol", "file-canary-0001", *([] if state == "gone" else [state]))], ())
    if state == "gone":
        harness.changes.use((), ["carol"])
    harness.unix_seconds = 2.0
    assert not goes_upstream(harness, "plain-canary-0001", "file-canary-0001")
    reload(harness, config_text().replace(THREE_FAMILIES, KEYLESS).replace("enabled: true", "enabled: false"))
    for spelled in ("file-canary-0001", "file%2Dcanary-0001"):
        assert not goes_upstream(harness, None, spelled)
    assert goes_upstream(harness, None, "sk-canary-of-the-client")


def cutting() -> Harness:
    """Return a server that cuts requests in progress, of whose keys one stands in a file."""
    harness = Harness(cut=True)
    harness.changes.use([file_key("carol", "edge")], ())
    return harness


def end_by_file(harness: Harness) -> None:
    harness.changes.use([file_key("carol", "edge", "disabled: true")], ())


def end_by_removal(harness: Harness) -> None:
    harness.changes.use((), ["carol"])


def end_by_time(harness: Harness) -> None:
    harness.changes.use([file_key("carol", "edge", "expires: 1970-01-01T00:00:02Z")], ())
    assert not harness.observer.events
    harness.unix_seconds = 2.0
    harness.clock.advance(1)


@pytest.mark.parametrize("end", [end_by_file, end_by_removal, end_by_time])
@pytest.mark.parametrize("moment", [moment for moment in MOMENTS if moment is not queueing])
def test_requests_in_progress_end_with_their_key(
    moment: Callable[[WebServerHarness], Late], end: Callable[[Harness], None]
) -> None:
    harness = cutting()
    late = moment(harness)
    end(harness)
    event = harness.event
    assert (event.status, event.error) == (Outcome.REJECTED, "revoked")
    if moment in STARTED:
        assert event.http_status == 200
        assert not harness.received().endswith(b"0\r\n\r\n")
        assert harness.transport.disconnecting or not harness.transport.connected
    else:
        assert harness.status() == event.http_status == 401
        assert b"this gateway key" in harness.received()
    check_nothing_is_left(harness, late)


def test_a_translated_stream_ends_with_an_error_event() -> None:
    harness = cutting()
    harness.send(post(TRANSLATED % b"true", KEY, JSON, path="/v1/messages"))
    harness.connection.send(STREAM_HEAD + chunk(SPOKEN))
    assert b"text_delta" in harness.received()
    end_by_removal(harness)
    assert b"event: error" in harness.received()
    assert b"authentication_error" in harness.received()
    assert b"has been removed" in harness.received()
    assert (harness.event.error, harness.event.http_status) == ("revoked", 200)
    check_nothing_is_left(harness, lambda: None)


def test_a_translated_stream_of_which_only_keep_alives_are_out_ends_with_an_error_event() -> None:
    harness = cutting()
    harness.send(post(TRANSLATED % b"true", KEY, JSON, path="/v1/messages"))
    harness.clock.pump([1.0] * 16)
    assert harness.received().startswith(b"HTTP/1.1 200 OK")
    end_by_removal(harness)
    assert b"authentication_error" in harness.received()
    assert (harness.event.error, harness.event.http_status) == ("revoked", 200)
    check_nothing_is_left(harness, lambda: None)


def test_a_request_whose_body_has_not_come_is_refused() -> None:
    harness = cutting()
    harness.channel.dataReceived(ask("edge")[:-10])
    end_by_removal(harness)
    assert harness.status() == 401
    assert harness.event.error == "revoked"


def test_without_the_setting_requests_in_progress_go_on() -> None:
    harness = Harness()
    harness.changes.use([file_key("carol", "edge")], ())
    harness.send(ask("edge"))
    end_by_removal(harness)
    harness.connection.send(answered())
    assert harness.status() == 200
    assert harness.event.status is Outcome.OK
    assert status(serve(harness, ask("edge"))) == 401


def test_requests_of_other_keys_go_on() -> None:
    harness = cutting()
    harness.send(ask("plain-canary-0001"))
    end_by_removal(harness)
    harness.connection.send(answered())
    assert harness.status() == 200
    assert settled(harness) == (0, 0, 0)


def test_a_reload_that_takes_the_key_away_cuts_as_well() -> None:
    harness = Harness(cut=True)
    harness.send(ask("plain-canary-0001"))
    reload(
        harness, THREE_FAMILIES + "edge_auth: {enabled: true, cut_revoked: true, keys: [other-canary-1]}\n"
    )
    harness.changes.follow()
    assert harness.status() == 401
    assert harness.event.error == "revoked"


def test_a_session_is_closed_with_1008() -> None:
    text = THREE_FAMILIES + "edge_auth: {enabled: true, cut_revoked: true, keys: [{name: a, key: edge}]}\n"
    harness = SessionHarness(text=text)
    changes = KeyChanges(harness.server)
    harness.switch()
    harness.take_head()
    reload(harness, text.replace("key: edge", "key: other"))
    changes.follow()
    (close,) = harness.client_frames()
    assert close.code == 1008
    assert b"has been removed" in close.payload
    assert harness.provider_frames()[0].code is not None
    harness.turn()
    harness.clock.advance(10)
    assert (harness.event.status, harness.event.error) == (Outcome.REJECTED, "revoked")


def test_a_session_that_is_being_opened_is_refused() -> None:
    text = THREE_FAMILIES + "edge_auth: {enabled: true, cut_revoked: true, keys: [{name: a, key: edge}]}\n"
    harness = SessionHarness(text=text)
    reload(harness, text.replace("key: edge", "key: other"))
    KeyChanges(harness.server).follow()
    assert harness.status() == 401
    assert harness.event.error == "revoked"


def test_a_session_that_waits_for_its_first_message_is_closed() -> None:
    text = THREE_FAMILIES + "edge_auth: {enabled: true, cut_revoked: true, keys: [{name: a, key: edge}]}\n"
    harness = SessionHarness(LIVE, text)
    harness.take_head()
    reload(harness, text.replace("key: edge", "key: other"))
    KeyChanges(harness.server).follow()
    (close,) = harness.client_frames()
    assert close.code == 1008
    assert harness.event.error == "revoked"
