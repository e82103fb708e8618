"""Words that people bring from other programs, and the settings that they mean.

A word leads to a setting of the same block, by its name, or to a sentence that says what to write.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mgw.config.examples import BLOCKS
from mgw.config.problems import ANY, Path


def _all(meant: str, *words: str) -> dict[str, str]:
    return dict.fromkeys(words, meant)


def _write(setting: str) -> str:
    return f": write {setting}: {BLOCKS[(setting,)]}"


_LOG: Final = (
    ": the log has one level and goes to standard error; to write it to a file, use mgw run --log-file FILE"
)
_LIMITS: Final = (
    ": limits belong to a key, as in edge_auth: {keys: [{name: alice, requests_per_minute: 600}]}, to a "
    "group or to edge_auth"
)
_BUDGET: Final = ": write limits: [{usd: 50, per: month}]"
_OFF: Final = ": to turn a provider off, remove it or put # before its lines"
_RETRIES: Final = {
    **_all("attempts", "count", "max", "max_retries", "num_retries", "times"),
    **_all("statuses", "codes", "status_codes"),
}

_ROW: Final = {
    **_all(": money is counted in US dollars, with usd", "eur", "euro", "euros", "gbp", "chf", "currency"),
    **_all("usd", "cost", "dollars", "budget", "max_budget", "money"),
    **_all("per", "window", "period", "interval", "duration", "budget_duration"),
    **_all("in_flight", "concurrency", "max_in_flight", "max_parallel_requests"),
}

OTHER_WORDS: Final[Mapping[Path, Mapping[str, str]]] = MappingProxyType(
    {
        (): {
            **_all(': write listen: "127.0.0.1:8787"', "port", "host", "bind", "address", "addr", "server"),
            **_all(_write("defaults"), "default", "default_provider", "default_model"),
            **_all(_write("edge_auth"), "auth", "authentication", "api_keys", "gateway_keys", "virtual_keys"),
            **_all(_write("edge_auth"), "keys", "keys_env", "master_key"),
            **_all(" at this place: list models below their provider, in providers.<name>.models", "models"),
            **_all(": write aliases: {fast: [main/gpt-5.4, backup/gpt-5.4]}", "fallback", "failover"),
            **_all(_write("aliases"), "routing", "router"),
            **_all(_write("tls"), "ssl", "https"),
            **_all(_write("dashboard"), "ui", "admin", "console"),
            **_all(_write("prices"), "pricing", "price", "costs", "cost"),
            **_all(_write("hooks"), "callbacks", "webhooks", "sinks", "usage"),
            **_all(_LIMITS, "rate_limit", "rate_limits", "limits"),
            **_all(_write("log"), "logs", "logging", "log_format", "access_log"),
            **_all(_LOG, "log_level", "log_file"),
            **_all(": metrics need no setting and are at /metrics", "metrics", "prometheus"),
        },
        ("providers", ANY): {
            **_all("base_url", "url", "endpoint", "api_base", "api_url", "base", "baseurl", "host", "uri"),
            **_all("base_url", "address", "server"),
            **_all("kind", "type", "provider", "vendor", "dialect", "format", "protocol", "api", "api_type"),
            **_all("api_key", "key", "token", "secret", "access_token", "api_token", "password"),
            **_all("api_key_env", "env", "env_var", "key_env", "token_env", "api_key_env_var"),
            **_all(_OFF, "enabled", "disabled"),
            **_all(
                "aws", *("aws_region_name", "aws_access_key_id", "aws_secret_access_key", "aws_session_token")
            ),
            **_all("aws", "aws_role_name", "aws_session_name", "aws_profile_name", "aws_sts_endpoint"),
        },
        ("providers", ANY, "aws"): {
            **_all("region", "aws_region", "region_name", "aws_region_name"),
            **_all("profile", "profile_name", "aws_profile", "aws_profile_name"),
            **_all("access_key_id", "aws_access_key_id", "access_key", "key_id"),
            **_all("secret_access_key", "aws_secret_access_key", "secret_key", "secret"),
            **_all("session_token", "aws_session_token", "token"),
            **_all("role_arn", "role", "assume_role", "aws_role_name", "aws_role_arn"),
            **_all("session_name", "role_session_name", "aws_session_name"),
            **_all("sts_url", "sts_endpoint", "endpoint_url_sts", "aws_sts_endpoint"),
            **_all("service", "service_name", "signing_name"),
        },
        ("edge_auth", "keys", ANY): {
            **_all("requests_per_minute", "rpm", "rpm_limit"),
            **_all("tokens_per_minute", "tpm", "tpm_limit"),
            **_all("max_in_flight", "concurrency", "max_parallel_requests"),
            **_all("key", "token", "value", "secret", "api_key"),
            **_all("key_env", "env", "env_var", "api_key_env"),
            **_all("name", "id", "user", "alias", "key_alias", "client"),
            **_all("sha256", "hash", "digest", "key_hash"),
            **_all("models", "allowed_models"),
            **_all("groups", "group", "team", "teams", "team_id"),
            **_all("tags", "metadata", "labels"),
            **_all("expires", "expiry", "expires_at", "valid_until", "duration"),
            **_all("disabled", "blocked", "is_disabled"),
            **_all(_BUDGET, "max_budget", "budget", "budgets", "budget_duration"),
        },
        ("edge_auth", "jwt", ANY): {
            **_all("issuer", "iss", "issuer_url", "authority", "oidc_issuer", "url"),
            **_all("audience", "aud", "audiences", "client_id"),
            **_all("jwks_url", "jwks_uri", "jwks", "keys_url"),
            **_all("algorithms", "alg", "algs", "algorithm", "signing_algorithms"),
            **_all("client", "claim", "username_claim", "user_claim", "subject"),
            **_all("clock_skew", "leeway", "skew", "clock_tolerance"),
            **_all("rules", "rule", "roles", "conditions"),
            **_all("typ", "type", "types"),
            **_all("name", "id", "provider"),
        },
        ("edge_auth", "jwt", ANY, "rules", ANY): {
            **_all("when", "if", "claims", "match", "condition"),
            **_all("groups", "group", "teams"),
        },
        ("edge_auth",): {
            **_all("jwt", "oidc", "oauth", "issuers", "tokens", "idp", "sso", "openid"),
            **_all("groups", "group", "teams"),
            **_all(_BUDGET, "max_budget", "budget", "budgets"),
            **_all("timezone", "tz", "time_zone"),
        },
        ("edge_auth", "groups", ANY): {
            **_all("models", "allowed_models"),
            **_all("tags", "metadata", "labels"),
            **_all(_BUDGET, "max_budget", "budget", "budgets", "budget_duration"),
        },
        ("edge_auth", "limits", ANY): _ROW,
        ("edge_auth", "groups", ANY, "limits", ANY): _ROW,
        ("edge_auth", "keys", ANY, "limits", ANY): _ROW,
        ("prices", "rows", ANY): {
            **_all("input", "prompt", "input_price", "input_cost", "prompt_price"),
            **_all("output", "completion", "output_price", "output_cost", "completion_price"),
            **_all("cache_read", "cached", "cached_input"),
        },
        ("tls",): {
            **_all("cert_file", "cert", "certificate", "crt"),
            **_all("key_file", "key", "private_key"),
        },
        ("log",): {
            **_all("format", "encoding", "style", "type"),
            **_all("requests", "access", "access_log", "http"),
            **_all(_LOG, "file", "level", "output", "path"),
        },
        ("dashboard",): _all("keys", "key", "password", "token"),
        ("retries",): _RETRIES,
        ("providers", ANY, "retries"): _RETRIES,
        ("hooks", "jsonl"): _all("output", "path", "file", "filename"),
        ("hooks", "sqlite"): _all("path", "file", "filename", "database", "db"),
        ("hooks", "webhook"): _all("url", "endpoint", "address", "uri"),
        ("hooks", "otlp"): _all("endpoint", "url", "address", "host"),
        ("fleet", "redis"): _all("url", "address", "uri"),
    }
)
"""The words by the place of the block, in lower case."""


def meant_by(word: str, above: Path) -> str | None:
    """Return the setting that a word means in the block at ``above``, or what to say of it."""
    for place, words in OTHER_WORDS.items():
        if len(place) == len(above) and all(
            wanted in (ANY, part) for wanted, part in zip(place, above, strict=True)
        ):
            return words.get(word.lower())
    return None
