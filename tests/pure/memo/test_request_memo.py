"""What the memory of requests keeps, and for how long."""

from __future__ import annotations

import pytest

from mgw.clients.client import Client
from mgw.exchange.upstream_head import known_target_of
from mgw.memo.client_request import ClientRequest
from mgw.memo.known_target import UpstreamHead
from mgw.memo.request_memo import MAX_LABELS, MAX_SENT_LINES, RequestMemo
from mgw.routing.resolve import Target
from mgw.routing.routes import ROUTES
from mgw.upstream.wires.wire import VENDOR
from mgw.usage.labels import MAX_SHARED_CHARS
from tests.support.configs import THREE_FAMILIES, config

CHAT = next(route for route in ROUTES if route.name == "chat")
MAIN = Target(config(THREE_FAMILIES).providers["main"], "fast", "gpt-b")


def test_exchanges_of_one_route_target_and_credential_share_their_labels() -> None:
    memo = RequestMemo()
    first = memo.labels_for(CHAT, MAIN, "fast", "0123", None)
    assert memo.labels_for(CHAT, MAIN, "fast", "0123", None) is first
    assert memo.labels_for(CHAT, MAIN, "fast", "4567", None) is not first
    assert memo.labels_for(CHAT, MAIN, "fast", "0123", Client("alice", b"")) is not first
    assert memo.labels_for(CHAT, None, "fast", "0123", None) is not first
    assert (first.dialect, first.route, first.modality) == ("openai", "chat", "text")
    assert (first.provider, first.model, first.upstream_model) == ("main", "fast", "gpt-b")


def test_labels_have_the_groups_and_tags_of_their_client() -> None:
    memo = RequestMemo()
    before = Client("alice", b"", groups=("research",), tags=(("team", "nlp"), ("cost_center", "4711")))
    labels = memo.labels_for(CHAT, MAIN, "fast", "0123", before)
    assert (labels.client, labels.client_groups) == ("alice", ("research",))
    assert labels.tags == {"team": "nlp", "cost_center": "4711"}
    after = Client("alice", b"")  # its settings have changed meanwhile
    labels = memo.labels_for(CHAT, MAIN, "fast", "0123", after)
    assert (labels.client, labels.client_groups, labels.tags) == ("alice", None, None)


def test_models_that_clients_make_up_do_not_fill_the_memory_with_labels() -> None:
    memo = RequestMemo()
    first = memo.labels_for(CHAT, MAIN, "first", None, None)
    for number in range(MAX_LABELS):
        memo.labels_for(CHAT, MAIN, f"made up {number}", None, None)
    assert memo.labels_for(CHAT, MAIN, "first", None, None) is not first
    assert len(memo.labels) == MAX_LABELS


@pytest.mark.parametrize("more", [0, 1])
def test_labels_with_a_long_name_of_a_model_are_not_kept(more: int) -> None:
    memo, model = RequestMemo(), "m" * (MAX_SHARED_CHARS + more)
    first = memo.labels_for(CHAT, MAIN, model, None, None)
    assert (memo.labels_for(CHAT, MAIN, model, None, None) is first) is not bool(more)


def test_a_memory_that_is_switched_off_keeps_nothing() -> None:
    memo = RequestMemo(is_on=False)
    assert memo.labels_for(CHAT, MAIN, "fast", None, None) is not memo.labels_for(
        CHAT, MAIN, "fast", None, None
    )
    memo.shapes_of("main")
    assert not memo.labels
    assert not memo.shapes


def test_each_provider_has_its_own_shapes() -> None:
    memo = RequestMemo()
    assert memo.shapes_of("main") is memo.shapes_of("main")
    assert memo.shapes_of("main") is not memo.shapes_of("host")


def sent_heads(lines: int) -> int:
    """Return how many heads of so many lines are kept with a target."""
    memo = RequestMemo()
    request = ClientRequest(b"POST", b"/v1/chat/completions", None, [], None, "/v1", None, is_uncoded=True)
    known = known_target_of(CHAT, MAIN, request, VENDOR, None)
    memo.keep_target(CHAT, request, known)
    headers = [(b"Accept", b"a")] * lines
    memo.keep_sent(known, tuple(headers), UpstreamHead(b"POST", MAIN.provider, b"/", headers))
    return len(memo.sent[known])


def test_a_head_of_many_short_lines_is_not_kept_since_each_takes_many_times_its_bytes() -> None:
    assert sent_heads(MAX_SENT_LINES) == 1
    assert sent_heads(MAX_SENT_LINES + 1) == 0
