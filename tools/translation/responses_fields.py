"""What is to become of every field of a request of Responses: decided, not measured.

Each row says it for Anthropic, Gemini and hosts of chat completions, in this order (contract 11.3, 10.4):

* ``M``: it arrives.  ``A``: it arrives in another shape, or not all of it does, which is reported.
* ``D``: it is reported.  ``R``: it is refused.  ``N``: it says nothing that does not happen anyway.

A row of several says it for each value; a value that is an object goes by its type.  A row of an object that
is ``D`` or ``R`` for all targets speaks for everything in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import product
from typing import Final

from tools.translation.field_cases import SEALED, Case
from tools.translation.sdk_types import Json

Row = str | Mapping[str, str]

M, A, D, R, N = ("M M M", "A A A", "D D D", "R R R", "N N N")

WHOLE_ITEMS: Final = {
    "file_search_call": D,
    "computer_call": D,
    "computer_call_output": D,
    "web_search_call": D,
    "code_interpreter_call": D,
    "mcp_list_tools": D,
    "mcp_approval_request": D,
    "mcp_approval_response": D,
    "mcp_call": D,
    "program": D,
    "program_output": D,
    "compaction": R,
    "compaction_trigger": R,
    "item_reference": R,
}
"""Items that nobody looks into, by their types."""
WHOLE_TOOLS: Final = (
    "file_search",
    "computer",
    "computer_use_preview",
    "web_search",
    "web_search_2025_08_26",
    "mcp",
    "code_interpreter",
    "programmatic_tool_calling",
    "image_generation",
    "web_search_preview",
    "web_search_preview_2025_03_11",
)
"""Tools that OpenAI's servers run."""
_HOSTED_CHOICES: Final = (
    "file_search",
    "web_search_preview",
    "computer",
    "computer_use_preview",
    "computer_use",
    "web_search_preview_2025_03_11",
    "image_generation",
    "code_interpreter",
    "mcp",
    "programmatic_tool_calling",
)


def _rows(prefixes: Iterable[str], rows: Mapping[str, Row]) -> dict[str, Row]:
    return {f"{prefix}.{key}": row for prefix, (key, row) in product(prefixes, rows.items())}


