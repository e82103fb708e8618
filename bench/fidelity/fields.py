"""Between two APIs: whether each field of a request arrives, is reported by name, or is refused.

The fields are those of the vendors' own SDK types, and what counts as lost is what counts in the tests
(``tools/translation/accounting.py``): a value that changes nothing in what the provider receives, and is not
reported. Here each request goes through a running gateway.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from bench.fidelity.corpus import answers
from bench.fidelity.sides import Side
from bench.fidelity.upstream import ANSWERS, CONTENTS, Provider
from mgw.nouns.errors import GatewayError, Reason

Body = dict[str, Any]  # Any: JSON


@dataclass(slots=True)
class Accounted:
    """What became of the fields of one direction."""

    client: str
    provider: str
    fields: int = 0
    carried: int = 0
    reported: int = 0
    refused: int = 0
    lost: list[str] = field(default_factory=list)


def accounted(side: Side, upstream: Provider, every: int = 1) -> list[Accounted]:
    """Send every field of each API to the providers of the two others.

    :param every: 1 takes each field, 10 every tenth.
    """
    # The SDKs are imported here, and only by those who ask for this part.
    from tools.translation.accounting import TARGETS
    from tools.translation.field_cases import CLIENTS

    hosts = [target for target in TARGETS if target.name != "openai_compat"]
    return [
        _direction(side, upstream, client, target, every)
        for client in CLIENTS
        for target in hosts
        if target.family is not client.family
    ]


def _direction(
    side: Side, upstream: Provider, client: Any, target: Any, every: int
) -> Accounted:  # Any: as above
    from tools.translation.accounting import CHANGED, REFUSED, REPORTED, outcome_of
    from tools.translation.field_cases import cases
    from tools.translation.tables import silent

    found = Accounted(client.name, target.name)
    model = side.model(target.name)
    for case in cases(client)[::every]:
        if case.path == "model":
            continue
        became = outcome_of(case, lambda body: _send(side, upstream, client.name, model, body))
        found.fields += 1
        if silent(client, target, case, became):
            found.lost.append(case.path)
        elif CHANGED in became.all:
            found.carried += 1
        elif REPORTED in became.all:
            found.reported += 1
        elif REFUSED in became.all:
            found.refused += 1
    return found


def _send(
    side: Side, upstream: Provider, wire: str, model: str, body: Body
) -> Any:  # Any: a request's outcome, of either kind
    named = body if wire == CONTENTS else {**body, "model": model}
    is_stream = bool(body.get("stream"))
    if is_stream != upstream.is_stream:
        upstream.is_stream = is_stream
        upstream.answers = {each: answers(each, is_stream=is_stream)[0] for each in ANSWERS}
    answer = side.ask(wire, model, json.dumps(named).encode())
    up = upstream.take()
    if up is None:
        return GatewayError(Reason.MALFORMED, f"{answer.status}")
    reported = [name.strip() for name in answer.dropped.split(",") if name.strip()]
    return None, {"(path)": up.target, **json.loads(up.body)}, reported
