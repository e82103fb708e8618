"""The dashboard and the alert rules of ``etc``, and a page with a sample of every metric."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client.parser import text_string_to_metric_families
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from mgw.clients.calendar_window import NoStore
from mgw.clients.limits import LIMITS_BY_NAME, RowState
from mgw.config.fleet import RedisSettings
from mgw.credentials.signed_again import Again, SignedAgain
from mgw.identity.key_feed import IssuerFetches
from mgw.nouns.token_flaw import TokenFlaw
from mgw.ops.exposition import Table
from mgw.ops.loop_delay import LoopDelay
from mgw.ops.metrics import Metrics
from mgw.ops.provider_metrics import ProviderMetrics
from mgw.ops.state_metrics import StateMetrics
from mgw.redis.hosts import open_fleet
from mgw.usage.event import Outcome, SessionCounts
from mgw.usage.journal import SinkCounts
from mgw.usage.price_row import Unpriced
from mgw.workers.worker_state import WorkersState
from tests.support.configs import THREE_FAMILIES, config
from tests.support.deferreds import result_of
from tests.support.subscriptions import SubscriptionPlay
from tests.support.upstreams import memory_upstream
from tests.support.usage import exchange

ROOT: Final = Path(__file__).resolve().parents[2]
ALERTS: Final = ROOT / "etc" / "prometheus-alerts.yaml"
DASHBOARD: Final = ROOT / "etc" / "grafana-dashboard.json"
OF_SCRAPES: Final = frozenset({"job", "instance"})
"""Labels that Prometheus gives to every sample."""
_VARIABLES: Final = {
    "$__rate_interval": "1m",
    "$instance": ".*",
    "$provider": ".*",
    "$client": ".*",
}


@dataclass(frozen=True, slots=True)
class Expression:
    """PromQL, and where it stands."""

    place: str
    text: str
    shown: str = ""
    """Text whose ``{{label}}`` stand for labels of the result."""

    @property
    def filled(self) -> str:
        """The expression, with values for the dashboard's variables."""
        text = self.text
        for name, value in _VARIABLES.items():
            text = text.replace(name, value)
        return text


def rules() -> Iterator[dict[str, Any]]:
    """Yield the rules, of all groups."""
    for group in yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]:
        yield from group["rules"]


def dashboard() -> dict[str, Any]:
    """Return the dashboard."""
    found: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return found


def expressions() -> list[Expression]:
    """Return every expression of both files."""
    found = [
        Expression(
            rule.get("alert") or rule["record"],
            rule["expr"],
            " ".join(re.findall(r"\$labels\.(\w+)", json.dumps(rule.get("annotations", {})))),
        )
        for rule in rules()
    ]
    board = dashboard()
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            shown = " ".join(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            found.append(Expression(panel["title"], target["expr"], shown))
    found += [Expression(note["name"], note["expr"]) for note in board["annotations"]["list"]]
    return found


def expression_of_panel(title: str, legend: str | None = None) -> str:
    """Return the one expression of a panel of the dashboard, or the one with this legend, filled in."""
    (panel,) = (panel for panel in dashboard()["panels"] if panel["title"] == title)
    targets = [target for target in panel["targets"] if legend in (None, target["legendFormat"])]
    (target,) = targets
    return Expression(title, target["expr"]).filled


def metrics_with_everything(folder: Path, provider: str = "main") -> Metrics:
    """Return metrics of which each family has a sample.

    :param folder: for the store of an account.
    """
    play = SubscriptionPlay(folder)
    play.put("a")
    upstream, source = memory_upstream(max_connections=3).upstream, play.source(["a"])
    state = StateMetrics(
        certificate_expires=lambda: 2e9,
        counts_by_sink=lambda: {"jsonl": SinkCounts(waiting=1)},
        issuers=lambda: [IssuerFetches("corp", 1, 1, 30.0)],
        keys=lambda: {"active": 1},
        limits=lambda: [
            RowState("alice", LIMITS_BY_NAME["usd_per_month"], "2026-11", 3 * 10**9, 0, 10**10, 2e9)
        ],
    )
    signed_again = SignedAgain()
    signed_again.note(provider, Again.CLOCK)
    metrics = Metrics(
        frozenset({"chat"}),
        state=state,
        upstreams=ProviderMetrics(
            lambda: {provider: upstream}, lambda: {provider: source}, lambda: signed_again
        ),
        loop_delay=LoopDelay(),
        workers=WorkersState(processes=lambda: {0: getpid()}),
        fleet=fleet_tables,
    )
    metrics.requests.clients.refusals = lambda: [("alice", "max_in_flight", 1)]
    metrics.reloaded(1, [provider], ["alice"])
    made = exchange(
        provider=provider, client="alice", status=Outcome.UPSTREAM_ERROR, error="reset", attempts=2
    )
    session = exchange(provider=provider, client="alice", session_minutes=1.5, transport="websocket")
    costly = exchange(provider=provider, cost_usd=0.5, tokens_in_estimated=7)
    metrics.record_all(iter([made, session, costly]))
    metrics.requests.clients.add_unpriced(provider, Unpriced.PRICE)
    metrics.requests.clients.add_uncounted(provider)
    metrics.token_rejections.add("corp", TokenFlaw.EXPIRED)
    metrics.requests.sessions.add(provider, SessionCounts(minutes=1.5, frames_in=1, bytes_in=2))
    return metrics


def fleet_tables() -> Iterator[Table]:
    """Yield what a gateway tells of its fleet, of which no Redis is reached."""
    fleet = open_fleet(config(THREE_FAMILIES), Clock(), lambda: 0.5, lambda *_: None, NoStore())
    fleet.settings = RedisSettings()
    yield from fleet.tables()


def page_of(metrics: Metrics, accept: bytes | None = None) -> str:
    """Return the text of a scrape."""
    _, parts = result_of(Deferred.fromCoroutine(metrics.render(accept)))
    return b"".join(parts).decode()


def labels_by_name(page: str) -> dict[str, frozenset[str]]:
    """Return the labels of each sample's name."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return {name: frozenset(labels) for name, labels in found.items()}
