"""Settings of ``hooks``: a class for each sink of usage events, and their dependencies.

Source: contract 9.5, 9.7, 9.9 and 9.10.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema

from mgw.config.checks import (
    FRAMING_HEADERS,
    HEADER_VALUE,
    KEY,
    OTLP_ENDPOINT,
    TOKEN_URL,
    any_case,
    checked_field_name,
    checked_header_value,
    checked_otlp_endpoint,
    checked_webhook_url,
    text_like,
)
from mgw.config.environment import LoadContext
from mgw.config.extras import pip_install
from mgw.config.field_types import (
    FROM_VARIABLE,
    Connections,
    DiskBytes,
    FromVariable,
    OnOff,
    Seconds,
    Text,
    Variable,
    key_or,
    variable_named,
)
from mgw.config.problems import Path
from mgw.config.quoting import shown
from mgw.config.settings_base import (
    Documentation,
    EmptyIfNull,
    Omittable,
    Settings,
    block_in,
    check_with,
    documentation_of,
    expect,
    required,
    required_keys,
    setting,
    wrong_type,
    wrong_value,
)
from mgw.nouns.secret import Secret

OWN_HEADERS: Final = frozenset({"content-type", "idempotency-key", "x-gateway-signature"})
"""Headers of a webhook request that the gateway writes itself."""
OWN_OTLP_HEADERS: Final = frozenset({"content-type"})
"""Headers of an OTLP request that the gateway writes itself."""


def _header_name(own: frozenset[str]) -> dict[str, Any]:  # Any: JSON
    names = any_case(own | FRAMING_HEADERS)
    return text_like(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+") | {"not": {"pattern": f"^(?:{names})$"}}


WEBHOOK_HEADER_NAME: Final = _header_name(OWN_HEADERS)
OTLP_HEADER_NAME: Final = _header_name(OWN_OTLP_HEADERS)
STANDARD_STREAMS: Final = ("stdout", "stderr")
OTLP_PACKAGES: Final = (
    "opentelemetry.proto",
    "opentelemetry.sdk",
    "opentelemetry.exporter.otlp.proto.common",
)
OTLP_MISSING: Final = f"OpenTelemetry's SDK is not installed: {pip_install('otlp')}"


def _header_source(value: object) -> object:
    if isinstance(value, Secret | FromVariable):
        return value
    try:
        if isinstance(value, str):
            return Secret(checked_header_value(value))
        named = variable_named(value)
    except ValueError as error:
        raise wrong_value(str(error)) from None
    if named is None:
        raise wrong_type("a string in quotes or {env: NAME}")
    return named


HeaderSource = Annotated[
    Secret | FromVariable,
    PlainValidator(_header_source),
    WithJsonSchema({"anyOf": [HEADER_VALUE, FROM_VARIABLE]}),
]
"""The value of a header as a file states it; :func:`settle_hooks` reads the variables."""
WebhookUrl = Annotated[
    str,
    expect("an http:// or https:// address"),
    check_with(checked_webhook_url),
    WithJsonSchema(TOKEN_URL),
]
OtlpEndpoint = Annotated[
    str,
    expect("an http:// or https:// address"),
    check_with(checked_otlp_endpoint),
    WithJsonSchema(OTLP_ENDPOINT),
]
SigningKey = Annotated[Secret, key_or("secret_env"), WithJsonSchema(KEY)]
Events = Annotated[int, Field(gt=0, le=10_000), expect("a whole number from 1 to 10000")]
Days = Annotated[float, Field(gt=0, allow_inf_nan=False), expect("a number of days above 0")]


class SinkSettings(Settings):
    """Settings of a sink: one block of ``hooks``."""

    example: ClassVar[str]
    """What a message shows where something else stands in its place, in the notation of YAML for one line."""


class JsonlSettings(SinkSettings):
    """Usage events as JSON lines."""

    example = "{output: stdout}"
    model_config = ConfigDict(json_schema_extra={"required": ["output"]})

    output: Text = required(
        "``stdout``, ``stderr`` or the path of a file",
        "Usage events are written there as JSON, one object per line.",
    )
    rotate_bytes: Omittable[DiskBytes] = setting(
        "Size at which the file is renamed and a new one is started, in bytes",
        "The time is appended to the name of the old file. Only for files.",
        shown="never",
    )
    keep: Omittable[Connections] = setting(
        "Number of renamed files to keep", "The oldest are deleted. Requires ``rotate_bytes``.", shown="all"
    )


class WebhookSettings(SinkSettings):
    """Usage events to an HTTP endpoint."""

    example = '{url: "https://example.com/usage"}'
    model_config = ConfigDict(json_schema_extra={"required": ["url"]})

    url: WebhookUrl = Field(
        default=None,  # type: ignore[assignment]  # see Settings: required
        repr=False,
        json_schema_extra=Documentation(
            "The address that usage events are posted to",
            "Events are sent as JSON arrays; see ``docs/sinks.rst``. The address may have a query. It "
            "is never shown or logged.",
        ),
    )
    headers: EmptyIfNull[dict[str, HeaderSource]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Headers of each request",
            "A value is a string, or ``{env: NAME}`` for an environment variable. Values are never "
            "shown or logged.",
            default="empty",
        ),
    )
    """After loading, each value is a :class:`~mgw.nouns.secret.Secret`."""
    secret: Omittable[SigningKey] = setting(
        "Secret for signing requests; use ``secret_env`` to keep it out of this file",
        "``X-Gateway-Signature-256`` signs the time, the ``Idempotency-Key`` and the body, and "
        "``X-Gateway-Signature`` the body alone; see ``docs/sinks.rst``.",
    )
    secret_env: Omittable[Variable] = setting("Environment variable that contains the secret")
    batch_max: Events = setting("Maximum number of events in a request", default=100)
    flush_seconds: Seconds = setting(
        "How long an event waits to be sent together with others, in seconds", default=1.0
    )
    timeout_seconds: Seconds = setting("Time limit for each request, in seconds", default=10.0)


class SqliteSettings(SinkSettings):
    """Usage events in an SQLite file."""

    example = "{path: /var/lib/mgw/usage.db}"
    model_config = ConfigDict(json_schema_extra={"required": ["path"]})

    path: Text = required(
        "The path of an SQLite file",
        "Usage events are stored in its table ``usage_events``, with a column for each field. The "
        "file is created if it does not exist; ``mgw usage`` summarizes it.",
    )
    retention_days: Omittable[Days] = setting(
        "How many days events are kept",
        "Older ones are deleted at startup and every hour.",
        shown="indefinitely",
    )


class OtlpSettings(SinkSettings):
    """Usage events to an OpenTelemetry collector."""

    example = '{endpoint: "http://127.0.0.1:4318"}'
    model_config = ConfigDict(json_schema_extra={"required": ["endpoint"]})

    endpoint: OtlpEndpoint = Field(
        default=None,  # type: ignore[assignment]  # see Settings: required
        repr=False,
        json_schema_extra=Documentation(
            "The address of an OpenTelemetry collector that accepts OTLP over HTTP",
            "Spans are posted to ``<endpoint>/v1/traces`` and metrics to ``<endpoint>/v1/metrics``, as "
            f"protobuf; see ``docs/sinks.rst``. This requires ``{pip_install('otlp')}``.",
        ),
    )
    """The address without a trailing ``/``."""
    headers: EmptyIfNull[dict[str, HeaderSource]] = Field(
        default={},
        repr=False,
        json_schema_extra=Documentation(
            "Headers of each request",
            "A value is a string, or ``{env: NAME}`` for an environment variable. Values are never "
            "shown or logged.",
            default="empty",
        ),
    )
    """After loading, each value is a :class:`~mgw.nouns.secret.Secret`."""
    interval_seconds: Seconds = setting(
        "How often metrics are sent, in seconds",
        "Spans are sent after a second at most, or after this interval if it is shorter.",
        default=10.0,
    )


class HooksSettings(Settings):
    """Where usage events are sent."""

    jsonl: JsonlSettings | None = setting("Usage events as JSON lines")
    webhook: WebhookSettings | None = setting("Usage events to an HTTP endpoint")
    sqlite: SqliteSettings | None = setting("Usage events in an SQLite file")
    otlp: OtlpSettings | None = setting("Usage events to an OpenTelemetry collector")
    error_messages: OnOff = setting(
        "Whether usage events and warnings include the messages of provider errors",
        "The first 300 characters, without credentials, as ``error_message``. Providers may quote parts of a "
        "request in their messages.",
        default=True,
    )


def _sinks() -> Iterator[tuple[str, type[SinkSettings]]]:
    for name, field in HooksSettings.model_fields.items():
        found = block_in(field.annotation)
        if found is not None and issubclass(found[1], SinkSettings):
            yield name, found[1]


SINKS: Final = MappingProxyType(dict(_sinks()))
"""The blocks that are sinks, by their names."""


def settle_hooks(hooks: HooksSettings, context: LoadContext) -> HooksSettings:
    """Read what is left to the environment, and note what is missing or cannot be combined."""
    for name, block in SINKS.items():
        hook = getattr(hooks, name)
        for key in () if hook is None else required_keys(block):
            path = ("hooks", name, key)
            if getattr(hook, key) is None and not context.report.has_problem_below(path):
                words = documentation_of(block.model_fields[key]).summary.replace("``", "")
                context.report.add(path, f"missing, expected {words[0].lower()}{words[1:]}")
    if hooks.jsonl is not None:
        _check_rotation(hooks.jsonl, ("hooks", "jsonl"), context)
    changed: dict[str, Settings] = {}
    if hooks.webhook is not None:
        changed["webhook"] = _webhook(hooks.webhook, ("hooks", "webhook"), context)
    if hooks.otlp is not None:
        headers = _headers(hooks.otlp.headers, ("hooks", "otlp", "headers"), OWN_OTLP_HEADERS, context)
        changed["otlp"] = hooks.otlp.model_copy(update={"headers": headers})
    return hooks.model_copy(update=changed)


def has_otlp_packages(packages: Iterable[str] = OTLP_PACKAGES) -> bool:
    """Whether what ``hooks.otlp`` needs is installed; of it, only the packages around are imported."""
    try:
        return all(find_spec(package) is not None for package in packages)
    except ModuleNotFoundError:  # not even those
        return False


def _check_rotation(jsonl: JsonlSettings, path: Path, context: LoadContext) -> None:
    rotates = context.is_set(jsonl.rotate_bytes, (*path, "rotate_bytes"))
    if jsonl.keep is not None and not rotates:
        context.report.add((*path, "keep"), "requires rotate_bytes")
    if jsonl.rotate_bytes is not None and jsonl.output in STANDARD_STREAMS:
        context.report.add((*path, "rotate_bytes"), f"only files are rotated, found output {jsonl.output}")


def _webhook(webhook: WebhookSettings, path: Path, context: LoadContext) -> WebhookSettings:
    by_name = (*path, "secret_env")
    secret = webhook.secret
    if webhook.secret_env is not None:
        if context.is_set(secret, (*path, "secret")):
            context.report.add(by_name, "secret is also set: keep only one of them")
        else:
            secret = context.key_from(webhook.secret_env, by_name)
    headers = _headers(webhook.headers, (*path, "headers"), OWN_HEADERS, context)
    return webhook.model_copy(update={"secret": secret, "headers": headers})


def _headers(
    headers: dict[str, Any], path: Path, own: frozenset[str], context: LoadContext
) -> dict[str, Secret]:
    """Return headers with their values; Any: what :data:`HeaderSource` takes."""
    found: dict[str, Secret] = {}
    seen: dict[str, str] = {}
    for name, source in headers.items():
        here = (*path, name)
        lower = name.lower()
        try:
            checked_field_name(name)
        except ValueError as error:
            context.report.add(here, str(error))
        if lower in own | FRAMING_HEADERS:
            context.report.add(here, f"{name} is set by the gateway itself")
        elif lower in seen:
            context.report.add(here, f"the same header as {shown(seen[lower])}: keep only one")
        seen[lower] = name
        value = source
        if isinstance(source, FromVariable):
            value = context.text_from(source.variable, here, checked_header_value)
        if value is not None:
            found[name] = value
    return found
