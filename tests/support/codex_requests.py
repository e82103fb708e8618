"""Two requests of Codex CLI 0.169, as it sends them to a provider of its own (``wire_api = "responses"``).

They were recorded without a model catalog, for a model that Codex does not know: ``FIRST`` begins a
conversation, ``SECOND`` is the next one of its tool loop, with a thought, a text, a call and its result
behind the same history.  The thought came through the gateway from the simulator's Claude, which accepts it.
Field names, their order, item and tool types, schemas and sizes are Codex's.  The prose (instructions,
descriptions of tools) was replaced word by word with other words of the same length, and identifiers are made
up.

======  ================================================================================================
fields  model, stream, input, tools, tool_choice, parallel_tool_calls, reasoning {summary}, store,
        include, prompt_cache_key, client_metadata; no ``instructions``
input   message (developer, twice), message (user, twice); in the second also reasoning, message
        (assistant), function_call, function_call_output
tools   function × 7, namespace ``multi_agent_v1`` (five functions), web_search
======  ================================================================================================
"""

from pathlib import Path
from typing import Final

_FOLDER: Final = Path(__file__).parent.parent / "golden" / "codex"

FIRST: Final = (_FOLDER / "first.json").read_bytes()
SECOND: Final = (_FOLDER / "second.json").read_bytes()
