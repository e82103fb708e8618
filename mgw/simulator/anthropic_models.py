"""What Anthropic's own models refuse, by their names (sources: the migration guides and the thinking pages).

A name that stands in no row takes everything that the wire has.
"""

import re
from typing import Final

from mgw.simulator.answer import Json, Refusal
from mgw.simulator.anthropic_turns import is_paused

_ADAPTIVE_ONLY: Final = re.compile(r"claude-(?:opus-4-[7-9]|opus-[5-9]|sonnet-[5-9]|fable|mythos)")
_ALWAYS_THINKING: Final = re.compile(r"claude-(?:fable|mythos)")
_BUDGET_ONLY: Final = re.compile(
    r"claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8}|-latest)?(?:\+|\Z))"
)
_NO_PREFILL: Final = re.compile(r"claude-(?:opus-4-[6-9]|opus-[5-9]|sonnet-4-6|sonnet-[5-9]|fable|mythos)")
_ONE_SAMPLER: Final = re.compile(r"claude-(?:opus-4-[156]|sonnet-4-[56]|haiku-4-5)")


def check_model(model: str, body: Json) -> None:
    """Raise the Refusal for the first thing that a model of this name does not take."""
    _check_thinking(model, (body.get("thinking") or {}).get("type"))
    _check_sampling(model, body)
    if (
        _NO_PREFILL.match(model)
        and body["messages"][-1]["role"] == "assistant"
        and not is_paused(body["messages"])
    ):
        said = "This model does not support assistant message prefill."
        raise Refusal(400, f"{said} The conversation must end with a user message.")


def _check_thinking(model: str, kind: str | None) -> None:
    if kind == "enabled" and _ADAPTIVE_ONLY.match(model):
        raise Refusal(
            400,
            '"thinking.type.enabled" is not supported for this model. Use "thinking.type.adaptive" and '
            '"output_config.effort" to control thinking behavior.',
        )
    if kind == "disabled" and _ALWAYS_THINKING.match(model):
        raise Refusal(400, '"thinking.type.disabled" is not supported for this model.')
    if kind == "adaptive" and _BUDGET_ONLY.match(model):
        raise Refusal(400, "adaptive thinking is not supported on this model")


def _check_sampling(model: str, body: Json) -> None:
    set_to = {name: body[name] for name in ("temperature", "top_p", "top_k") if body.get(name) is not None}
    for name, value in set_to.items():
        if _ADAPTIVE_ONLY.match(model) and (name == "top_k" or value != 1):
            raise Refusal(400, f"`{name}` is deprecated for this model.")
    if _ONE_SAMPLER.match(model) and {"temperature", "top_p"} <= set_to.keys():
        said = "`temperature` and `top_p` cannot both be specified for this model. Please use only one."
        raise Refusal(400, said)
