"""Anthropic's messages and its token counts; ``anthropic_stream`` has what an answer looks like."""

from mgw.simulator import mind
from mgw.simulator.answer import Answer, Call, Json, Refusal, Stream, sse, unary
from mgw.simulator.anthropic_errors import error_value, require
from mgw.simulator.anthropic_fields import VERSIONS, count_shape, messages_shape
from mgw.simulator.anthropic_models import check_model
from mgw.simulator.anthropic_stream import events, message
from mgw.simulator.anthropic_turns import check, prompt_tokens, results, text_of
from mgw.simulator.mind import Choice, Prompt, Tool


def messages(call: Call) -> Answer:
    """``POST /v1/messages``."""
    body, lenient = call.body, "lenient" in call.faults
    if body.get("thread") is not None:
        raise Refusal(400, "thread: no threads are held here", code="thread_unsupported_request")
    betas = call.headers.get("anthropic-beta")
    require(body, messages_shape(_version(call), betas), lenient=lenient)
    check(body, interleaved="interleaved-thinking" in (betas or ""))
    check_model(call.model, body)
    prompt = _prompt(body)
    outcome = mind.answer(prompt, call.faults)
    if not body.get("stream"):
        return unary(message(call, prompt, outcome))
    broken = error_value(Refusal(529, "Overloaded"), call.id("req_"))
    return Stream(tuple(events(call, prompt, outcome)), sse(broken, "error"))


def count_tokens(call: Call) -> Answer:
    """``POST /v1/messages/count_tokens``."""
    _version(call)
    require(call.body, count_shape(call.headers.get("anthropic-beta")), lenient="lenient" in call.faults)
    check(call.body)
    return unary({"input_tokens": prompt_tokens(call.body)})


def _version(call: Call) -> str:
    version = call.headers.get("anthropic-version")
    if version is None:
        raise Refusal(400, "anthropic-version: header is required")
    if version not in VERSIONS:
        raise Refusal(400, f'anthropic-version: "{version}" is not a valid version')
    return version


def _prompt(body: Json) -> Prompt:
    choice = body.get("tool_choice") or {"type": "auto"}
    said = next(
        (text_of(one) for one in reversed(body["messages"]) if one["role"] == "user" and text_of(one)),
        "",
    )
    return Prompt(
        text=said,
        tokens=prompt_tokens(body),
        tools=tuple(
            Tool(tool["name"], tool["input_schema"])
            for tool in body.get("tools") or ()
            if "input_schema" in tool
        ),
        choice={"none": Choice.NONE, "auto": Choice.AUTO}.get(choice["type"], Choice.ANY),
        allowed=(choice["name"],) if choice["type"] == "tool" else (),
        parallel=not choice.get("disable_parallel_tool_use"),
        results=results(body["messages"]),
        schema=((body.get("output_config") or {}).get("format") or {}).get("schema"),
        max_tokens=body["max_tokens"],
        stops=tuple(body.get("stop_sequences") or ()),
        thinks=_thinks(body),
    )


def _thinks(body: Json) -> bool:
    kind = (body.get("thinking") or {"type": "disabled"})["type"]
    return kind in {"enabled", "adaptive"} or (kind == "between_tools" and bool(results(body["messages"])))
