"""What a profile changes in the bodies of requests: names of tools, and texts before the system prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from mgw.config.problems import dotted_path
from mgw.config.profile import CloakMode, Profile
from mgw.config.settings import Config
from mgw.dialects import dialect_of
from mgw.dialects.dialect import Rewriting
from mgw.dialects.renamed_tools import request_edits
from mgw.dialects.system_prompt import prepend_system
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.nouns.families import text_dialect
from mgw.nouns.kinds import KINDS
from mgw.wire.json_spans import Edit


@final
class BodyRewrite:
    """The changes of one provider's profile."""

    __slots__ = ("_mode", "_profile", "names")

    def __init__(self, profile: Profile, mode: CloakMode) -> None:
        tools = profile.tools
        self._profile = profile
        self._mode = mode
        self.names = ToolNameMap(tools.exact, tools.prefix) if tools.exact or tools.prefix else None
        """The new names of tools; ``None``: they keep their own."""

    def edits(self, rewriting: Rewriting, body: bytes, user_agent: bytes | None) -> list[Edit]:
        """Return the changes to the body of a client's request.

        :param rewriting: where the request's dialect has what is changed.
        :param user_agent: of the client, which decides whether the request is made to look like another's.
        :raises GatewayError: ``MALFORMED`` for what is no JSON, or names too many tools.
        """
        edits = [] if self.names is None else request_edits(rewriting.tool_places, body, self.names)
        cloak = self._profile.cloak
        said = None if user_agent is None else user_agent.decode("latin-1")
        if cloak.system and cloak.applies(self._mode, said):
            edits += prepend_system(rewriting.prepend_system, body, cloak.system)
        return edits


def rewrites_of(
    config: Config, profiles: Mapping[str, Profile], problems: list[str]
) -> dict[str, BodyRewrite]:
    """Return what profiles change in the bodies of requests, by provider, and note what cannot be changed."""
    found: dict[str, BodyRewrite] = {}
    for name, provider in config.providers.items():
        profile = None if provider.profile is None else profiles.get(provider.profile)
        if profile is None or not profile.rewrites_bodies:
            continue
        if dialect_of(text_dialect(KINDS[provider.kind].family)).rewriting is None:
            where = dotted_path(("providers", name))
            problems.append(
                f"{where}: its profile has tools or cloak.system, which providers of kind {provider.kind} do "
                "not support"
            )
        found[name] = BodyRewrite(profile, provider.cloak or profile.cloak.mode)
    return found
