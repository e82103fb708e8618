"""Both opening handshakes by Autobahn: what is sent, and that handshakes do not touch one another."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator
from functools import partial
from hashlib import sha1
from typing import Final

import autobahn.twisted.websocket
import autobahn.util
import autobahn.websocket.protocol
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.nouns.errors import GatewayError, Reason
from mgw.realtime import autobahn_fast
from mgw.realtime.handshake import CLIENT, SERVER, ClientHandshake, HandshakeError, ServerHandshake
from mgw.wire.headers import RawHeaders
from tests.support.calls import count_calls

MAGIC: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
KEYS: Final = (b"dGhlIHNhbXBsZSBub25jZQ==", b"AQIDBAUGBwgJCgsMDQ4PEC==")


def accept_of(key: bytes) -> bytes:
    return b64encode(sha1(key + MAGIC).digest())


def asked(key: bytes, *subprotocols: bytes) -> RawHeaders:
    headers = [(b"Sec-WebSocket-Version", b"13"), (b"sec-websocket-key", key)]
    return headers + [(b"Sec-WebSocket-Protocol", b", ".join(subprotocols))] * bool(subprotocols)


def ask(*subprotocols: str) -> ClientHandshake:
    headers = [(b"Authorization", b"Bearer k"), (b"X-A", b"1"), (b"x-a", "é".encode())]
    return ClientHandshake("host.example", 443, b"/v1/realtime?model=m", headers, subprotocols)


def key_of(client: ClientHandshake) -> bytes:
    found = re.search(rb"\r\nSec-WebSocket-Key: (\S+)\r\n", client.request)
    assert found is not None
    return found[1]


def switched(key: bytes, subprotocol: bytes | None = None) -> bytes:
    chosen = b"" if subprotocol is None else b"Sec-WebSocket-Protocol: %b\r\n" % subprotocol
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\n%b\r\n" % (accept_of(key), chosen)
    )


REQUEST: Final = (
    b"GET /v1/realtime?model=m HTTP/1.1\r\nHost: host.example:443\r\nUpgrade: WebSocket\r\n"
    b"Connection: Upgrade\r\nPragma: no-cache\r\nCache-Control: no-cache\r\nAuthorization: Bearer k\r\n"
    b"X-A: 1, \xc3\xa9\r\nSec-WebSocket-Key: KEY\r\nSec-WebSocket-Protocol: a,b\r\n"
    b"Sec-WebSocket-Version: 13\r\n\r\n"
)


def test_the_provider_is_asked_in_these_bytes() -> None:
    client = ask("a", "b")
    assert client.request.replace(key_of(client), b"KEY") == REQUEST
    assert len(b64decode(key_of(client))) == 16


def test_the_provider_is_asked_alike_by_autobahns_own_longer_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autobahn_fast, "_SEND", None)
    client = ask("a", "b")
    assert client.request.replace(key_of(client), b"KEY") == REQUEST
    assert client.finish(switched(key_of(client), b"b")) == "b"


def test_clients_do_not_share_their_handshakes() -> None:
    first, second = ServerHandshake(asked(KEYS[0], b"a", b"b")), ServerHandshake(asked(KEYS[1], b"c"))
    later, earlier = second.accept("c", [(b"X-Up", b"2")]), first.accept("b", [(b"X-Up", b"1")])
    for response, key, chosen, up in ((earlier, KEYS[0], b"b", b"1"), (later, KEYS[1], b"c", b"2")):
        assert response == (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\nX-Up: %b\r\n"
            b"Sec-WebSocket-Protocol: %b\r\nSec-WebSocket-Accept: %b\r\n\r\n" % (up, chosen, accept_of(key))
        )


def test_a_provider_answers_the_handshake_that_it_was_sent() -> None:
    first, second = ask("a"), ask("b")
    assert key_of(first) != key_of(second)
    assert second.finish(switched(key_of(second), b"b")) == "b"
    with pytest.raises(HandshakeError):
        first.finish(switched(key_of(second), b"a"))


def test_a_subprotocol_that_another_session_has_offered_is_not_accepted() -> None:
    ask("b")
    client = ask("a")
    with pytest.raises(HandshakeError):
        client.finish(switched(key_of(client), b"b"))


@pytest.mark.parametrize("extension", [b"permessage-deflate", b"permessage-bzip2; a=1", b"x-own"])
def test_an_extension_that_was_not_requested_is_named_as_the_reason(extension: bytes) -> None:
    client = ask()
    head = switched(key_of(client))[:-2] + b"Sec-WebSocket-Extensions: %b\r\n\r\n" % extension
    with pytest.raises(HandshakeError, match="unrequested option"):
        client.finish(head)


def test_a_handshake_that_was_rejected_leaves_the_next_one_alone() -> None:
    for headers in (asked(b"short"), asked(KEYS[0], b"a", b"a"), asked(KEYS[0], b"a b")):
        with pytest.raises(GatewayError) as rejected:
            ServerHandshake(headers)
        assert rejected.value.reason is Reason.MALFORMED
    assert accept_of(KEYS[0]) in ServerHandshake(asked(KEYS[0])).accept(None, [])
    with pytest.raises(HandshakeError):
        ask().finish(switched(KEYS[0]))
    client = ask()
    assert client.finish(switched(key_of(client))) is None


def a_client(*subprotocols: bytes, key: bytes = KEYS[0], chosen: str | None = None) -> Play:
    """A client asks, and is answered."""
    try:
        server = ServerHandshake(asked(key, *subprotocols))
    except GatewayError as error:
        return error.reason
    yield
    response = server.accept(chosen, [(b"X-Key", key)])
    yield
    server.close()
    return response


def a_client_that_leaves() -> Play:
    """A client asks, and leaves before it is answered."""
    server = ServerHandshake(asked(KEYS[0], b"a"))
    yield
    server.close()
    return None


def a_provider(*subprotocols: str, answer: Callable[[bytes], bytes]) -> Play:
    """A provider is asked, and answers."""
    client = ask(*subprotocols)
    yield
    try:
        chosen = client.finish(answer(key_of(client)))
    except HandshakeError as error:
        return str(error)
    yield
    return chosen, client.request.replace(key_of(client), b"KEY")


Play = Generator[None, None, object]
PLAYS: Final[tuple[Callable[[], Play], ...]] = (
    lambda: a_client(b"a", b"b", chosen="b"),
    lambda: a_client(key=KEYS[1]),
    lambda: a_client(b"c", key=KEYS[1], chosen="c"),
    lambda: a_client(key=b"short"),
    lambda: a_client(b"a", b"a"),
    a_client_that_leaves,
    lambda: a_provider("a", "b", answer=lambda key: switched(key, b"a")),
    lambda: a_provider("b", answer=lambda key: switched(key, b"b")),
    lambda: a_provider(answer=switched),
    lambda: a_provider("b", answer=lambda key: switched(key, b"a")),
    lambda: a_provider(answer=lambda _: switched(KEYS[0])),
    lambda: a_provider(answer=lambda _: b"HTTP/1.1 101 \xff\r\n\r\n"),
    lambda: a_provider(answer=lambda key: switched(key)[:-2] + b"Sec-WebSocket-Extensions: x\r\n\r\n"),
)


def outcomes(turns: list[int]) -> list[object]:
    """Return how each play ends, of which those that ``turns`` name go on by one step."""
    plays, ends = [play() for play in PLAYS], dict[int, object]()
    for at in [*turns, *(at for at in range(len(PLAYS)) for _ in range(4))]:
        if at not in ends:
            try:
                next(plays[at])
            except StopIteration as ended:
                ends[at] = ended.value
    return [ends[at] for at in range(len(PLAYS))]


@given(st.lists(st.integers(0, len(PLAYS) - 1), max_size=3 * len(PLAYS)))
def test_handshakes_that_interleave_end_as_each_of_them_does_alone(turns: list[int]) -> None:
    assert outcomes(turns) == outcomes([])


def test_no_handshake_changes_what_the_others_have_too() -> None:
    for mold in (SERVER, CLIENT):
        assert mold.is_copied
        mold.check(lambda: outcomes([*range(len(PLAYS))] * 3))
        assert mold.is_copied


def raising() -> None:
    raise ValueError


@pytest.mark.parametrize("change", ["a thing", "an attribute", "an error"])
def test_protocols_are_not_copied_where_handshakes_would_share_what_they_change(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcomes([])
    for mold in (SERVER, CLIENT):
        monkeypatch.setattr(mold, "is_copied", True)
        shared = mold.take()
        changes: dict[str, Callable[[], object]] = {
            "a thing": partial(shared.send_queue.append, 1),
            "an attribute": partial(setattr, shared.trafficStats, "incomingOctetsAppLevel", 9),
            "an error": raising,
        }
        mold.check(changes[change])
        shared.send_queue.clear()
        assert not mold.is_copied
        assert mold.take().send_queue is not mold.take().send_queue
    assert outcomes([]) == expected


def test_autobahn_itself_stays_as_it_is() -> None:
    for module in (autobahn.twisted.websocket, autobahn.websocket.protocol):
        assert module.hltype is autobahn.util.hltype
        assert module.hlval is autobahn.util.hlval


def test_both_handshakes_take_few_calls() -> None:
    def shake_hands() -> None:
        server, client = ServerHandshake(asked(KEYS[0], b"a")), ask("a")
        server.accept(client.finish(switched(key_of(client), b"a")), [])
        server.close()

    shake_hands()
    assert count_calls(shake_hands) <= 100, "Autobahn's own set-up of two connections takes 700"
