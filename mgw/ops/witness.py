"""Who writes down what happens at the door: the journal, the access log and the metrics as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from mgw.ops.logs import AccessLog
from mgw.ops.metrics import Metrics
from mgw.usage.event import UsageEvent
from mgw.usage.journal import Journal


@dataclass(slots=True)
class DoorWitness:
    """Whoever counts and logs what happens at the door."""

    journal: Journal
    access_log: AccessLog
    metrics: Metrics
    record: Callable[[UsageEvent], None] = field(init=False, repr=False)
    access: Callable[..., None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.record = self.journal.record  # bound here: one call less for every request
        self.access = self.access_log.line

    def edge_rejected(self) -> None:
        """Count a request without a fitting key."""
        self.metrics.edge_rejected()

    def malformed(self) -> None:
        """Count an input that is no HTTP."""
        self.metrics.malformed()
