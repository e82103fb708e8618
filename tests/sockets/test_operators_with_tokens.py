"""What operators and dashboards see of clients with tokens: one process, and two workers."""

from __future__ import annotations

import http.client
import json
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import pytest

from tests.support.commands import run_mgw
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

KEY: Final = "edge-canary-0001"
PATH: Final = "/v1/dashboard/requests"
CHAT: Final = {"model": "main/gpt-a", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}
ODD: Final = "Zoë/=+&%20 'x' <b>@例.jp"
"""What the claim of a name may hold."""
WORKERS: Final = pytest.mark.parametrize("workers", [0, 2])


def config_of(idp: Idp, workers: int, store: Path) -> str:
    return f"""
providers:
  main: {{kind: openai, base_url: "{idp.url}/v1", api_key: sk-canary-openai, models: [gpt-a, gpt-b]}}
{f"workers: {workers}" if workers else ""}
edge_auth:
  enabled: true
  keys: [{KEY}]
  groups:
    ops:
      models: [main/gpt-a]
      limits: [{{requests: 1000, per: month}}, {{requests: 3, per: day, each: true}}]
    few: {{models: [main/gpt-b]}}
  jwt:
    - name: corp
      issuer: {idp.issuer}
      audience: mgw
      client: email
      clock_skew: 0
      tags: {{department: /department}}
      rules: [{{when: {{role: ops}}, groups: [ops]}}, {{when: {{role: few}}, groups: [few]}}]
dashboard: {{groups: [ops]}}
limit_store: {store}
"""


