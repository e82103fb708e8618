"""The simulator's end of a WebSocket in memory: the handshake, the closing, and each fault."""

import json

import pytest
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Message, Ping, Pong, TextMessage
from wsproto.extensions import PerMessageDeflate

from mgw_sim.faults import TEXT_WORDS
from mgw_sim.http.frames import BAD_FRAMES
from mgw_sim.recording import MAX_MESSAGE_BYTES
from tests.memory.mgw_sim.websocket import ACCEPT, LIVE, REALTIME, WebSocketClient


def test_the_handshake_is_that_of_the_rfc() -> None:
    client = WebSocketClient(REALTIME + "m")
    assert client.head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert f"Sec-WebSocket-Accept: {ACCEPT}".encode() in client.head
    assert b"Sec-WebSocket-Extensions" not in client.head
    assert b"Sec-WebSocket-Protocol" not in client.head


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec_WebSocket_Version": "8"}, 426),
        ({"Sec_WebSocket_Key": "c2hvcnQ="}, 400),
        ({"Sec_WebSocket_Key": "not base64"}, 400),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Upgrade": "h2c"}, 405),
        ({"Connection": "keep-alive"}, 405),
        ({"x_sim_status": "429"}, 429),
    ],
)
def test_an_upgrade_is_refused(headers: dict[str, str], status: int) -> None:
    client = WebSocketClient(REALTIME + "m", **headers)
    assert client.status == status
    assert (b"\r\nSec-WebSocket-Version: 13\r\n" in client.head) is (status == 426)
    assert "error" in json.loads(client.rest)


def test_an_upgrade_elsewhere_is_not_looked_at() -> None:
    assert WebSocketClient("/v1/models").status == 200


@pytest.mark.parametrize(
    "offer", ["realtime, openai-insecure-api-key.k", "openai-insecure-api-key.k,realtime"]
)
def test_a_key_may_be_a_subprotocol(offer: str) -> None:
    client = WebSocketClient(REALTIME + "m", Authorization="", Sec_WebSocket_Protocol=offer)
    assert b"\r\nSec-WebSocket-Protocol: realtime" in client.head


def test_a_ping_is_answered_and_recorded() -> None:
    client = WebSocketClient(LIVE)
    client.ping(b"abc")
    assert client.events() == [Pong(payload=b"abc")]
    assert [(one.kind, one.data) for one in client.request.messages] == [("ping", b"abc")]


def test_the_client_closes() -> None:
    client = WebSocketClient(LIVE)
    client.close(4001, "enough")
    assert client.events() == [CloseConnection(code=4001, reason="enough")]
    assert client.transport.disconnecting
    [message] = client.request.messages
    assert (message.kind, message.code, message.data) == ("close", 4001, b"enough")
    client.leave()
    assert (client.request.answered, client.request.client_left) == (True, False)


def test_a_client_that_leaves_without_closing_is_recorded() -> None:
    client = WebSocketClient(LIVE)
    client.leave()
    assert (client.request.answered, client.request.client_left) == (False, True)


def test_a_client_that_does_not_mask_is_malformed() -> None:
    client = WebSocketClient(LIVE)
    client.connection.dataReceived(b"\x81\x02{}")
    [close] = client.events()
    assert isinstance(close, CloseConnection)
    assert close.code == 1002
    assert client.factory.recorder.malformed == 1
    assert client.transport.disconnecting


def test_a_client_that_does_not_wait_for_the_101_is_malformed() -> None:
    client = WebSocketClient(LIVE, x_sim_delay="50")
    client.ping(b"")
    assert client.transport.aborted
    assert client.factory.recorder.malformed == 1


