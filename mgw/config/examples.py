"""An example of each block and list, for messages about a value of another type in its place.

A test takes each of them for a value of its place, and asks for one wherever a block or a list is.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mgw.config.hooks import SINKS
from mgw.config.problems import ANY, Path

_PROVIDER: Final = "{kind: openai, api_key_env: OPENAI_API_KEY}"
_TIMEOUTS: Final = "{first_byte: 600, idle: 300}"
_RETRIES: Final = "{attempts: 2}"
_HEADERS: Final = "{X-Team: blue}"
_REDIS: Final = "{url_env: REDIS_URL}"
_CHAT_AND_IMAGES: Final = "{text: true, image_gen: true}"
_NAMED_KEY: Final = "{name: alice, key_env: ALICE_KEY}"
_GROUP: Final = '{models: ["claude-*"], tags: {team: nlp}}'
_LIMIT: Final = "{tokens: 2000000, per: day}"
_SHARES: Final = "[0.5, 0.8]"
_TAGS: Final = "{team: nlp}"
_GROUP_NAMES: Final = "[research]"
_PREVIOUS: Final = f"{{sha256: '{'0' * 64}', expires: 2027-03-31}}"
_PATTERNS: Final = '["claude-*", "gpt-5*"]'
_ORIGINS: Final = '["https://app.example.com"]'
_STATUSES: Final = "[429, 503]"
_PRICE: Final = "{model: gpt-5, input: 1.25, output: 10}"
_TIER: Final = "{above: 200000, input: 2.5, output: 15}"
_SERVICE_TIER: Final = "{input: 0.625, output: 5}"
_BODY: Final = "{match: {dialect: messages}, remove: [context_management], cap: {max_tokens: 64000}}"
_TARGETS: Final = "[main/gpt-5.4, main/gpt-5.4-mini]"
_TOKENS: Final = '{anthropic-beta: ["context-management-*"]}'
_ADDED_TOKENS: Final = "{anthropic-beta: [context-1m-2025-08-07]}"
_DEFAULTS: Final = "{temperature: 0.2}"
_SET: Final = "{metadata.team: blue}"
_MODEL: Final = "{match: qwen3*, family: openai}"

_WHEN: Final = '{email: "*@example.com"}'
_RULE: Final = f"{{when: {_WHEN}, groups: [research]}}"
_ISSUER: Final = (
    '{name: corp, issuer: "https://login.example.com/realms/main", audience: mgw, client: email, '
    f"rules: [{_RULE}]}}"
)


def _of_body_rules(place: Path) -> dict[Path, str]:
    return {
        (*place, "match"): "{dialect: messages}",
        (*place, "default"): _DEFAULTS,
        (*place, "set"): _SET,
        (*place, "cap"): "{max_tokens: 64000}",
    }


def _lists_of_body_rules(place: Path) -> dict[Path, str]:
    return {
        (*place, "match", "model"): _PATTERNS,
        (*place, "match", "dialect"): "[chat, responses]",
        (*place, "match", "client"): "[alice, bob]",
        (*place, "remove"): "[user]",
    }


BLOCKS: Final[Mapping[Path, str]] = MappingProxyType(
    {
        ("aliases",): "{fast: main/gpt-5.4-mini}",
        ("aliases", ANY): f"{{targets: {_TARGETS}, display_name: Fast}}",
        ("aliases", ANY, "body", ANY): _BODY,
        **_of_body_rules(("aliases", ANY, "body", ANY)),
        ("caching",): "{auto_breakpoints: {enabled: true}}",
        ("caching", "auto_breakpoints"): "{enabled: true}",
        ("cors",): f"{{origins: {_ORIGINS}}}",
        ("dashboard",): "{keys_env: MGW_DASHBOARD_KEYS}",
        ("defaults",): "{openai_dialect: main}",
        ("edge_auth",): "{enabled: true, keys_env: MGW_EDGE_KEYS}",
        ("edge_auth", "groups"): f"{{research: {_GROUP}}}",
        ("edge_auth", "groups", ANY): _GROUP,
        ("edge_auth", "groups", ANY, "limits", ANY): _LIMIT,
        ("edge_auth", "groups", ANY, "tags"): _TAGS,
        ("edge_auth", "jwt", ANY): _ISSUER,
        ("edge_auth", "jwt", ANY, "rules", ANY): _RULE,
        ("edge_auth", "jwt", ANY, "rules", ANY, "when"): _WHEN,
        ("edge_auth", "jwt", ANY, "tags"): "{department: /department}",
        ("edge_auth", "keys", ANY, "limits", ANY): _LIMIT,
        ("edge_auth", "keys", ANY, "previous"): _PREVIOUS,
        ("edge_auth", "keys", ANY, "tags"): _TAGS,
        ("edge_auth", "limits", ANY): _LIMIT,
        ("fleet",): f"{{redis: {_REDIS}}}",
        ("fleet", "redis"): _REDIS,
        ("health_checks",): "{enabled: true}",
        ("hooks",): "{jsonl: {output: stdout}}",
        **{("hooks", name): sink.example for name, sink in SINKS.items()},
        ("hooks", "otlp", "headers"): "{Authorization: {env: OTLP_AUTHORIZATION}}",
        ("hooks", "webhook", "headers"): "{Authorization: {env: WEBHOOK_AUTHORIZATION}}",
        ("log",): "{format: json, requests: one}",
        ("prices",): "{file: prices.yaml}",
        ("prices", "rows", ANY): _PRICE,
        ("prices", "rows", ANY, "inference_geo"): "{us: 1.1}",
        ("prices", "rows", ANY, "service_tiers"): f"{{flex: {_SERVICE_TIER}}}",
        ("prices", "rows", ANY, "service_tiers", ANY): _SERVICE_TIER,
        ("prices", "rows", ANY, "service_tiers", ANY, "tiers", ANY): _TIER,
        ("prices", "rows", ANY, "tiers", ANY): _TIER,
        ("profiles",): "{example: {file: /etc/mgw/example.yaml}}",
        ("profiles", ANY): "{file: /etc/mgw/example.yaml}",
        ("providers",): f"{{main: {_PROVIDER}}}",
        ("providers", ANY): _PROVIDER,
        ("providers", ANY, "aws"): "{region: us-east-1, profile: llm}",
        ("providers", ANY, "body", ANY): _BODY,
        **_of_body_rules(("providers", ANY, "body", ANY)),
        ("providers", ANY, "capabilities"): _CHAT_AND_IMAGES,
        ("providers", ANY, "headers"): f"{{set: {_HEADERS}}}",
        ("providers", ANY, "headers", "set"): _HEADERS,
        ("providers", ANY, "headers", "remove_tokens"): _TOKENS,
        ("providers", ANY, "headers", "add_tokens"): _ADDED_TOKENS,
        ("providers", ANY, "oauth"): (
            '{token_url: "https://login.example.com/token", client_id_env: CLIENT_ID, '
            "client_secret_env: CLIENT_SECRET}"
        ),
        ("providers", ANY, "oauth", "extra"): "{tenant: blue}",
        ("providers", ANY, "oauth", "headers"): _HEADERS,
        ("providers", ANY, "pool"): "{credentials: [one, two], profile: example}",
        ("providers", ANY, "retries"): _RETRIES,
        ("providers", ANY, "timeouts"): _TIMEOUTS,
        ("realtime",): "{max_sessions: 100}",
        ("retries",): _RETRIES,
        ("routes",): "{deny: [images]}",
        ("spool",): "{dir: /var/lib/mgw/spool}",
        ("stream_keepalive",): "{interval: 15}",
        ("timeouts",): _TIMEOUTS,
        ("tls",): "{cert_file: /etc/mgw/cert.pem, key_file: /etc/mgw/key.pem}",
        ("translation",): "{responses: {enabled: true}}",
        ("translation", "models", ANY): _MODEL,
        ("translation", "responses"): "{enabled: true}",
        ("translation", "voices"): "{gemini: {alloy: Kore}}",
        ("translation", "voices", ANY): "{alloy: Kore}",
    }
)
"""The examples by their places; values in the notation of YAML for one line."""

LISTS: Final[Mapping[Path, str]] = MappingProxyType(
    {
        ("aliases", ANY, "body"): f"[{_BODY}]",
        **_lists_of_body_rules(("aliases", ANY, "body", ANY)),
        ("aliases", ANY, "targets"): _TARGETS,
        ("caching", "auto_breakpoints", "targets"): "[system, tools]",
        ("cors", "origins"): _ORIGINS,
        ("dashboard", "keys"): '["mgw-a-long-random-key"]',
        ("dashboard", "groups"): _GROUP_NAMES,
        ("edge_auth", "groups", ANY, "limits"): f"[{_LIMIT}]",
        ("edge_auth", "groups", ANY, "limits", ANY, "warn"): _SHARES,
        ("edge_auth", "groups", ANY, "models"): _PATTERNS,
        ("edge_auth", "jwt"): f"[{_ISSUER}]",
        ("edge_auth", "jwt", ANY, "algorithms"): "[RS256, ES256]",
        ("edge_auth", "jwt", ANY, "audience"): "[mgw]",
        ("edge_auth", "jwt", ANY, "rules"): f"[{_RULE}]",
        ("edge_auth", "jwt", ANY, "rules", ANY, "groups"): _GROUP_NAMES,
        ("edge_auth", "jwt", ANY, "typ"): "[at+jwt]",
        ("edge_auth", "keys"): f"[{_NAMED_KEY}]",
        ("edge_auth", "keys", ANY, "groups"): _GROUP_NAMES,
        ("edge_auth", "keys", ANY, "limits"): f"[{_LIMIT}]",
        ("edge_auth", "keys", ANY, "limits", ANY, "warn"): _SHARES,
        ("edge_auth", "keys", ANY, "models"): _PATTERNS,
        ("edge_auth", "limits"): f"[{_LIMIT}]",
        ("edge_auth", "limits", ANY, "warn"): _SHARES,
        ("prices", "rows"): f"[{_PRICE}]",
        ("prices", "rows", ANY, "service_tiers", ANY, "tiers"): f"[{_TIER}]",
        ("prices", "rows", ANY, "tiers"): f"[{_TIER}]",
        ("providers", ANY, "betas"): '["context-*"]',
        ("providers", ANY, "body"): f"[{_BODY}]",
        **_lists_of_body_rules(("providers", ANY, "body", ANY)),
        ("providers", ANY, "extra_fields"): "[top_k]",
        ("providers", ANY, "headers", "add_tokens", ANY): "[context-1m-2025-08-07]",
        ("providers", ANY, "headers", "remove_tokens", ANY): '["context-management-*"]',
        ("providers", ANY, "headers", "forward"): "[x-request-tag]",
        ("providers", ANY, "headers", "remove"): "[x-internal]",
        ("providers", ANY, "models"): "[gpt-5.4, gpt-5.4-mini]",
        ("providers", ANY, "pool", "credentials"): "[one, two]",
        ("providers", ANY, "retries", "statuses"): _STATUSES,
        ("providers", ANY, "speaks"): "[chat]",
        ("realtime", "origins"): _ORIGINS,
        ("retries", "statuses"): _STATUSES,
        ("routes", "deny"): "[images, gemini]",
        ("translation", "models"): f"[{_MODEL}]",
        ("translation", "models", ANY, "efforts"): "[low, high]",
        ("translation", "models", ANY, "responses_efforts"): "[low, high]",
        ("trusted_proxies",): '["10.0.0.0/8"]',
    }
)
"""The examples of lists by their places, in the same notation."""


def example_of(path: Path, examples: Mapping[Path, str]) -> str | None:
    """Return the example for a place."""
    for pattern, example in examples.items():
        if len(pattern) == len(path) and all(
            wanted in (ANY, part) for wanted, part in zip(pattern, path, strict=True)
        ):
            return example
    return None
