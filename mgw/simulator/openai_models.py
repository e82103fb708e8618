"""What OpenAI's own models refuse, by their names; hosts that speak OpenAI's wire take more.

Sources: the reference's notes on ``max_tokens`` and ``stop``, and the words of the API's own refusals.  A
name that stands in no row is a host's model.
"""

import re
from typing import Final

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.openai_messages import text_of

_FIRST_PARTY: Final = re.compile(r"chatgpt-|gpt-(?:3\.5|4|[5-9])|o[134]\b")
_REASONING: Final = re.compile(r"(?:o[134]\b|gpt-[5-9])(?!.*-chat)")
_FIXED_SAMPLING: Final = re.compile(r"(?:o[134]|gpt-5)(?:-(?:mini|nano|\d{4})[^+]*)?(?:\+|\Z)")
_NO_STOP: Final = re.compile(r"o3\b|o4-mini\b")
_HOSTS_FIELDS: Final = ("reasoning_content", "reasoning_details", "extra_content", "prefix")


def check_model(model: str, body: Json) -> None:
    """Raise the Refusal for the first thing that a model of this name does not take."""
    if _FIRST_PARTY.match(model):
        _check_hosts_fields(body["messages"])
        _check_json_word(body)
    if _REASONING.match(model) and body.get("max_tokens") is not None:
        said = "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        raise _unsupported("max_tokens", f"Unsupported parameter: {said}")
    if _NO_STOP.match(model) and body.get("stop") is not None:
        raise _unsupported("stop", "Unsupported parameter: 'stop' is not supported with this model.")
    for name in ("temperature", "top_p"):
        value = body.get(name)
        if value not in {None, 1} and _FIXED_SAMPLING.match(model):
            said = (
                f"'{name}' does not support {value} with this model. Only the default (1) value is supported."
            )
            raise Refusal(400, f"Unsupported value: {said}", name, "unsupported_value")


def _unsupported(name: str, message: str) -> Refusal:
    return Refusal(400, message, name, "unsupported_parameter")


def _check_hosts_fields(messages: list[Json]) -> None:
    """The schema of messages is closed; what other hosts have added to it is unknown here."""
    for index, message in enumerate(messages):
        places: list[tuple[str, Json, tuple[str, ...]]] = [(f"messages[{index}]", message, _HOSTS_FIELDS)]
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            places.append((f"messages[{index}].content[{place}]", part, ("cache_control",)))
        for place, made in enumerate(message.get("tool_calls") or ()):
            places.append((f"messages[{index}].tool_calls[{place}]", made, ("extra_content",)))
        for path, held, names in places:
            for name in names:
                if name in held:
                    param = f"{path}.{name}"
                    raise Refusal(400, f"Unknown parameter: '{param}'.", param, "unknown_parameter")


def _check_json_word(body: Json) -> None:
    wanted = (body.get("response_format") or {}).get("type")
    if wanted == "json_object" and not any("json" in text_of(one).lower() for one in body["messages"]):
        said = "'messages' must contain the word 'json' in some form, to use 'response_format' of type"
        raise Refusal(400, f"{said} 'json_object'.", "messages")