def test_of_many_bytes_the_first_are_kept() -> None:
    client = WebSocketClient(REALTIME + "sim-echo")
    for _ in range(3):
        client.send_event(BytesMessage(bytes(MAX_MESSAGE_BYTES // 2 + 1)))
    assert [len(one.data) for one in client.request.messages] == [
        MAX_MESSAGE_BYTES // 2 + 1,
        MAX_MESSAGE_BYTES // 2 - 1,
        0,
    ]
    assert len({(one.size, one.sha256) for one in client.request.messages}) == 1


def test_fragments_are_one_message() -> None:
    client = WebSocketClient(REALTIME + "m")
    client.events()
    for piece, is_last in (('{"type": "response', False), ('.cancel"}', True)):
        client.send_event(Message(data=piece, message_finished=is_last))
    [error] = client.messages()
    assert error["error"]["code"] == "response_cancel_not_active"
    assert [(one.kind, one.frames) for one in client.request.messages] == [("text", 2)]


class TestFaults:
    """Words of the model's name or headers."""

    def test_the_101_may_never_come(self) -> None:
        client = WebSocketClient(LIVE, x_sim_delay="50")
        assert client.head == b""
        client.clock.advance(0.05)
        assert client.take().startswith(b"HTTP/1.1 101 ")

    def test_a_stall(self) -> None:
        client = WebSocketClient(LIVE, x_sim_stall_head="on", x_sim_delay="1")
        client.clock.advance(99)
        assert client.head == client.take() == b""
        client.leave()
        assert client.request.client_left

    def test_a_reset_before_the_101(self) -> None:
        client = WebSocketClient(LIVE, x_sim_reset_before="on", x_sim_delay="1")
        client.clock.advance(1)
        assert client.transport.aborted

    def test_a_wrong_accept(self) -> None:
        assert ACCEPT.encode() not in WebSocketClient(LIVE, x_sim_bad_accept="on").head

    def test_a_code_and_a_reason(self) -> None:
        client = WebSocketClient(REALTIME + "m", x_sim_close="4008-1", x_sim_close_reason="too late")
        created, close = client.events()
        assert isinstance(created, TextMessage)
        assert close == CloseConnection(code=4008, reason="too late")
        assert not client.transport.disconnecting
        client.send_event(close.response())
        assert client.transport.disconnecting

    def test_a_close_at_once_without_a_code(self) -> None:
        assert WebSocketClient(REALTIME + "m+sim-close-1005-0").rest.startswith(b"\x88\x00")

    def test_a_model_in_the_setup_asks_too(self) -> None:
        client = WebSocketClient(LIVE)
        client.say({"setup": {"model": "models/m+sim-close-1011-1"}})
        assert client.events()[-1] == CloseConnection(code=1011, reason="")

    def test_a_reset_behind_messages(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-reset-after-1")
        assert not client.transport.aborted
        client.clock.advance(0.02)
        assert client.transport.aborted

    def test_an_end_without_a_close(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-truncate-after-1")
        [created] = client.messages()
        assert created["type"] == "session.created"
        assert client.transport.disconnecting

    def test_silence_behind_messages(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-stall-body-after-1")
        client.messages()
        client.say({"type": "response.create"})
        assert client.events() == []
        client.ping(b"")
        assert client.events() == [Pong(payload=b"")]

    @pytest.mark.parametrize("kind", BAD_FRAMES)
    def test_an_illegal_frame(self, kind: str) -> None:
        client = WebSocketClient(f"{REALTIME}m+sim-bad-frame-{kind}")
        *_, last = client.events()
        assert isinstance(last, CloseConnection), "wsproto takes it for legal"
        assert last.code in {1002, 1007}

    def test_every_illegal_frame_has_its_word(self) -> None:
        assert set(BAD_FRAMES) == set(TEXT_WORDS["bad-frame"])

    def test_a_ping(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-ping-hello")
        assert client.events()[1:] == [Ping(payload=b"hello")]

    def test_messages_cut_in_the_midst_of_a_character(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-cut-1", x_sim_big="3")
        client.events()
        client.say({"type": "conversation.item.delete", "item_id": "\u00fc"})
        *begun, last = [event for event in client.events() if isinstance(event, TextMessage)]
        assert last.message_finished
        assert not any(event.message_finished for event in begun)
        assert "\u00fc" in "".join(event.data for event in [*begun, last])

    def test_a_large_message_in_fragments(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-big-300000+sim-cut-65536")
        client.events()
        client.say({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}})
        client.say({"type": "response.create"})
        sizes = [""]
        for event in client.events():
            assert isinstance(event, TextMessage)
            sizes[-1] += event.data
            if event.message_finished:
                sizes.append("")
        assert max(map(len, sizes)) > 300_000

    def test_an_echo_keeps_opcode_and_fragments(self) -> None:
        client = WebSocketClient(REALTIME + "sim-echo")
        client.events()
        client.send_event(BytesMessage(b"a", message_finished=False))
        client.send_event(BytesMessage(b"\xff", message_finished=True))
        client.send_event(TextMessage("t"))
        assert client.events() == [
            BytesMessage(data=bytearray(b"a"), message_finished=False),
            BytesMessage(data=bytearray(b"\xff"), message_finished=True),
            TextMessage("t"),
        ]
        assert [(one.kind, one.frames, one.size) for one in client.request.messages] == [
            ("binary", 2, 2),
            ("text", 1, 1),
        ]

    def test_an_echo_obeys_the_other_faults(self) -> None:
        client = WebSocketClient(REALTIME + "sim-echo+sim-close-1011-2")
        client.events()
        client.send_event(TextMessage("t"))
        assert client.events() == [TextMessage("t"), CloseConnection(code=1011, reason="")]

    def test_no_answer_to_a_close(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-no-close")
        client.events()
        client.close()
        assert client.take() == b""
        assert not client.transport.disconnecting

    def test_no_more_reading(self) -> None:
        client = WebSocketClient(REALTIME + "m+sim-no-read")
        client.say({"type": "input_audio_buffer.clear"})
        assert client.transport.producerState == "paused"

    def test_deflate_where_it_is_wanted_and_offered(self) -> None:
        offer = PerMessageDeflate()
        headers = {"Sec_WebSocket_Extensions": f"permessage-deflate; {offer.offer()}"}
        client = WebSocketClient(REALTIME + "m+sim-deflate", **headers)
        [accepted] = [line for line in client.head.split(b"\r\n") if line.startswith(b"Sec-WebSocket-Ext")]
        offer.finalize(accepted.partition(b": ")[2].decode())
        client.frames = Connection(ConnectionType.CLIENT, [offer])
        [created] = client.messages()
        assert created["type"] == "session.created"
        assert b"Extensions" not in WebSocketClient(REALTIME + "m", **headers).head
        assert b"Extensions" not in WebSocketClient(REALTIME + "m+sim-deflate").head

    def test_a_slow_client_is_waited_for(self) -> None:
        client = WebSocketClient(REALTIME + "m")
        client.connection.pauseProducing()
        for _ in range(3):
            client.say({"type": "input_audio_buffer.clear"})
        assert len(client.messages()) == 2
        client.connection.resumeProducing()
        assert len(client.messages()) == 2
