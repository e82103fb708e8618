"""The sentences of the pages that name a feature as missing, and what proves each of them.

``MISSING`` has a row for each: a page, words of the sentence, and a check that is true as long as the gateway
has no such feature: a configuration that would need it is refused, a path is not served, and so on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final

import yaml

from mgw.config.load import parse
from mgw.config.problems import ConfigError
from mgw.dashboard.app import Dashboard
from mgw.nouns.errors import GatewayError, Reason
from mgw.routing.match import RouteTable
from mgw.routing.resolve import Target, check_capability
from mgw.routing.route import Treatment
from mgw.routing.routes import ROUTES
from mgw.usage.event import UsageEvent

ROOT: Final = Path(__file__).resolve().parents[2]
SOURCES: Final = ROOT / "mgw"
_SHAPES: Final = re.compile(
    r"\b(?:not (?:yet )?(?:built|implemented|supported)|not yet|cannot yet|do(?:es)? not (?:yet )?support"
    r"|no support|no equivalent|not translated|mgw (?:does not have|has no))\b"
    r"|(?<!if )(?<!where )(?<!when )(?<!that )(?<!and )(?<!because )(?<!in case )\bthere (?:is|are) no\b",
    re.IGNORECASE,
)
"""How a sentence says that a feature is missing; a condition ("if there is no …") does not."""


# What proves it -------------------------------------------------------------------------------------------


def refused(**settings: Any) -> bool:
    """Say whether the loader refuses a configuration with these settings."""
    config = {"providers": {"main": {"kind": "openai", "api_key": "k" * 24}}, **settings}
    try:
        parse(yaml.safe_dump(config), "mgw.yaml", {})
    except ConfigError:
        return True
    return False


def provider_refused(**settings: Any) -> bool:
    """Say whether the loader refuses such a provider."""
    return refused(providers={"other": {"kind": "openai", **settings}})


def key_refused(**settings: Any) -> bool:
    """Say whether the loader refuses such a gateway key."""
    key = {"name": "alice", "key": "k" * 24, **settings}
    return refused(edge_auth={"enabled": True, "keys": [key]})


def not_served(method: str, path: str) -> bool:
    """Say whether no route has the path."""
    try:
        RouteTable(ROUTES).match(method, path, None, [])
    except GatewayError as error:
        return error.reason is Reason.UNKNOWN_ROUTE
    return False


def not_implemented(path: str) -> bool:
    """Say whether every route of the path answers 501."""
    treatments = {route.treatment for route in ROUTES if route.path == path}
    return treatments == {Treatment.REFUSE}


def not_in_sources(words: str) -> bool:
    """Say whether no module of the gateway has these words."""
    modules = SOURCES.rglob("*.py")
    return not any(words in module.read_text(encoding="utf-8") for module in modules)


def no_bridge(route: str, kind: str) -> bool:
    """Say whether a route does not reach a provider of another family, with every translation on."""
    text = f"""
