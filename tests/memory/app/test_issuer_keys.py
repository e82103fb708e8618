"""Keys of issuers in the services: when they are made, and how a worker gets them before it begins."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.testing import MemoryReactorClock
from twisted.logger import LogPublisher

from mgw.app.late_issuer_keys import LateIssuerKeys
from mgw.app.service import GatewayService
from mgw.app.supervised_service import SupervisedService
from mgw.app.worker import Inherited, Worker
from mgw.identity.issuers import IssuerKeys
from mgw.identity.key_source import source_of
from mgw.web.ports import ListeningSocket
from mgw.workers.client_balance import ClientNumbers
from mgw.workers.messages import (
    Begin,
    Done,
    Failed,
    IssuerKeysAnswer,
    IssuerKeysChanged,
    IssuerKeysQuestion,
    KeysChanged,
)
from mgw.workers.pickled_config import pickle_config, pickle_keys
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of
from tests.support.fleet import ChannelPair, open_channel
from tests.support.issuers import HOST, JWKS, IssuerBench, entry, ids_of, jwk, key_set


def settings(more: str = "", enabled: str = "true") -> str:
    corp = (
        f"name: corp, issuer: 'https://login.example.com', jwks_url: '{JWKS}', audience: mgw, rules: [{{}}]"
    )
    edge_auth = f"enabled: {enabled}, keys: [edge-canary-0001], jwt: [{{{corp}}}]"
    return f"{THREE_FAMILIES}\nedge_auth: {{{edge_auth}}}\n{more}"


def digest_in(text: str) -> str:
    return source_of(config(text).edge_auth.jwt[0]).digest


@pytest.mark.parametrize("text", [THREE_FAMILIES, settings(enabled="false")], ids=["none", "off"])
def test_without_an_issuer_nothing_is_made(text: str) -> None:
    service = GatewayService(config(text), lambda: config(text), MemoryReactorClock(), None)
    gateway = service.gateway
    gateway.serving.begin()
    assert (gateway.serving.issuers.keys, gateway.issuer_feed) == (None, None)
    gateway.serving.issuers.stop()


def test_keys_are_made_with_the_first_configuration_that_has_an_issuer_and_kept() -> None:
    bench = IssuerBench()
    made: list[IssuerKeys] = []

    def make() -> IssuerKeys:
        made.append(bench.keys)
        return bench.keys

    late = LateIssuerKeys(make)
    late.use(config(THREE_FAMILIES).edge_auth)
    late.begin()
    assert not made
    late.use(config(settings()).edge_auth)
    assert made == [bench.keys]
    changes: list[None] = []
    late.on_change = lambda: changes.append(None)
    bench.serve(jwk("a"))
    assert len(changes) == 1
    late.use(config(THREE_FAMILIES).edge_auth)
    assert bench.ids() is None
    late.use(config(settings()).edge_auth)
    assert (len(made), late.keys) == (1, bench.keys)
    late.stop()
    assert not bench.clock.getDelayedCalls()


@pytest.mark.parametrize("service_class", [GatewayService, SupervisedService])
def test_a_service_fetches_once_it_serves_and_tells_metrics(service_class: Any) -> None:
    reactor, found = MemoryReactorClock(), config(settings("workers: 2\n"))
    service = service_class(found, lambda: found, reactor, None)
    gateway = service.gateway
    keys = gateway.serving.issuers.keys
    assert keys is not None
    assert not reactor.getDelayedCalls()
    keys.begin()
    assert keys.ask("corp") is not None, "a fetch is under way"
    states = [(row.name, row.succeeded) for row in gateway.telemetry.metrics.state.issuers()]
    assert states == [("corp", 0)]
    families = {family.name: family for family in gateway.telemetry.metrics.state.families()}
    labels = [tuple(sample.labels.values()) for sample in families["mgw_jwks_fetches"].samples]
    assert labels == [("corp", "ok"), ("corp", "failed")]
    keys.stop()


def supervised() -> tuple[SupervisedService, IssuerBench]:
    found, bench = config(settings("workers: 2\n")), IssuerBench()
    service = SupervisedService(found, lambda: found, MemoryReactorClock(), None)
    bench.begin(*found.edge_auth.jwt)
    bench.newest().answer(key_set(jwk("a")))
    service.gateway.issuer_feed = bench.feed
    return service, bench


def test_a_new_worker_is_told_the_keys_before_it_begins() -> None:
    service, bench = supervised()
    pair = ChannelPair(bench.clock)
    bench.clock.advance(10)
    _ = service.attach(0, pair.near, 1)
    pair.pump()
    assert pair.theirs.told == [IssuerKeysChanged(digest_in(settings()), key_set(jwk("a")), 10.0)]
    assert [type(question) for question in pair.theirs.asked] == [Begin]


def test_the_supervisor_answers_a_worker_s_question_when_the_fetch_is_done() -> None:
    service, bench = supervised()
    handler = service.make_handler(0)
    found: list[object] = []
    answer: Any = handler.on_question(IssuerKeysQuestion(digest_in(settings())))
    answer.addCallback(lambda message: found.extend([*bench.told, message]))
    assert not found
    bench.told.clear()
    bench.serve(jwk("b"))
    told = (digest_in(settings()), key_set(jwk("b")), 0.0)
    assert found == [told, IssuerKeysAnswer(60.0)], "all workers were told before"


def test_a_supervisor_without_issuers_says_so() -> None:
    found = config(f"{THREE_FAMILIES}\nworkers: 2\n")
    service = SupervisedService(found, lambda: found, MemoryReactorClock(), None)
    assert isinstance(service.make_handler(0).on_question(IssuerKeysQuestion("x")), Failed)


class Reactor(MemoryReactorClock):
    """A reactor in memory with a listening port that does nothing."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's

    def adoptStreamPort(self, *_: object) -> Any:  # Any: a port
        return self

    def startReading(self) -> None:
        """Accept."""

    def stopReading(self) -> None:
        """Accept nothing."""


