"""What Google's own models take of ``thinkingConfig``, by their names (source: the thinking guide).

Budgets are those of the 2.5 series; levels came with Gemini 3.  A name that stands in no row takes both.
"""

import re
from typing import Final

from mgw.simulator.answer import Json, Refusal

_BUDGETS: Final = (
    (re.compile(r"gemini-2\.5-pro"), 128, 32768),
    (re.compile(r"gemini-2\.5-flash-lite"), 512, 24576),
    (re.compile(r"gemini-2\.5-flash"), 1, 24576),
)
_NO_LEVELS: Final = re.compile(r"gemini-2\.")
_ALWAYS_THINKING: Final = re.compile(r"gemini-2\.5-pro")


def check_model(model: str, body: Json) -> None:
    """Raise the Refusal for the first thing that a model of this name does not take."""
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    budget = thinking.get("thinkingBudget")
    if "thinkingLevel" in thinking and _NO_LEVELS.match(model):
        raise Refusal(400, "Thinking level is not supported for this model.")
    if budget == 0 and _ALWAYS_THINKING.match(model):
        raise Refusal(400, "Budget 0 is invalid. This model only works in thinking mode.")
    row = next((row for row in _BUDGETS if row[0].match(model)), None)
    if row is None or budget is None or budget in {-1, 0}:
        return
    _, least, most = row
    if not least <= budget <= most:
        said = f"Please choose a value between {least} and {most}."
        raise Refusal(400, f"The thinking budget {budget} is invalid. {said}")
