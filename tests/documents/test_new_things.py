"""Where a new thing goes: which modules name an existing one of its sort, counted.

A module that begins to name a single kind, route or reason knows what a table should know: the test turns
red, and either the knowledge moves into the table or the new place is written down here and in
``docs/architecture.rst``.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

MGW: Final = Path(__file__).resolve().parents[2] / "mgw"
SOURCES: Final = {
    path.relative_to(MGW).as_posix(): path.read_text(encoding="utf-8") for path in MGW.rglob("*.py")
}
ERRORS: Final = {f"dialects/{name}/errors.py" for name in ("openai", "anthropic", "gemini")}

NAMED_IN: Final = {
    "a field of a request": (
        r"image_shape|IMAGE_SHAPE",
        # What a conversation has, the name of what may be lost, and each dialect that reads or writes it.
        {
            *("canonical/conversation.py", "canonical/features.py"),
            *("dialects/openai/request.py", "dialects/openai/options.py"),
            *("dialects/gemini/request.py", "dialects/gemini/options.py"),
        },
    ),
    "a provider kind": (r"azure_openai|AZURE_OPENAI", {"nouns/kinds.py", "nouns/vocabulary.py"}),
    "a way to call a provider": (r"wires\.azure|wire=\"azure\"", {"nouns/kinds.py"}),
    "a sink of usage events": (
        r"Jsonl\w+|hooks\.jsonl",
        # `mgw check` also asks whether the file can be written; the last tells editors what goes together.
        {"usage/sinks/jsonl.py", "config/hooks.py", "app/check.py", "config/schema.py"},
    ),
    "a dialect": (
        r"OPENAI_RESPONSES",
        {
            "nouns/vocabulary.py",
            "dialects/__init__.py",
            "dialects/responses/__init__.py",
            "routing/text_routes.py",
            "routing/realtime_routes.py",
            # The kinds whose providers can be asked in it.
            "nouns/kinds.py",
        },
    ),
    "a field of the usage event": (
        r"session_minutes",
        # Only the first is needed: this one has a place of its own in plain lines, and is added up.
        {
            *("usage/event.py", "ops/logs.py", "usage/usage_sums.py", "dashboard/openapi.py"),
            # Sessions without a cost are a figure, memory adds up what the file does, and a report shows it.
            *("usage/figures.py", "dashboard/usage_memory.py", "cli/usage.py"),
        },
    ),
    "a route": (r"fine_tuning", {"routing/openai_routes.py"}),
    "a limit": (
        r"tokens_per_minute",
        # The last knows what other programs call it.
        {"clients/limits.py", "config/key_settings.py", "config/problems.py", "config/other_words.py"},
    ),
    "a refusal": (
        r"Reason\.CAPABILITY_OFF|CAPABILITY_OFF =",
        # The last is where it is raised.
        {"nouns/errors.py", "dialects/refusal.py", *ERRORS, "routing/resolve.py"},
    ),
    "a setting": (
        r"observe_dropped_fields",
        # The second is where it is used.
        {"config/settings.py", "exchange/planning.py", "exchange/translation.py"},
    ),
    # Its module, and its value of `auth` with its row: checks and schema follow from that.
    "a type of credential": (r"TOKEN_FILE|TokenFile\w*", {"credentials/token_file.py", "config/auths.py"}),
    "a setting of a credential": (
        r"service_account_file",
        # The second says where Google's own libraries look, the third what to do where nothing is there.
        {"config/auths.py", "config/authentication.py", "credentials/google.py"},
    ),
}


@pytest.mark.parametrize("thing", NAMED_IN)
def test_a_thing_is_named_where_a_new_one_goes_and_nowhere_else(thing: str) -> None:
    pattern, places = NAMED_IN[thing]
    named = re.compile(rf"\b(?:{pattern})")
    assert {name for name, text in SOURCES.items() if named.search(text)} == places
