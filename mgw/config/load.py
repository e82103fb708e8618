"""The text of a configuration file and the environment, turned into a :class:`~mgw.config.settings.Config`.

In three steps: the YAML with its positions, the shape of each block, what the settings ask of one another.
What a step finds wrong is noted and taken out, and the next goes on with the rest, so that an operator sees
all problems of a file at once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from mgw.config.checks import checked_name, checked_text
from mgw.config.environment import LoadContext, spool_below
from mgw.config.field_types import FAMILY_SPELLINGS, SPEAKING
from mgw.config.listen import EndpointText, Listen, parse_listen
from mgw.config.problems import NOT_AVAILABLE, NOT_AVAILABLE_MESSAGE, Path, Report, is_among
from mgw.config.provider import Provider, normalize_provider
from mgw.config.quoting import HIDDEN, nearest_word, quote, suggestion
from mgw.config.settings import (
    Config,
    EdgeAuthSettings,
    HooksSettings,
    RoutesSettings,
    SpoolSettings,
    TlsSettings,
)
from mgw.config.settings_base import (
    FROM_FILE,
    UNKNOWN_KEY,
    WRONG_TYPE,
    WRONG_VALUE,
    known_keys,
    required_keys,
    set_keys,
)
from mgw.config.translation import TranslationSettings
from mgw.config.yaml_document import Document, Value, read
from mgw.secret import Secret
from mgw.vocabulary import DEFAULT_SPELLINGS, Family

_NO_BLANK: Final = "put a space after the colon"
_LIKE_A_SETTING: Final = re.compile(r"[a-z]+(?:[_-][a-z]+)*[0-9]?")
_SHAPES: Final = MappingProxyType(
    {"list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping"}
)

_EXAMPLES: Final[Mapping[Path, str]] = MappingProxyType(
    {
        ("providers",): 'a mapping of names, such as "main: {kind: openai, api_key_env: OPENAI_API_KEY}"',
        ("aliases",): 'a mapping of names, such as "fast: main/gpt-5.4-mini"',
    }
)


def parse(
    text: str, name: str, environ: Mapping[str, str], route_names: frozenset[str] | None = None
) -> Config:
    """Read a configuration.

    :param text: the YAML.
    :param name: the file's name, for messages.
    :param environ: the environment, for ``*_env`` settings, the ``GATEWAY_*`` overrides and the place of
        the state directory.
    :param route_names: what ``routes.deny`` may name beside families; ``None``: anything.
    :raises ConfigError: with every problem of the file.
    """
    report = Report(name)
    document = read(text, report)
    if document.value is None:
        report.raise_if_any()
        report.add(("providers",), "missing (the file is empty), expected at least one provider with a kind")
    elif not isinstance(document.value, dict):
        report.add((), f"expected a mapping of settings, found {document.found(())}")
        report.raise_if_any()
    settings = document.value if isinstance(document.value, dict) else {}
    config = _shape(settings, document, report)
    providers = settings.get("providers")
    unknown = report.has_problem_below(("providers",)) and not isinstance(providers, dict)
    names = None if unknown else tuple(providers) if isinstance(providers, dict) else ()
    return normalize(config, LoadContext(report, environ, names, route_names))


def _shape(settings: dict[str, Value], document: Document, report: Report) -> Config:
    """Check each block by itself; what is wrong is noted and left out."""
    try:
        return Config.model_validate(settings, context=FROM_FILE)
    except ValidationError as error:
        faults = error.errors(include_input=False, include_url=False, include_context=False)
    sound: Value = settings
    for fault in sorted(faults, key=_known):
        path: Path = fault["loc"]
        sound = _without(sound, path)
        if report.has_problem_at(path) or (report.is_misspelled(path) and path not in report.marks):
            continue
        if fault["type"] == UNKNOWN_KEY:
            _unknown(path, report)
        else:
            report.add(path, _words(fault["type"], fault["msg"], path, document))
    return Config.model_validate(sound, context=FROM_FILE)


def _words(kind: str, message: str, path: Path, document: Document) -> str:
    if kind == WRONG_VALUE:
        return message
    if kind == WRONG_TYPE and path not in document.report.marks:
        return f"missing, expected {message}"
    if kind == WRONG_TYPE:
        return f"expected {message}, found {document.found(path)}"
    shape = _EXAMPLES.get(path) or _SHAPES.get(kind, "another value")
    found = document.found(path)
    hint = f" ({_NO_BLANK})" if found == "text" and "mapping" in shape and document.lacks_blank(path) else ""
    return f"expected {shape}, found {found}{hint}"


def _known(fault: ErrorDetails) -> bool:
    """Put unknown keys first: what they may mean is not missing."""
    return fault["type"] != UNKNOWN_KEY


def _unknown(path: Path, report: Report) -> None:
    """Note an unknown key: by its name, if a setting could be named like that."""
    if is_among(path, NOT_AVAILABLE):
        report.add(path, NOT_AVAILABLE_MESSAGE)
        return
    above, last = path[:-1], str(path[-1])
    known = known_keys(Config, above)
    meant = nearest_word(last, known)
    named = path if meant or _LIKE_A_SETTING.fullmatch(last) else (*above, HIDDEN)
    report.add(path, f"unknown key{suggestion(last, known)}", named=named)
    if meant:
        report.note_misspelling((*above, meant))


def _without(value: Value, path: Path) -> Value:
    """Copy a value but for the setting that ``path`` leads to; a list with a fault in it goes whole."""
    if not path or not isinstance(value, dict):
        return value
    head, *rest = path
    kept = {key: inner for key, inner in value.items() if key != head}
    if isinstance(head, str) and isinstance(value.get(head), dict) and rest:
        kept[head] = _without(value[head], tuple(rest))
    return kept


LISTEN_VARIABLE: Final = "GATEWAY_LISTEN"
CERT_VARIABLE: Final = "GATEWAY_TLS_CERT"
KEY_VARIABLE: Final = "GATEWAY_TLS_KEY"
_VOICES: Final = MappingProxyType(
    {spelling: family for spelling, family in FAMILY_SPELLINGS.items() if family in SPEAKING}
)


def normalize(config: Config, context: LoadContext) -> Config:
    """Fill in what a file leaves to the environment and to defaults.

    :raises ConfigError: with all that is wrong, what the report held before included.
    """
    listen = _listen(config.listen, context)
    found = {
        "listen": listen,
        "providers": _providers(config, context),
        "defaults": _defaults(config.defaults, context),
        "aliases": _aliases(config.aliases, context),
        "edge_auth": _edge_auth(config.edge_auth, context),
        "routes": _routes(config.routes, context),
        "hooks": _hooks(config.hooks, context),
        "tls": _tls(config.tls, listen, context),
        "spool": _spool(config.spool, context),
        "translation": _translation(config.translation, context),
    }
    context.report.raise_if_any()
    return config.model_copy(update=found)


def _spool(spool: SpoolSettings, context: LoadContext) -> SpoolSettings:
    if "dir" in set_keys(spool):
        return spool
    return spool.model_copy(update={"dir": spool_below(context.environ)})


def _routes(routes: RoutesSettings, context: LoadContext) -> RoutesSettings:
    found = []
    for position, name in enumerate(routes.deny):
        family = FAMILY_SPELLINGS.get(name)
        if family is None:
            context.need_route(name, FAMILY_SPELLINGS, ("routes", "deny", position))
        found.append(name if family is None else family.value)
    return routes.model_copy(update={"deny": tuple(dict.fromkeys(found))})


def _providers(config: Config, context: LoadContext) -> dict[str, Provider]:
    if not context.provider_names and not context.report.has_problem_below(("providers",)):
        context.report.add(
            ("providers",), "missing, expected at least one provider, with a name, kind and base_url"
        )
    return {
        name: normalize_provider(name, provider, config.timeouts, context)
        for name, provider in config.providers.items()
    }


def _defaults(defaults: dict[Family, str], context: LoadContext) -> dict[Family, str]:
    found: dict[Family, str] = {}
    spelled: dict[Family, str] = {}
    for spelling, provider in defaults.items():
        path = ("defaults", spelling)
        family = DEFAULT_SPELLINGS.get(spelling)
        if family is None:
            context.report.add(path, f"unknown key{suggestion(spelling, DEFAULT_SPELLINGS)}")
        elif family in spelled:
            context.report.add(
                path, f"another spelling of {spelled[family]}, which is also set: keep only one"
            )
        else:
            spelled[family] = spelling
            found[family] = provider
            context.need_provider(provider, path)
    return found


def _twice(spelling: str) -> str:
    return f"another spelling of {spelling}, which is also set: keep only one"


def _aliases(aliases: dict[str, str], context: LoadContext) -> dict[str, str]:
    for alias, target in aliases.items():
        path = ("aliases", alias)
        try:
            checked_name(alias)
        except ValueError as error:
            context.report.add(path, f"as an alias: {error}")
        provider, _, model = target.partition("/")
        if provider and model:
            context.need_provider(provider, path)
        else:
            context.report.add(path, f"expected <provider>/<model>, found {quote(target)}")
    return aliases


def _edge_auth(edge_auth: EdgeAuthSettings, context: LoadContext) -> EdgeAuthSettings:
    keys: list[Secret] = list(edge_auth.keys)
    by_name = ("edge_auth", "keys_env")
    if edge_auth.keys_env is not None:
        keys += context.keys_from(edge_auth.keys_env, by_name)
    excused = context.report.has_problem_below(("edge_auth", "keys")) or context.report.has_problem_below(
        by_name
    )
    if edge_auth.enabled and not keys and not excused:
        context.report.add(("edge_auth", "enabled"), "edge auth needs a key: set edge_auth.keys or keys_env")
    return edge_auth.model_copy(update={"keys": tuple(dict.fromkeys(keys))})


def _hooks(hooks: HooksSettings, context: LoadContext) -> HooksSettings:
    for name, hook in hooks:
        for key in () if hook is None else required_keys(type(hook)):
            path = ("hooks", name, key)
            if getattr(hook, key) is None and not context.report.has_problem_below(path):
                words = (type(hook).model_fields[key].description or "").removesuffix(".")
                context.report.add(path, f"missing, expected {words}")
    return hooks


def _listen(listen: Listen | EndpointText, context: LoadContext) -> Listen | EndpointText:
    override = context.environ.get(LISTEN_VARIABLE)
    if override:
        try:
            return parse_listen(override)
        except ValueError as error:
            context.report.add_environment(LISTEN_VARIABLE, str(error))
    return listen


def _tls(tls: TlsSettings | None, listen: Listen | EndpointText, context: LoadContext) -> TlsSettings | None:
    """Settle HTTPS: each half may come from the file or from the environment, and both are needed."""
    cert_file = context.environ.get(CERT_VARIABLE) or (tls and tls.cert_file)
    key_file = context.environ.get(KEY_VARIABLE) or (tls and tls.key_file)
    if isinstance(listen, EndpointText) and listen.brings_tls and (cert_file or key_file):
        context.report.add(("tls",), "the endpoint in listen already speaks TLS: keep only one of them")
    halves = (("cert_file", cert_file, CERT_VARIABLE), ("key_file", key_file, KEY_VARIABLE))
    if tls is not None or cert_file or key_file:
        for half, value, variable in halves:
            if not value and not context.report.has_problem_below(("tls", half)):
                context.report.add(("tls", half), f"missing, TLS needs both files: set it or {variable}")
    if not cert_file or not key_file:
        return None
    return TlsSettings.model_construct(cert_file=cert_file, key_file=key_file)


def _translation(translation: TranslationSettings, context: LoadContext) -> TranslationSettings:
    return translation.model_copy(update={"voices": _voices(translation.voices, context)})


def _voices(voices: dict[Family, dict[str, str]], context: LoadContext) -> dict[Family, dict[str, str]]:
    found: dict[Family, dict[str, str]] = {}
    spelled: dict[Family, str] = {}
    for spelling, names in voices.items():
        path: Path = ("translation", "voices", spelling)
        family = FAMILY_SPELLINGS.get(spelling)
        if family is None:
            context.report.add(path, f"unknown key{suggestion(spelling, _VOICES)}")
        elif family not in SPEAKING:
            context.report.add(path, f"{family} does not support speech, expected {' or '.join(SPEAKING)}")
        elif family in spelled:
            context.report.add(
                path, f"another spelling of {spelled[family]}, which is also set: keep only one"
            )
        else:
            spelled[family] = spelling
            found[family] = _voice_names(names, path, context)
    return found


def _voice_names(names: dict[str, str], path: Path, context: LoadContext) -> dict[str, str]:
    for asked in names:
        try:
            checked_text(asked)
        except ValueError as error:
            context.report.add((*path, asked), f"as a voice: {error}")
    return names