providers: {{other: {{kind: {kind}, api_key: {"k" * 24}}}}}
translation: {{responses: {{enabled: true, hosted_tools: drop}}}}
"""
    config = parse(text, "mgw.yaml", {})
    [row] = [row for row in ROUTES if row.name == route]
    try:
        check_capability(row, Target(config.providers["other"], "other/m", "m"), config.translation)
    except GatewayError as error:
        return error.reason in (Reason.UNSUPPORTED_BY_KIND, Reason.NOT_IMPLEMENTED)
    return False


def no_field_of_events(*names: str) -> bool:
    """Say whether usage events have no such fields."""
    return not set(names) & set(UsageEvent.__struct_fields__)


def no_label_of_metrics(name: str) -> bool:
    """Say whether no metric has such a label; another test holds the page to what is exported."""
    page = (ROOT / "docs" / "metrics.rst").read_text(encoding="utf-8")
    labels = re.findall(r"``mgw_\w+\{([^}]*)\}", page)
    return bool(labels) and not any(re.search(rf"\b{name}\b", found) for found in labels)


def no_part_of_the_dashboard(name: str) -> bool:
    """Say whether the dashboard has no such endpoints that change anything."""
    rules = [rule for rule in Dashboard.app.url_map.iter_rules() if name in rule.rule]
    return all((rule.methods or set()) <= {"GET", "HEAD", "OPTIONS"} for rule in rules)


# The table ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Missing:
    """A feature that a page calls missing."""

    page: str
    words: str
    """Of the sentence, as plain text."""
    is_missing: Callable[[], bool]


def _all(*checks: Callable[[], bool]) -> Callable[[], bool]:
    return lambda: all(check() for check in checks)


def _kinds_refused(*kinds: str) -> Callable[[], bool]:
    return _all(*(partial(provider_refused, kind=kind, base_url="https://a.example/v1") for kind in kinds))


_SIGV4: Final = partial(provider_refused, auth="aws")
_CONVERSE: Final = _all(_kinds_refused("bedrock_converse", "sagemaker"), partial(not_in_sources, "/converse"))
_NO_REALTIME_BRIDGE: Final = _all(
    partial(no_bridge, "realtime_ws", "gemini"),
    partial(no_bridge, "gemini_bidi", "openai"),
    partial(no_bridge, "responses_upgrade", "gemini"),
)
_NO_REDIS_CLUSTER: Final = _all(
    partial(not_in_sources, '"MOVED'),
    partial(refused, fleet={"redis": {"url": ["redis://a:6379/0", "redis://b:6379/0"]}}),
)
_NO_MCP: Final = _all(partial(not_served, "POST", "/mcp"), partial(refused, mcp_servers={}))
_NO_CACHE: Final = _all(partial(refused, cache={}), partial(provider_refused, cache=True))
_NO_GUARDRAILS: Final = _all(partial(refused, guardrails=[]), partial(provider_refused, guardrails=[]))
_NO_USERS: Final = _all(
    partial(refused, teams={}),
    partial(refused, users={}),
    partial(key_refused, user="a"),
)
_NO_KEYS_OVER_HTTP: Final = _all(
    partial(not_served, "POST", "/key/generate"), partial(no_part_of_the_dashboard, "keys")
)
_COMING: Final = "docs/coming-from-litellm.rst"
_COMPARISON: Final = "docs/comparison.rst"

MISSING: Final[tuple[Missing, ...]] = (
    Missing(_COMING, "mgw has no equivalent for these today", lambda: len(MISSING) > 1),
    Missing(_COMING, "there is no API that creates keys", _NO_KEYS_OVER_HTTP),
    Missing(_COMING, "there are no users with several keys", _NO_USERS),
    Missing(
        _COMING,
        "requests are not distributed among the targets of an alias",
        _all(
            partial(refused, aliases={"a": {"targets": ["main/m"], "pick": "weight"}}),
            partial(refused, aliases={"a": [{"to": "main/m", "weight": 1}]}),
        ),
    ),
    Missing(
        _COMING,
        "a provider that fails is not put into cooldown",
        _all(partial(refused, failover={"enabled": True}), partial(provider_refused, cooldown=60)),
    ),
    Missing(
        _COMING,
        "the next target is not chosen by whether a prompt is too long",
        _all(
            partial(refused, fallbacks=[]),
            partial(refused, aliases={"a": {"targets": ["main/m"], "fallback": ["context_window"]}}),
        ),
    ),
    Missing(_COMING, "there is no response cache", _all(_NO_CACHE, _NO_GUARDRAILS)),
    Missing(_COMING, "these protocols are not supported", _NO_MCP),
    Missing(
        _COMING,
        "secrets come from the environment or from files",
        _all(partial(provider_refused, api_key={"vault": "a"}), partial(refused, secrets={})),
    ),
    Missing(
        _COMING,
        "prompts and answers are never stored",
        partial(no_field_of_events, "prompt", "messages", "answer"),
    ),
    Missing(_COMING, "Bedrock's Converse API, SageMaker", _CONVERSE),
    Missing(_COMING, "managed identities of Azure", partial(provider_refused, auth="managed_identity")),
    Missing(_COMING, "are not supported", _kinds_refused("cohere", "replicate", "watsonx")),
    Missing(_COMING, "Oracle's signed requests", partial(provider_refused, auth="oci")),
    Missing("docs/providers.rst", "Oracle's signed requests (IAM)", partial(provider_refused, auth="oci")),
    Missing(_COMPARISON, "Bedrock's Converse API", _CONVERSE),
    Missing(_COMPARISON, "an MCP gateway", _NO_MCP),
    Missing(_COMPARISON, "guardrails: filters for prompts and answers", _NO_GUARDRAILS),
    Missing(_COMPARISON, "a response cache, semantic or exact", _NO_CACHE),
    Missing(_COMPARISON, "users and teams in a database", _NO_USERS),
    Missing(
        _COMPARISON, "plugins", _all(partial(refused, plugins=[]), partial(refused, hooks={"python": "a"}))
    ),
    Missing(
        _COMPARISON,
        "gRPC, HTTP/2",
        _all(partial(not_in_sources, "import h2"), partial(not_in_sources, "import grpc")),
    ),
    Missing("docs/providers.rst", "Bedrock's Converse API is not supported", _CONVERSE),
    Missing("docs/fleet.rst", "Redis Cluster is not supported", _NO_REDIS_CLUSTER),
    *(
        Missing(page, words, _NO_REALTIME_BRIDGE)
        for page, words in (
            ("docs/clients.rst", "Sessions are not translated"),
            ("docs/realtime.rst", "Sessions are not translated"),
            ("docs/resilience.rst", "sessions are not translated"),
            ("docs/contract.rst", "sessions are not translated"),
            ("docs/troubleshooting.rst", "realtime sessions are not translated"),
        )
    ),
    *(
        Missing(page, words, partial(no_bridge, "responses_compact", "gemini"))
        for page, words in (
            (
                "docs/responses.rst",
                "/v1/responses/compact and the WebSocket of the Responses API are not translated",
            ),
            ("docs/contract.rst", "/v1/responses/compact is not translated"),
        )
    ),
    Missing("docs/routes.rst", "not implemented", partial(not_implemented, "/v1/conversations")),
    Missing(
        "docs/clients.rst", "/v1/conversations returns 501", partial(not_implemented, "/v1/conversations")
    ),
    Missing("docs/metrics.rst", "No metric has the model as a label", partial(no_label_of_metrics, "model")),
    Missing(
        "docs/security.rst", "Verification cannot be turned off", partial(provider_refused, verify=False)
    ),
    Missing(
        "docs/contract.rst",
        "settings that this version does not support yet are errors",
        partial(refused, later={}),
    ),
)

BESIDE_THE_POINT: Final[dict[str, tuple[str, ...]]] = {
    "CONTRIBUTING.rst": ("calls a feature missing",),
    "docs/clients.rst": ("a host does not support a feature",),
    "docs/comparison.rst": (
        "has no equivalent for one of its fields",
        "a parameter that the provider does not support",
    ),
    "docs/contract.rst": ("there is no common format", "there is no cost_usd", "There is no [DONE]"),
    "docs/metrics.rst": ("not yet written",),
    "docs/performance.rst": ("There is no hot spot",),
    "docs/resilience.rst": ("there is no retry", "There is no pause"),
    "docs/responses.rst": ("There is no [DONE]",),
    "docs/simulator.rst": ("efforts that a model does not support", "there is no signature"),
    "docs/translation.rst": ("a host that does not support", "no equivalent"),
    "docs/troubleshooting.rst": (
        "There is no such setting",
        "there are no keys",
        "not supported ---",
        "is not supported by provider",
        "on-demand throughput is not supported for the model",
        "there is no route",
    ),
    "etc/mgw.yaml": ("by default there is no limit",),
}
"""Words of sentences of such a shape that are about something else than a feature of the gateway."""


# The pages ------------------------------------------------------------------------------------------------

_OLD: Final = {"CHANGELOG.rst"}
"""What a release brought and what it lacked then."""


def _walked() -> Iterator[str]:
    for place in ("*.rst", "docs/**/*.rst", "etc/**/*.yaml", "etc/**/*.conf", "etc/**/*.cfg"):
        for path in sorted(ROOT.glob(place)):
            name = path.relative_to(ROOT).as_posix()
            if name not in _OLD:
                yield name


WALKED: Final = tuple(_walked())


@cache
def words_of(page: str) -> str:
    """Return a page as plain text in one line: no quotes of code, no links, no signs of comments."""
    return " ".join(read_sentences(page))


@cache
def read_sentences(page: str) -> tuple[str, ...]:
    """Return the sentences of a page, as far as they can be told apart."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return tuple(
        sentence
        for paragraph in re.split(r"\n\s*\n", text)
        for sentence in re.split(r"(?<=[.:;])\s+", _plain(paragraph))
    )


def _plain(paragraph: str) -> str:
    lines = " ".join(line.strip().lstrip("#").strip() for line in paragraph.splitlines())
    return re.sub(r"`([^`<]+) <[^>]+>`_", r"\1", lines).replace("``", "")


def is_about_a_feature(sentence: str) -> bool:
    """Say whether a sentence has the shape of one that calls a feature missing."""
    return _SHAPES.search(sentence) is not None
