"""The states of simulated identity providers, and what is counted of their clients."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorThreads
from twisted.internet.task import Clock
from twisted.python.threadpool import ThreadPool
from zope.interface import implementer

from mgw_sim.api import Answer
from mgw_sim.dispatcher import Dispatcher
from mgw_sim.faults import Faults
from mgw_sim.http.parser import Head
from mgw_sim.identity.service import MAX_PROVIDERS
from mgw_sim.identity.states import STATES
from mgw_sim.recording import RecordedRequest, Recorder
from tests.memory.mgw_sim.identity.idp_in_memory import ISSUER, IdpInMemory, parts_of, verify

DOCS = Path(__file__).parents[4] / "docs" / "simulator.rst"
DISCOVERY = ".well-known/openid-configuration"


@pytest.fixture
def idp() -> IdpInMemory:
    return IdpInMemory()


def test_the_document_names_the_address_that_was_asked(idp: IdpInMemory) -> None:
    said = idp.get(DISCOVERY)
    assert said["issuer"] == ISSUER
    assert (said["jwks_uri"], said["token_endpoint"]) == (f"{ISSUER}/jwks", f"{ISSUER}/token")


def test_members_of_the_document_can_be_wrong(idp: IdpInMemory) -> None:
    idp.set_state("ok", discovery={"issuer": "https://other.example"})
    assert idp.get(DISCOVERY)["issuer"] == "https://other.example"
    assert idp.get(DISCOVERY)["jwks_uri"] == f"{ISSUER}/jwks"


def test_providers_have_keys_of_their_own(idp: IdpInMemory) -> None:
    other, _ = idp.ask("GET", "/sim/idp/other/jwks")
    [mine, *_], [theirs, *_] = idp.get("jwks")["keys"], json.loads(other.body)["keys"]
    assert mine["kid"] == theirs["kid"]
    assert mine["n"] != theirs["n"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/sim/idp/corp/keys", 404),
        ("GET", "/sim/idp/jwks", 404),
        ("GET", "/sim/idp/a%2Fb/jwks", 404),
        ("GET", "/sim/idp/corp/token", 405),
        ("POST", "/sim/idp/corp/jwks", 405),
    ],
)
def test_other_routes_there_are_none(idp: IdpInMemory, method: str, path: str, status: int) -> None:
    assert idp.ask(method, path)[0].status == status


class TestRotation:
    """New keys."""

    def test_old_ones_leave_the_set_and_still_sign(self, idp: IdpInMemory) -> None:
        old = idp.get("jwks")["keys"][0]
        said = idp.set_state("rotate")
        assert said["kids"] == ["rsa-2", "p-256-2", "p-384-2", "p-521-2", "ed25519-2"]
        assert [key["kid"] for key in idp.get("jwks")["keys"]] == said["kids"]
        assert parts_of(idp.token())[0]["kid"] == "rsa-2"
        verify(idp.token(kid="rsa-1"), old)

    def test_old_ones_stay_if_asked(self, idp: IdpInMemory) -> None:
        old = idp.get("jwks")["keys"]
        idp.set_state("rotate", keep_old=True)
        keys = idp.get("jwks")["keys"]
        assert keys[5:] == old
        assert keys[0]["kid"] == "rsa-2"

    def test_new_ones_may_have_the_old_ids(self, idp: IdpInMemory) -> None:
        old = idp.get("jwks")["keys"]
        idp.set_state("rotate", same_kids=True)
        new = idp.get("jwks")["keys"]
        assert [key["kid"] for key in new] == [key["kid"] for key in old]
        assert not any(key in old for key in new)
        verify(idp.token(), new[0])


class TestStates:
    """How a provider can be wrong."""

    @pytest.mark.parametrize("path", [DISCOVERY, "jwks"])
    def test_away(self, idp: IdpInMemory, path: str) -> None:
        idp.set_state("away")
        assert idp.ask("GET", f"/sim/idp/corp/{path}")[0].status == 503
        assert idp.exchange(grant_type="x")[0] == 503
        assert idp.token()
        idp.set_state("ok")
        assert idp.get(path)

    @pytest.mark.parametrize(
        ("state", "words"),
        [
            ("closed", {"reset-before": ()}),
            ("hang", {"stall-head": ()}),
            ("slow", {"delay": ("5000",)}),
            ("drip", {"chunk-delay": ("1000",)}),
        ],
    )
    def test_trouble_on_the_way(
        self, idp: IdpInMemory, state: str, words: dict[str, tuple[str, ...]]
    ) -> None:
        idp.set_state(state)
        answer, faults = idp.ask("GET", "/sim/idp/corp/jwks")
        assert faults == Faults(words)
        assert len(json.loads(answer.body)["keys"]) == 5

    def test_how_slow(self, idp: IdpInMemory) -> None:
        idp.set_state("slow", seconds=0.25)
        assert idp.ask("GET", "/sim/idp/corp/jwks")[1].number("delay") == 250

    def test_garbage(self, idp: IdpInMemory) -> None:
        idp.set_state("garbage")
        answer, _ = idp.ask("GET", "/sim/idp/corp/jwks")
        assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
        idp.set_state("garbage", body='{"keys": [')
        assert idp.ask("GET", "/sim/idp/corp/jwks")[0].body == b'{"keys": ['

    def test_a_redirect(self, idp: IdpInMemory) -> None:
        idp.set_state("redirect")
        answer, _ = idp.ask("GET", "/sim/idp/corp/jwks")
        assert (answer.status, answer.headers) == (302, (("Location", "/sim/idp/redirected/jwks"),))

    def test_no_keys(self, idp: IdpInMemory) -> None:
        idp.set_state("empty")
        assert idp.get("jwks") == {"keys": []}
        assert idp.get(DISCOVERY)["issuer"] == ISSUER

    def test_keys_of_the_test(self, idp: IdpInMemory) -> None:
        idp.set_state("ok", jwks={"keys": [{"kty": "oct", "k": "AA"}]})
        assert idp.get("jwks") == {"keys": [{"kty": "oct", "k": "AA"}]}

    def test_a_state_of_some_routes(self, idp: IdpInMemory) -> None:
        idp.set_state("away", paths=["jwks"])
        assert idp.ask("GET", "/sim/idp/corp/jwks")[0].status == 503
        assert idp.get(DISCOVERY)["issuer"] == ISSUER

    def test_how_long_keys_may_be_kept(self, idp: IdpInMemory) -> None:
        assert idp.ask("GET", "/sim/idp/corp/jwks")[0].headers == ()
        idp.set_state("ok", max_age=600)
        for path in ("jwks", DISCOVERY):
            answer, _ = idp.ask("GET", f"/sim/idp/corp/{path}")
            assert answer.headers == (("Cache-Control", "public, max-age=600"),)

    @pytest.mark.parametrize("wanted", [{"state": "odd"}, {"stat": "ok"}, {"max_age": "1"}], ids=str)
    def test_what_is_not_understood_is_refused(self, idp: IdpInMemory, wanted: dict[str, object]) -> None:
        assert idp.post("state", wanted)[0] == 400

    def test_each_is_documented(self) -> None:
        section = DOCS.read_text().partition("\nIdentity providers\n")[2].partition("\nAmazon\n")[0]
        table = section.partition("State ")[2].partition("\n\n")[0]
        assert set(re.findall(r"^``([a-z]+)``", table, re.MULTILINE)) == set(STATES)


class TestRecords:
    """What a test can see of the provider's clients."""

    def test_requests_are_counted_by_path(self, idp: IdpInMemory) -> None:
        idp.ask("GET", "/sim/idp/corp/jwks", authorization="Bearer of-a-pod")
        idp.ask("GET", "/sim/idp/corp/jwks")
        idp.get(DISCOVERY)
        idp.token()
        said = idp.get("state")
        assert said["counts"] == {"jwks": 2, DISCOVERY: 1}
        assert [request["path"] for request in said["requests"]] == ["jwks", "jwks", DISCOVERY]
        assert said["requests"][0]["headers"]["authorization"] == "Bearer of-a-pod"

    def test_they_are_not_among_the_requests_to_vendors(self, idp: IdpInMemory) -> None:
        for path in (b"/sim/idp/corp/jwks", b"/sim/idp/corp/state"):
            assert not idp.recorder.begin(1, Head(b"GET", path, b"HTTP/1.1", ())).counted
        assert not idp.recorder.requests

    def test_a_provider_can_be_forgotten(self, idp: IdpInMemory) -> None:
        old = idp.get("jwks")
        idp.set_state("away")
        idp.ask("DELETE", "/sim/idp/corp/state")
        assert idp.get("state")["counts"] == {}
        assert idp.get("jwks") != old

    def test_the_oldest_provider_makes_room(self, idp: IdpInMemory) -> None:
        old = idp.get("jwks")
        for number in range(MAX_PROVIDERS - 1):
            idp.ask("GET", f"/sim/idp/n{number}/{DISCOVERY}")
        assert idp.get("jwks") == old
        idp.ask("GET", f"/sim/idp/more/{DISCOVERY}")
        assert idp.get("jwks") != old

    def test_one_waits_for_a_request(self, idp: IdpInMemory) -> None:
        idp.get("state")
        waiting = self._wait(idp, "path=jwks&count=2")
        idp.get("jwks")
        assert not waiting.called
        idp.get("jwks")
        assert waiting.called

    def test_one_does_not_wait_for_ever(self, idp: IdpInMemory) -> None:
        idp.get("state")
        statuses: list[int] = []
        waiting = self._wait(idp, "path=jwks&seconds=3")
        ended = waiting.addCallback(lambda given: statuses.append(given[0].status))
        idp.clock.advance(2.9)
        assert not statuses
        idp.clock.advance(0.2)
        assert statuses == [504]
        assert ended.called

    def _wait(self, idp: IdpInMemory, query: str) -> Deferred[tuple[Answer, Faults]]:
        head = Head(b"GET", f"/sim/idp/corp/state?{query}".encode(), b"HTTP/1.1", ())
        return Deferred.fromCoroutine(idp.dispatcher.answer(RecordedRequest(1, 1, head, complete=True)))


