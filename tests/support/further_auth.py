"""A gateway that knows a further ``auth``, by its row, and by a module as :mod:`tests.support.timed_auth`.

It is a process of its own, since the values of ``auth`` are an enumeration.  It writes what the loader, the
schema and the credentials make of it.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
ROW: Final = {
    '    NONE = "none"\n': '    NONE = "none"\n    TIMED = "timed"\n',
    "    pool: PoolSettings": (
        '    timed_id: Omittable[Name] = setting("Id of the key that signs")\n'
        '    timed_key: Omittable[Key] = setting("The key that signs")\n'
        '    timed_key_env: Omittable[Variable] = setting("Environment variable that contains it")\n'
        "    pool: PoolSettings"
    ),
    "        AuthMode.CLIENT_BEARER: Auth(": (
        '        AuthMode.TIMED: Auth(module="timed", uses=("timed_id", "timed_key")),\n'
        "        AuthMode.CLIENT_BEARER: Auth("
    ),
}
"""What is added to :mod:`mgw.config.auths`, each before what follows it there."""
KEY: Final = "timed-canary-0001"
PROVIDER: Final = "providers: {p: {kind: openai, %s}}"
WORKS: Final = "auth: timed, timed_id: ak-1, timed_key_env: TIMED_KEY"
PROBLEMS: Final = (
    "auth: timed",
    "auth: timed, timed_id: ak-1",
    "timed_id: ak-1, timed_key: '0123456789'",
    "auth: timed, timed_id: a, timed_key: b, api_key: c",
    "auth: none, timed_id: a",
    "auth: bearer, timed_id: a",
    "auth: timed, timed_id: a, timed_key: b, timed_key_env: X",
    "pool: {credentials: [a], profile: p}, timed_id: a",
    "auth: timed, timed_id: a, timed_key_env: UNSET",
    "auth: timed, timed_id: a, timed_key: {hidden: 1, hidden: 2}",
    "auth: timed, timed_id: a, timed_key_env: {hidden: 1, hidden: 2}",
)


def with_row() -> None:
    """Let the configuration have the row."""
    file = ROOT / "mgw" / "config" / "auths.py"
    text = file.read_text(encoding="utf-8")
    for before, after in ROW.items():
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    module = ModuleType("mgw.config.auths")
    sys.modules[module.__name__] = module
    exec(compile(text, str(file), "exec"), module.__dict__)


def with_module() -> None:
    """Let the package of credentials have the module."""
    from mgw.config.provider import Provider
    from mgw.credentials.sources import CredentialSources
    from tests.support.timed_source import TimedKeys

    def make_credentials(provider: Provider, sources: CredentialSources) -> TimedKeys:
        settings: Any = provider  # Any: this one has a further setting
        return TimedKeys(settings.timed_key.reveal())

    module = ModuleType("mgw.credentials.timed")
    module.make_credentials = make_credentials  # type: ignore[attr-defined]  # as if it had been written there
    sys.modules[module.__name__] = module


def problems_with(settings: str) -> str:
    """Return what the loader says of a provider."""
    from mgw.config.load import parse
    from mgw.config.problems import ConfigError

    try:
        parse(PROVIDER % settings, "mgw.yaml", {"TIMED_KEY": KEY})
    except ConfigError as error:
        return str(error)
    return ""


def main() -> None:
    """Write what becomes of a further value."""
    sys.path.insert(0, str(ROOT))
    with_row()
    with_module()
    import_module("mgw.config.load")  # the loader before the rest, as a gateway does
    import yaml
    from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # it ships no types

    from mgw.config.schema import schema_text
    from mgw.config.secrets import secrets_of
    from mgw.credentials import credentials_of
    from tests.support.configs import config
    from tests.support.token_endpoints import TokenHosts

    editor = Draft202012Validator(json.loads(schema_text()))
    loaded = config(PROVIDER % WORKS, {"TIMED_KEY": KEY})
    provider: Any = loaded.providers["p"]  # Any: it has further settings
    found = {
        "loaded": [provider.auth, provider.timed_id, repr(provider.timed_key)],
        "signs": credentials_of(provider, TokenHosts().sources).signs,
        "hides_its_key": KEY in [secret.reveal() for secret in secrets_of(loaded)],
        "is_valid_in_an_editor": editor.is_valid(yaml.safe_load(PROVIDER % WORKS)),
        "problems": {
            settings: [problems_with(settings), not editor.is_valid(yaml.safe_load(PROVIDER % settings))]
            for settings in PROBLEMS
        },
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