@pytest.fixture
def worker() -> Iterator[Worker]:
    reactor = Reactor()
    inherited = Inherited(
        sockets=[ListeningSocket(0, socket.AF_INET)],
        clients=ClientNumbers(),
        divert_log=lambda redirect: _ignore(redirect(LogPublisher())),
        use_secrets=lambda _secrets: None,
        use_log=lambda _settings: None,
    )
    found = Worker(reactor, 0, inherited)
    found.channel, _ = open_channel(found, reactor)
    yield found
    found.issuers.stop()


def _ignore(_: object) -> None:
    pass


def begin(text: str) -> Begin:
    return Begin(0, 2, 1, pickle_config(config(text)), "/run/none")


def test_a_worker_that_was_told_keys_has_them_for_its_first_request(worker: Worker) -> None:
    worker.on_message(IssuerKeysChanged(digest_in(settings()), key_set(jwk("a")), 10.0))
    assert worker.on_question(begin(settings())) == Done()
    keys = worker.issuers.keys
    assert keys is not None
    assert ids_of(keys.keys_of("corp")) == {"a"}


def test_a_worker_answers_when_it_uses_new_keys(worker: Worker) -> None:
    assert worker.on_question(begin(settings())) == Done()
    answer: Any = worker.on_question(IssuerKeysChanged(digest_in(settings()), key_set(jwk("a")), 0.0))
    assert result_of(answer) == Done()
    keys = worker.issuers.keys
    assert keys is not None
    assert ids_of(keys.keys_of("corp")) == {"a"}


def test_a_worker_answers_when_it_uses_new_keys_of_files(worker: Worker) -> None:
    assert worker.on_question(begin(settings())) == Done()
    assert worker.on_question(KeysChanged(pickle_keys(()), ("ann",))) == Done()


def test_a_worker_without_an_issuer_makes_nothing(worker: Worker) -> None:
    assert worker.on_question(begin(THREE_FAMILIES)) == Done()
    assert worker.issuers.keys is None


def test_the_entries_of_the_support_are_those_of_a_configuration() -> None:
    assert source_of(entry(issuer=HOST, jwks_url=JWKS)).digest == digest_in(settings())