class Threads(ThreadPool):
    """A pool in which work waits until the test runs it."""

    def __init__(self) -> None:
        super().__init__()
        self.work: list[Callable[[], None]] = []

    def callInThreadWithCallback(self, onResult: Any, func: Any, *_: Any, **__: Any) -> None:  # as Twisted's
        self.work.append(lambda: onResult(True, func()))


@implementer(IReactorThreads)
class ReactorWithThreads(Clock):
    """A clock that has such a pool."""

    def __init__(self) -> None:
        super().__init__()
        self.threads = Threads()

    def getThreadPool(self) -> ThreadPool:
        return self.threads

    def callFromThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:  # noqa: A002  Twisted's signature
        callable(*args, **kwargs)

    def callInThread(self, callable: Callable[..., Any], *args: object, **kwargs: object) -> None:  # noqa: A002  Twisted's signature
        raise NotImplementedError

    def suggestThreadPoolSize(self, size: int) -> None:
        raise NotImplementedError


def test_keys_are_made_once_and_in_a_thread() -> None:
    reactor = ReactorWithThreads()
    dispatcher = Dispatcher(reactor, Recorder(), lambda: 0.0)
    head = Head(b"GET", b"/sim/idp/corp/jwks", b"HTTP/1.1", ())
    given: list[Answer] = []
    asking = [
        Deferred.fromCoroutine(dispatcher.answer(RecordedRequest(1, 1, head, complete=True))).addCallback(
            lambda answered: given.append(answered[0])
        )
        for _ in range(2)
    ]
    [work] = reactor.threads.work
    assert not given
    work()
    assert len(given) == len(asking) == 2
    assert given[0] == given[1]
    assert len(reactor.threads.work) == 1
