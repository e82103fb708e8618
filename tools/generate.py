"""Write what is generated: ``python -m tools.generate`` (``make docs``), or with names, for these alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from mgw.cli.completion import FILES
from mgw.config.profile import Profile
from mgw.config.schema import schema_text
from mgw.routing.routes import ROUTES
from tools import event_page, man_page, models_page, room_list, routes_page, settings_reference, state_table
from tools.completion import bash, fish, zsh
from tools.completion.command_tree import command_tree
from tools.pictures.files import PICTURES

ROOT: Final = Path(__file__).resolve().parents[1]


class Generated(Struct, frozen=True):
    """A file that is generated, whole or in parts."""

    path: str
    """Below the root of the sources."""
    render: Callable[[str], str]
    """Returns the file's text, given the one that it has."""

    def read(self) -> str:
        """Return the text that the file has; none if it is new."""
        file = ROOT / self.path
        return file.read_text(encoding="utf-8") if file.exists() else ""

    def write(self) -> None:
        """Renew the file."""
        file = ROOT / self.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.render(self.read()), encoding="utf-8")


def _picture(name: str) -> Generated:
    return Generated(f"docs/images/{name}.svg", lambda _: PICTURES[name]())


_SHELLS: Final = MappingProxyType({"bash": bash.render, "zsh": zsh.render, "fish": fish.render})


def _fields(page: str) -> str:
    from tools.translation.tables import (
        render,  # the vendors' SDKs take seconds, and `make schema` needs none
    )

    return render(page)


def _completion(shell: str) -> Generated:
    return Generated(f"etc/completion/{FILES[shell]}", lambda _: _SHELLS[shell](command_tree()))


GENERATED: Final = MappingProxyType(
    {
        "schema": Generated("etc/mgw.schema.json", lambda _: schema_text()),
        "routes": Generated("docs/routes.rst", lambda _: routes_page.render(ROUTES)),
        "settings": Generated("docs/configuration.rst", settings_reference.render),
        "profiles": Generated(
            "docs/profiles.rst", lambda page: settings_reference.render(page, Profile, "docs/profiles.rst")
        ),
        "event": Generated("docs/usage-events.rst", event_page.render),
        "event names": Generated(
            "mgw/dashboard/static/js/event_names.js", lambda _: event_page.names_module()
        ),
        "man": Generated("docs/man/mgw.yaml.5.rst", man_page.render),
        "models": Generated("docs/models.rst", models_page.render),
        "fields": Generated("docs/translation.rst", _fields),
        "modules": Generated("docs/architecture.rst", room_list.render),
        "states": Generated("docs/architecture.rst", state_table.render),
        **{shell: _completion(shell) for shell in _SHELLS},
        **{name: _picture(name) for name in PICTURES},
    }
)


def main(names: Sequence[str]) -> None:
    """Renew the files of these names, or all."""
    try:
        for name in names or GENERATED:
            GENERATED[name].write()
    except ValueError as error:  # a page lacks something that only a person can place
        sys.exit(str(error))


if __name__ == "__main__":
    main(sys.argv[1:])
