"""Usage events reach a webhook's receiver, whatever becomes of it, of the gateway, or of both."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

import pytest

from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.receivers import ENVIRON, Receiver, leave_events, start_receiver
from tests.support.stored_events import stored_lines
from tests.support.waiting import WAIT_SECONDS, wait_until


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with start_receiver() as found:
        yield found


def gateway_for(
    receiver: Receiver, folder: Path, spool: str = "", **settings: object
) -> AbstractContextManager[GatewayProcess]:
    """A gateway that tells this receiver, and refuses every request."""
    config = f"""
providers: {{main: {{kind: openai, base_url: "http://127.0.0.1:9/v1", api_key: sk-canary}}}}
hooks: {{webhook: {receiver.settings(**settings)}}}
spool: {{dir: {folder}{spool}}}
"""
    return start_gateway(config, ENVIRON)


def stored(folder: Path) -> set[str]:
    """The ids of the events on the disk."""
    return {json.loads(line)["request_id"] for line in stored_lines(folder, "webhook")}


def test_every_event_arrives_once_and_in_order(receiver: Receiver, tmp_path: Path) -> None:
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path, batch_max=50) as gateway:
        leave_events(gateway.port, 500, ids)
        receiver.wait_for(ids, WAIT_SECONDS)
        assert gateway.metric('mgw_usage_events_total{sink="webhook"}') == 500
        assert gateway.metric('mgw_usage_events_dropped_total{sink="webhook"}') == 0
    assert len(receiver.ids) == len(ids) == 500
    times = [event["time"] for _, events in receiver.batches for event in events]
    assert times == sorted(times)
    assert not stored(tmp_path)


def test_a_receiver_that_dies_and_comes_back_gets_everything(receiver: Receiver, tmp_path: Path) -> None:
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 100, ids)
        receiver.wait_for(ids, WAIT_SECONDS)
        receiver.stop()
        leave_events(gateway.port, 400, ids)
        gateway.log(b"usage events to hooks.webhook: failed (")  # or (reset), if it was about to answer
        receiver.start()
        receiver.wait_for(ids, WAIT_SECONDS)
        assert gateway.metric('mgw_usage_events_dropped_total{sink="webhook"}') == 0
    assert set(receiver.ids) == ids


def test_a_receiver_that_fails_is_asked_again_and_410_drops_a_batch(
    receiver: Receiver, tmp_path: Path
) -> None:
    receiver.answer = lambda number: [500, 200, 410][number] if number < 3 else 200
    with gateway_for(receiver, tmp_path, batch_max=10, flush_seconds=30) as gateway:
        kept: set[str] = set()
        dropped: set[str] = set()
        leave_events(gateway.port, 10, kept, at_once=10)
        receiver.wait_for(kept, WAIT_SECONDS)
        leave_events(gateway.port, 10, dropped, at_once=10)
        wait_until(
            lambda: gateway.metric('mgw_usage_events_dropped_total{sink="webhook"}') == 10,
            "the dropped batch",
        )
        leave_events(gateway.port, 10, kept, at_once=10)
        receiver.wait_for(kept, WAIT_SECONDS)
        assert gateway.metric('mgw_usage_sink_errors_total{sink="webhook"}') == 1
    assert not dropped & set(receiver.ids)


def test_a_receiver_that_hangs_delays_no_request(receiver: Receiver, tmp_path: Path) -> None:
    go_on = threading.Event()

    def hang(number: int) -> int:
        go_on.wait(WAIT_SECONDS)
        return 200

    receiver.answer = hang
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path) as gateway:
        leave_events(gateway.port, 300, ids)
        wait_until(lambda: receiver.posts == 1, "a post")
        assert len(ids) == 300
        assert not receiver.ids
        go_on.set()
        receiver.wait_for(ids, WAIT_SECONDS)


def test_without_room_the_oldest_go_and_are_counted(receiver: Receiver, tmp_path: Path) -> None:
    receiver.stop()
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path, spool=", max_bytes: 40000") as gateway:
        leave_events(gateway.port, 600, ids)
        wait_until(
            lambda: gateway.metric('mgw_usage_events_dropped_total{sink="webhook"}') > 100, "dropped events"
        )
        gateway.stop()
    kept = stored(tmp_path)
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.jsonl")) <= 40000
    receiver.start()
    with gateway_for(receiver, tmp_path):
        receiver.wait_for(kept, WAIT_SECONDS)


@pytest.mark.parametrize("seed", range(3))
def test_sigterm_at_any_moment_loses_nothing(receiver: Receiver, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    receiver.answer = lambda _: random.choice([200, 200, 200, 503])
    ids: set[str] = set()
    for _ in range(2):
        with gateway_for(receiver, tmp_path, batch_max=20) as gateway:
            stop_at = random.randrange(100, 700)
            clients = [threading.Thread(target=leave_events, args=(gateway.port, 400, ids)) for _ in range(2)]
            goal = len(ids) + stop_at
            for client in clients:
                client.start()
            wait_until(lambda: len(ids) >= goal, "some answers")  # noqa: B023
            gateway.signal(signal.SIGTERM)
            for client in clients:
                client.join(WAIT_SECONDS)
            assert gateway.stop() == 0
    receiver.answer = lambda _: 200
    with gateway_for(receiver, tmp_path):
        receiver.wait_for(ids, WAIT_SECONDS)


def test_what_an_older_version_has_left_is_delivered_with_its_keys_and_its_files_go(
    receiver: Receiver, tmp_path: Path
) -> None:
    place = tmp_path / "events/webhook/0123456789abcdef"
    place.mkdir(parents=True)
    keys = [f"{number:024x}" for number in range(1, 4)]
    for key in keys:
        (place / f"{key}.jsonl").write_bytes(b'{"request_id":"req_%s"}\n' % key.encode())
    with gateway_for(receiver, tmp_path):
        receiver.wait_for({f"req_{key}" for key in keys}, WAIT_SECONDS)
    assert [key for key, _ in receiver.batches] == keys
    assert not (tmp_path / "events/webhook").exists()


@pytest.mark.parametrize("seed", range(3))
def test_sigkill_takes_at_most_the_last_interval(receiver: Receiver, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    receiver.answer = lambda _: random.choice([200, 200, 503])
    safe: set[str] = set()
    with gateway_for(receiver, tmp_path, batch_max=20) as gateway:
        leave_events(gateway.port, random.randrange(100, 700), safe)
        wait_until(lambda: safe <= stored(tmp_path) | set(receiver.ids), "the interval to pass")
        late: set[str] = set()
        client = threading.Thread(target=leave_events, args=(gateway.port, 400, late))
        client.start()
        goal = random.randrange(20, 380)
        wait_until(lambda: len(late) >= goal, "more answers")
        gateway.process.kill()
        client.join(WAIT_SECONDS)
    receiver.answer = lambda _: 200
    with gateway_for(receiver, tmp_path):
        receiver.wait_for(safe, WAIT_SECONDS)


def test_a_reload_keeps_a_webhook_that_has_not_changed_and_hands_over_to_one_that_has(
    receiver: Receiver, tmp_path: Path
) -> None:
    ids: set[str] = set()
    with gateway_for(receiver, tmp_path, flush_seconds=0.1) as gateway:
        before = gateway.config_file.read_text()
        receiver.stop()
        leave_events(gateway.port, 50, ids)
        gateway.log(b"usage events to hooks.webhook")
        gateway.rewrite(before + "drain_seconds: 5\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 2")
        leave_events(gateway.port, 50, ids)
        gateway.rewrite(before.replace('"flush_seconds": 0.1', '"flush_seconds": 0.2'))
        gateway.signal(signal.SIGHUP)
        gateway.log(b"the configuration was reloaded: generation 3")
        leave_events(gateway.port, 50, ids)
        receiver.start()
        gateway.stop()
    with gateway_for(receiver, tmp_path):
        receiver.wait_for(ids, WAIT_SECONDS)