@dataclass
class Operated:
    """A gateway, and all that it has answered."""

    gateway: GatewayProcess
    idp: Idp
    config: str
    answers: list[bytes] = field(default_factory=list)

    def token(self, email: str = "ann@example.com", role: str = "ops", **claims: Any) -> str:  # Any: JSON
        return self.idp.token(alg="ES256", email=email, role=role, **claims)

    def ask(
        self, path: str, body: object = None, method: str | None = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Send a request on a connection of its own; underscores in names of headers are hyphens."""
        connection = http.client.HTTPConnection("127.0.0.1", self.gateway.port, timeout=WAIT_SECONDS)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        connection.request(method or ("GET" if body is None else "POST"), path, data, named)
        response = connection.getresponse()
        found = response.status, dict(response.getheaders()), response.read()
        connection.close()
        self.answers += [repr(found[1]).encode(), found[2]]
        return found

    def chat(self, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}", "Content_Type": "application/json"}
        return self.ask("/v1/chat/completions", CHAT, **headers)[0]

    def read(self, path: str, token: str) -> Any:  # Any: JSON
        status, _, body = self.ask(path, Authorization=f"Bearer {token}")
        assert status == 200, body
        return json.loads(body)

    def metrics(self) -> str:
        return self.ask("/metrics", x_api_key=KEY)[2].decode()

    def reload(self, text: str, generation: int) -> None:
        self.gateway.rewrite(text + "\nlisten: 127.0.0.1:0\nhooks: {jsonl: {output: stdout}}\n")
        self.gateway.signal(signal.SIGHUP)
        self.gateway.log(b"the configuration was reloaded: generation %d\n" % generation)


@pytest.fixture
def operate(
    simulator: SimulatorProcess, request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[int], Any]:  # Any: a context manager
    @contextmanager
    def started(workers: int) -> Iterator[Operated]:
        idp = Idp(simulator.url, f"{request.node.originalname[-24:].replace('_', '-')}-{workers}")
        config = config_of(idp, workers, tmp_path / "limits.db")
        with start_gateway(config) as gateway:
            gateway.log(b"issuer corp: keys added: ")
            operated = Operated(gateway, idp, config)
            token = operated.token("first@example.com")
            wait_until(
                lambda: all(operated.ask("/v1/models", x_api_key=token)[0] == 200 for _ in range(16)),
                "the keys in all processes",
            )
            yield operated

    return started


@WORKERS
def test_a_token_opens_what_the_gateway_itself_answers(operate: Callable[[int], Any], workers: int) -> None:
    with operate(workers) as operated:
        ann, few = operated.token(), operated.token("bob@example.com", "few")
        listed = operated.read("/v1/models", ann)["data"]
        assert [model["id"] for model in listed] == ["main/gpt-a"]
        assert [model["id"] for model in operated.read("/v1/models", few)["data"]] == ["main/gpt-b"]
        assert operated.ask("/v1/models/main/gpt-b", Authorization=f"Bearer {ann}")[0] == 404
        assert operated.ask("/metrics", Authorization=f"Bearer {few}")[0] == 200
        assert operated.ask(PATH, Authorization=f"Bearer {few}")[0] == 401
        for name in ("profiles", "usage", "requests", "sessions", "limits", "keys", "logs", "openapi.json"):
            assert operated.read(f"/v1/dashboard/{name}", ann)
        assert run_mgw(["requests", operated.gateway.url], environ={"MGW_KEY": ann}).returncode == 0
        expired = operated.idp.token(alg="ES256", expires_in=-9, email="ann@example.com", role="ops")
        for command in ("requests", "tail"):
            refused = run_mgw([command, operated.gateway.url], environ={"MGW_KEY": expired})
            assert refused.returncode == 1
            assert b"rejects this token: the token has expired: get a new one" in refused.stderr


@WORKERS
def test_a_session_of_a_token_ends_with_the_issuers_key_and_with_the_group(
    operate: Callable[[int], Any], workers: int
) -> None:
    with operate(workers) as operated:
        status, headers, _ = operated.ask("/ui/login", {"key": operated.token()})
        cookie = headers["Set-Cookie"].partition(";")[0]
        assert (status, operated.ask(PATH, Cookie=cookie)[0]) == (204, 200)
        assert operated.ask("/ui", Cookie=cookie)[0] == 200
        operated.idp.set_state("rotate")
        renewed = operated.token()  # its key is asked for, by the process that answers operators
        assert operated.ask(PATH, Authorization=f"Bearer {renewed}")[0] == 200
        status, headers, _ = operated.ask("/ui/login", {"key": renewed})
        cookie = headers["Set-Cookie"].partition(";")[0]
        feed = http.client.HTTPConnection("127.0.0.1", operated.gateway.port, timeout=WAIT_SECONDS)
        feed.request("GET", "/v1/dashboard/events", headers={"Cookie": cookie})
        events = feed.getresponse()
        assert events.status == 200
        text = operated.config
        operated.reload(text.replace("{groups: [ops]}\n", "{groups: [few]}\n"), 2)
        assert b"retry: " in events.read()  # to the end
        feed.close()
        assert operated.ask(PATH, Cookie=cookie)[0] == 401
        operated.reload(text, 3)
        assert operated.ask(PATH, Cookie=cookie)[0] == 200
        assert operated.ask("/ui/logout", {}, Cookie=cookie)[0] == 204
        assert operated.ask(PATH, Cookie=cookie)[0] == 401


def series(metrics: str, start: str) -> dict[str, float]:
    """Return the samples that begin so, by their labels."""
    lines = [line for line in metrics.splitlines() if line.startswith(start + "{")]
    return {
        labels: float(value)
        for labels, _, value in (line.removeprefix(start).rpartition(" ") for line in lines)
    }


@WORKERS
def test_metrics_know_issuers_and_no_person(operate: Callable[[int], Any], workers: int) -> None:
    with operate(workers) as operated:
        ann, odd = operated.token(), operated.token(ODD, department="R&D/Ümlaut = 1")
        assert [operated.chat(ann) for _ in range(5)] == [200, 200, 200, 429, 429]
        assert operated.chat(odd) == 200
        assert operated.chat(operated.token(role="nobody")) == 403
        for _ in range(2):
            assert operated.chat(operated.idp.flawed_token("bad-signature", alg="ES256")) == 401
        assert (
            operated.ask(PATH, Authorization=f"Bearer {operated.idp.token(alg='ES256', exp=1.0)}")[0] == 401
        )
        operated.gateway.events(6)
        wait_until(lambda: 'client="corp"' in operated.metrics(), "the records")
        wait_until(
            lambda: sum(series(operated.metrics(), "mgw_requests_total").values()) == 6, "all of the records"
        )
        metrics = operated.metrics()
        assert "ann@" not in metrics
        assert "Zo" not in metrics
        by_reason = series(metrics, "mgw_token_rejections_total")
        early = by_reason.pop('{issuer="corp",reason="keys_unavailable"}', 0)
        assert series(metrics, "mgw_edge_rejections_total")['{reason="token"}'] == 3 + early
        assert series(metrics, "mgw_edge_rejections_total")['{reason="rule"}'] == 1
        assert by_reason == {
            '{issuer="corp",reason="expired"}': 1,
            '{issuer="corp",reason="no_rule"}': 1,
            '{issuer="corp",reason="signature"}': 2,
        }
        refused = series(metrics, "mgw_client_limit_rejections_total")
        assert refused['{client="corp",limit="requests_per_day"}'] == 2
        assert all('client="corp"' in labels for labels in series(metrics, "mgw_tokens_total"))
        assert set(series(metrics, "mgw_limit_used")) == {'{holder="group:ops",limit="requests_per_month"}'}
        assert series(metrics, "mgw_jwks_fetches_total")['{issuer="corp",result="ok"}'] >= 1

        def used() -> dict[str, float]:
            rows = operated.read("/v1/dashboard/limits", ann)["limits"]
            return {row["holder"]: row["used"] for row in rows}

        wait_until(lambda: used()["group:ops"] == 4, "the end of the last request")
        assert series(operated.metrics(), "mgw_limit_used").popitem()[1] == 4
        holders = used()
        assert holders[f"group:ops/corp:{ODD}"] == 1
        assert holders["group:ops/corp:ann@example.com"] == 3
        found = operated.read("/v1/dashboard/usage?by=client", ann)["groups"]
        assert {group.get("key") for group in found} == {"corp:ann@example.com", f"corp:{ODD}"}
        found = operated.read("/v1/dashboard/usage?by=tag:department", ann)["groups"]
        assert {group.get("key"): group["requests"] for group in found} == {None: 5, "R&D/Ümlaut = 1": 1}
        only = urlencode({"client": f"corp:{ODD}"})
        (event,) = operated.read(f"/v1/dashboard/requests?{only}", ann)["requests"]
        assert (event["client"], event["tags"]) == (f"corp:{ODD}", {"department": "R&D/Ümlaut = 1"})
        assert operated.read(f"/v1/dashboard/usage?{only}", ann)["totals"]["requests"] == 1
        only = urlencode({"search": ODD.upper()})
        assert len(operated.read(f"/v1/dashboard/limits?{only}", ann)["limits"]) == 1


@WORKERS
def test_nothing_of_a_token_is_written_anywhere(operate: Callable[[int], Any], workers: int) -> None:
    claims: dict[str, Any] = {  # Any: JSON
        "secret_claim": "claim-of-nobody-1",
        "sub": "subject-of-nobody-2",
        "jti": "number-of-nobody-3",
    }
    claims |= {"department": {"not": "text-of-nobody-4"}}
    with operate(workers) as operated:
        idp = operated.idp
        tokens = [
            operated.token(**claims),
            operated.token(role="nobody", **claims),
            operated.token(email="line\nbreak-of-nobody-5", **claims),
            idp.token(alg="ES256", expires_in=-9, email="late-of-nobody-6", **claims),
            idp.token(alg="ES256", aud="audience-of-nobody-7", **claims),
            idp.token(alg="ES256", nbf=9e9, email="early-of-nobody-8", **claims),
            idp.token(alg="RS384", email="algorithm-of-nobody-9", **claims),
            *(idp.flawed_token(flaw, alg="ES256", **claims) for flaw in ("none", "bad-signature", "crit")),
            idp.wanted_token(alg="ES256", kid="kid-of-nobody-0", claims=claims),
        ]
        tokens.append(tokens[0] + "A" * 20_000)
        for token in tokens:
            operated.chat(token)
            operated.ask("/v1/messages", CHAT, x_api_key=token, Content_Type="application/json")
            operated.ask(f"/v1beta/models/gpt-a:generateContent?key={token}", {"contents": []})
            operated.ask(f"/{token}", Authorization=f"Bearer {token}")
            operated.ask(PATH, Authorization=f"Bearer {token}")
            operated.ask(f"/ui?key={token}", x_api_key=token)
            operated.ask("/ui/login", {"key": token})
            operated.ask(
                "/v1/realtime?model=main/gpt-a", Sec_WebSocket_Protocol=f"openai-insecure-api-key.{token}"
            )
        operated.metrics()
        for name in ("profiles", "usage", "requests", "limits", "keys", "logs", "sessions"):
            operated.read(f"/v1/dashboard/{name}", tokens[0])
        gateway = operated.gateway
        assert gateway.stop() == 0
        written = {"log": gateway.stderr.data, "events": gateway.stdout.data}
        written["answers"] = b"\n".join(operated.answers)
    assert b"corp:ann@example.com" in written["events"]
    assert b"edge_auth.jwt corp: tokens rejected: " in written["log"]
    for token in tokens:
        header, payload, signature = token.split(".", 2)
        digest = sha256(token.encode()).hexdigest()
        for part in (
            token,
            header[-24:],
            payload[-24:],
            payload[:40],
            signature[:24] or "of-nobody",
            digest[:12],
        ):
            for name, data in written.items():
                place = data.find(part.encode())
                assert place < 0, (name, data[max(0, place - 200) : place + 80])
    for name, data in written.items():
        assert b"of-nobody" not in data.replace(b"kid-of-nobody-0", b""), name