_REQUEST: Final[dict[str, Row]] = {
    "access_programs": D,
    "background": {"True": R, "False": N},
    "background_options": D,
    "context_management": D,
    "conversation": R,
    "image": D,
    "include": {
        "message.output_text.logprobs": "D M M",
        "reasoning.encrypted_content": N,
        "word": D,
    },
    "instructions": M,
    "max_output_tokens": M,
    "max_tool_calls": D,
    "metadata": D,
    "model": N,  # the route names the provider's own
    "moderation": D,
    "parallel_tool_calls": {"True": N, "False": "M D M"},
    "previous_response_id": R,
    "prompt": R,
    "prompt_cache_key": "D D M",
    "prompt_cache_options": D,
    "prompt_cache_retention": D,
    "reasoning.context": {"auto": N, "current_turn": D, "all_turns": D},
    "reasoning.effort": A,
    "reasoning.generate_summary": {"auto": "A A N", "concise": "A A D", "detailed": "A A D"},
    "reasoning.mode": D,
    "reasoning.summary": {"auto": "A A N", "concise": "A A D", "detailed": "A A D"},
    "safety_identifier": "M D M",
    "service_tier": {
        **dict.fromkeys(("auto", "default"), N),
        **dict.fromkeys(("flex", "scale", "priority", "fast", "ultrafast"), D),
    },
    "store": {"True": D, "False": N},
    "stream": {"True": M, "False": N},
    "stream_options.include_obfuscation": {"True": D, "False": N},
    "temperature": M,
    "text.format": {"text": N, "json_object": "D A M", "json_schema": "A A M"},
    "text.format[json_schema].name": "D D M",
    "text.format[json_schema].schema": M,
    "text.format[json_schema].description": "D D M",
    "text.format[json_schema].strict": {"True": N, "False": "D D M"},
    "text.verbosity": {"low": D, "medium": N, "high": D},
    "tool_choice": {
        **dict.fromkeys(("none", "auto", "required", "function", "custom", "apply_patch", "shell"), M),
        "allowed_tools": "A M A",
        **dict.fromkeys(_HOSTED_CHOICES, R),
    },
    "tool_choice[allowed_tools].mode": A,
    "tool_choice[allowed_tools].tools": "D M D",
    "tool_choice[function].name": M,
    "tool_choice[custom].name": M,
    "tool_choice[mcp]": R,
    "top_logprobs": "D M M",
    "top_p": M,
    "truncation": {"auto": D, "disabled": N},
    "user": "M D M",
}
_TOOLS: Final[dict[str, Row]] = {
    **_rows(
        ("tools[function]", "tools[custom]"),
        {"async": D, "name": M, "allowed_callers": D, "defer_loading": D, "description": M},
    ),
    "tools[function].parameters": M,
    "tools[function].output_schema": D,
    "tools[function].strict": {"True": "A D A", "False": "N N M"},
    "tools[custom].format": {"text": N, "grammar": A},
    "tools[custom].format[grammar].definition": A,
    "tools[custom].format[grammar].syntax": A,
    "tools[namespace].description": M,
    "tools[namespace].name": M,
    "tools[shell].allowed_callers": D,
    "tools[shell].environment": {"local": N, "container_auto": R, "container_reference": R},
    "tools[shell].environment[local]": D,
    "tools[shell].environment[container_auto]": R,
    "tools[shell].environment[container_reference]": R,
    "tools[apply_patch].allowed_callers": D,
    "tools[tool_search].description": M,
    "tools[tool_search].execution": {"client": N, "server": R},
    "tools[tool_search].parameters": M,
    **{f"tools[{kind}]": R for kind in WHOLE_TOOLS},
}
_PARTS: Final[dict[str, Row]] = {
    "[input_text].text": M,
    "[input_image].image_url": M,
    "[input_image].detail": {"low": "D M M", "high": "D M M", "auto": N, "original": "D D M"},
    "[input_image].file_id": D,
    "[input_file].file_data": M,
    "[input_file].file_url": "M M D",
    "[input_file].filename": "M D M",
    "[input_file].file_id": D,
    "[input_file].detail": D,
    **{f"[{kind}].prompt_cache_breakpoint": D for kind in ("input_text", "input_image", "input_file")},
}
_CALL: Final[dict[str, Row]] = {"id": N, "status": N, "call_id": M, "caller": D}
_ITEMS: Final[dict[str, Row]] = {
    **_rows([f"input[{role}]" for role in ("user", "assistant", "system", "developer")], {"phase": D}),
    **_rows([f"input[{role}]" for role in ("user", "assistant", "system", "developer")], {"status": N}),
    **{f"input[{role}].content{key}": row for role in ("user", "assistant") for key, row in _PARTS.items()},
    **{
        f"input[{role}].content[{kind}]": D
        for role in ("system", "developer")
        for kind in ("input_image", "input_file")
    },
    **_rows(
        [f"input[{role}].content[input_text]" for role in ("system", "developer")],
        {"text": M, "prompt_cache_breakpoint": D},
    ),
    "input[assistant].id": N,
    "input[assistant].content[output_text].text": M,
    "input[assistant].content[output_text].annotations": D,
    "input[assistant].content[output_text].logprobs": D,
    "input[assistant].content[refusal].refusal": M,
    **_rows(("input[function_call]", "input[custom_tool_call]"), {"async": D, "name": M, "namespace": M}),
    **_rows(
        [
            f"input[{kind}{end}]"
            for kind in ("function_call", "custom_tool_call", "shell_call", "apply_patch_call")
            for end in ("", "_output")
        ],
        {key: row for key, row in _CALL.items() if key != "status"},
    ),
    **_rows(
        [
            f"input[{kind}]"
            for kind in ("function_call", "function_call_output", "shell_call", "apply_patch_call")
        ],
        {"status": N},
    ),
    **{
        f"input[{kind}].output{key}": row
        for kind in ("function_call_output", "custom_tool_call_output")
        for key, row in _PARTS.items()
    },
    "input[function_call].arguments": M,
    "input[function_call_output].name": N,
    "input[function_call_output].namespace": N,
    "input[custom_tool_call].input": M,
    "input[local_shell_call].id": N,
    "input[local_shell_call].call_id": M,
    "input[local_shell_call].status": N,
    **_rows(
        ["input[local_shell_call].action[exec]"],
        dict.fromkeys(("command", "env", "timeout_ms", "user", "working_directory"), M),
    ),
    "input[local_shell_call_output].id": M,
    "input[local_shell_call_output].output": M,
    "input[local_shell_call_output].status": N,
    **_rows(["input[shell_call].action"], dict.fromkeys(("commands", "timeout_ms", "max_output_length"), M)),
    "input[shell_call].environment": {"local": N, "container_reference": D},
    "input[shell_call].environment[local]": D,
    "input[shell_call].environment[container_reference]": D,
    **_rows(
        ["input[shell_call_output].output[]"],
        {"stdout": M, "stderr": M, "outcome": M, "outcome[exit].exit_code": M},
    ),
    "input[shell_call_output].max_output_length": N,
    "input[shell_call_output].status": N,
    "input[apply_patch_call].operation": M,
    **_rows(
        [f"input[apply_patch_call].operation[{kind}]" for kind in ("create_file", "update_file")],
        {"path": M, "diff": M},
    ),
    "input[apply_patch_call].operation[delete_file].path": M,
    "input[apply_patch_call_output].status": {"completed": M, "failed": "M M A"},
    "input[apply_patch_call_output].output": M,
    **_rows(
        ("input[tool_search_call]", "input[tool_search_output]"),
        {"id": N, "status": N, "call_id": M, "execution": {"client": N, "server": D}},
    ),
    "input[tool_search_call].arguments": M,
    "input[additional_tools].id": N,
    "input[configuration_update].id": N,
    "input[configuration_update].reasoning.effort": A,
    "input[configuration_update].text.format": {"text": N, "json_schema": "A A M"},
    **{
        f"input[configuration_update].{path}": row
        for path, row in _REQUEST.items()
        if path.startswith("text.format[")
    },
    **{
        f"input[image_generation_call].{name}": N  # how an image was made that the model sees
        for name in ("id", "status", "action", "background", "quality", "revised_prompt", "size")
    },
    "input[image_generation_call].error": D,
    "input[image_generation_call].result": M,
    "input[image_generation_call].output_format": {"png": N, "gif": M, "webp": A, "jpeg": A, "svg": A},
    "input[image_generation_call].svg_usage": D,
    "input[reasoning].id": "N D D",  # of a thought of Anthropic's, as all of it
    "input[reasoning].status": "N D D",
    "input[reasoning].summary": "N D D",
    "input[reasoning].summary[summary_text].text": "N D D",
    "input[reasoning].content": "N D D",
    "input[reasoning].content[reasoning_text].text": "N D D",
    "input[reasoning].encrypted_content": dict(zip(SEALED, ("M D D", "D M D", "D D M"), strict=True)),
    **{f"input[{kind}]": row for kind, row in WHOLE_ITEMS.items()},
}
ROWS: Final[Mapping[str, Row]] = {**_REQUEST, **_TOOLS, **_ITEMS}
"""The rows by their paths; ``input`` and ``tools`` are what they hold."""
_SAME: Final = (
    ("input[additional_tools].tools", "tools"),
    ("input[tool_search_output].tools", "tools"),
    ("tools[namespace].tools", "tools"),
)
"""Where tools stand, and where else they do."""


