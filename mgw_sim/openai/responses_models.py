"""What OpenAI's own models do not take in a request of the Responses API, by their names.

Sources: the guides of the models of GPT-5 and later (efforts; ``temperature``, ``top_p`` and log
probabilities only without reasoning), and the words of the API's own errors.  ``temperature: 1`` is taken
everywhere.  A name without a row here is a host's model, or a new one: it takes everything.
"""

import re
from typing import Final

from msgspec import Struct

from mgw_sim.api import ApiError, Json
from mgw_sim.openai.responses_items import input_items, text_of


class ModelRules(Struct, frozen=True):
    """The efforts that a model knows, none where it does not reason, and the one that it has by itself."""

    efforts: tuple[str, ...] = ()
    default: str = "none"


_TO_HIGH: Final = ("low", "medium", "high")
_TO_XHIGH: Final = (*_TO_HIGH, "xhigh")
_UNREASONING: Final = ModelRules()
_ROWS: Final = tuple(
    (re.compile(pattern), rules)
    for pattern, rules in (
        (r"gpt-5-chat|gpt-[34]|chatgpt-", _UNREASONING),
        (r"gpt-5-pro", ModelRules(("high",), "high")),
        (r"gpt-5\.\d-pro", ModelRules(("medium", "high", "xhigh"), "medium")),
        (r"gpt-5\.\d-chat", ModelRules(("medium",), "medium")),
        (r"gpt-5\.1-codex-max|gpt-5\.[23]-codex", ModelRules(_TO_XHIGH, "medium")),
        (r"gpt-5(?:\.1)?-codex", ModelRules(_TO_HIGH, "medium")),
        (r"gpt-5\.1\b", ModelRules(("none", *_TO_HIGH))),
        (r"gpt-5\.[24]\b", ModelRules(("none", *_TO_XHIGH))),
        (r"gpt-5\.5\b", ModelRules(("none", *_TO_XHIGH), "medium")),
        (r"gpt-5\.6\b|gpt-6-(?:luna|sol)|gpt-6\.1-terra", ModelRules(("none", *_TO_XHIGH, "max"), "medium")),
        (r"gpt-6\b", ModelRules((*_TO_XHIGH, "max"), "medium")),
        (r"gpt-5(?:-mini|-nano|-\d{4}|\Z)", ModelRules(("minimal", *_TO_HIGH), "medium")),
        (r"o[134]\b", ModelRules(_TO_HIGH, "medium")),
    )
)
_ENCRYPTED: Final = "reasoning.encrypted_content"
_SAMPLING: Final = {"temperature": 1, "top_p": 1, "top_logprobs": 0}
"""What only models that do not reason take, with the value that says nothing."""


def check_model(model: str, body: Json) -> None:
    """Raise the ApiError for the first thing that a model of this name does not take."""
    name = model.partition("+")[0]
    rules = next((rules for pattern, rules in _ROWS if pattern.match(name)), None)
    if rules is None:
        return
    reasoning = body.get("reasoning") or {}
    effort = reasoning.get("effort")
    if not rules.efforts:
        _check_unreasoning(reasoning, body)
    elif effort is not None and effort not in rules.efforts:
        message = f"Unsupported value: '{effort}' is not supported with the '{name}' model."
        raise ApiError(
            400,
            f"{message} Supported values are: {_listed(rules.efforts)}.",
            "reasoning.effort",
            "unsupported_value",
        )
    if (effort or rules.default) != "none":
        for field, neutral in _SAMPLING.items():
            if body.get(field) not in {None, neutral}:
                raise _unsupported_parameter(field)
    _check_json_word(body)


def _check_unreasoning(reasoning: Json, body: Json) -> None:
    for field in ("effort", "summary", "generate_summary"):
        if reasoning.get(field) is not None:
            raise _unsupported_parameter(f"reasoning.{field}")
    if _ENCRYPTED in (body.get("include") or ()):
        raise ApiError(400, "Encrypted content is not supported with this model.", "include")


def _unsupported_parameter(name: str) -> ApiError:
    message = f"Unsupported parameter: '{name}' is not supported with this model."
    return ApiError(400, message, name, "unsupported_parameter")


def _listed(names: tuple[str, ...]) -> str:
    *others, last = [f"'{name}'" for name in names]
    return f"{', '.join(others)}, and {last}" if others else last


def _check_json_word(body: Json) -> None:
    if ((body.get("text") or {}).get("format") or {}).get("type") != "json_object":
        return
    texts = [body.get("instructions") or "", *map(text_of, input_items(body))]
    if not any("json" in text.lower() for text in texts):
        rule = (
            "Response input messages must contain the word 'json' in some form to use 'text.format' of type"
        )
        raise ApiError(400, f"{rule} 'json_object'.", "input")