def row_path(path: str) -> str:
    """Return the path of the row that speaks for a field: its own, or that of the whole that it is in."""
    for place, other in _SAME:
        if path.startswith(place):
            path = other + path[len(place) :]
    steps = path.split(".")
    for number in range(1, len(steps)):
        whole = ".".join(steps[:number])
        for one in (whole.rpartition("[")[0], whole):
            if ROWS.get(one) in (D, R):
                return one
    return path


def fates(path: str, label: str) -> list[str] | None:
    """Return what is to become of a value of a field, for each target; ``None``: nobody has decided."""
    row = ROWS.get(row_path(path))
    found = row.get(label) if isinstance(row, Mapping) else row
    return None if found is None else found.split()


ORDER: Final = ("anthropic", "gemini", "openai_compat")
"""The targets of a row's letters."""
_HOLDERS: Final = re.compile(
    r"input|(.+\.)?tools|.+\.content|input\[(function|custom_tool)_call_output\]\.output"
)
"""Lists that say nothing but what they hold."""


def label(value: Json) -> str:
    """Return what a row calls a value."""
    if isinstance(value, dict):
        return str(value.get("type"))
    if isinstance(value, list) and value:
        return label(value[0])
    return str(value)


def is_walked(case: Case) -> bool:
    """Whether a field says something of its own."""
    if case.path in ROWS:
        return True
    return not case.holder and not _HOLDERS.fullmatch(case.path)


def says_nothing(path: str, value: Json, target: str) -> bool:
    """Whether it is decided that nothing becomes of a value, since that happens anyway."""
    found = fates(path, label(value))
    return found is not None and found[ORDER.index(target)] == "N"


def is_told_elsewhere(path: str) -> bool:
    """Whether another field's row tells of a field: that of a thought, or of what stands elsewhere, too."""
    if path.startswith("input[reasoning]"):
        return path != "input[reasoning].encrypted_content"
    return path.startswith((*(place for place, _ in _SAME), "input[configuration_update]"))


def is_whole(path: str) -> bool:
    """Whether a row speaks for an object and for everything in it."""
    return ROWS.get(path) in (D, R)
