"""One run with the OpenAI Agents SDK: a task as JSON in the first argument, its outcome as JSON on stdout.

The task is ``{url, key, model, stream, thinks, prompt}``.  The first agent has a tool and hands off to the
second, which must call its own tool before it answers.  Run by the Python of the agents' installation.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from agents import (  # type: ignore[import-not-found]  # it is installed beside the agents only
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from openai import AsyncOpenAI
from openai.types.shared import Reasoning


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


def get_time(city: str) -> str:
    """The time in a city."""
    return f"noon in {city}"


async def run(task: dict[str, Any]) -> dict[str, Any]:
    """Run both agents; the answer is ``{agent, text, items, deltas}``."""
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=f"{task['url']}/v1", api_key=task["key"], max_retries=0)
    model = OpenAIResponsesModel(model=task["model"], openai_client=client)
    reasoning = Reasoning(effort="low", summary="auto") if task["thinks"] else None
    second = Agent(
        name="clock",
        instructions="You tell the time.",
        model=model,
        tools=[function_tool(get_time)],
        model_settings=ModelSettings(reasoning=reasoning, tool_choice="required"),
    )
    first = Agent(
        name="weather",
        instructions="You tell the weather.",
        model=model,
        tools=[function_tool(get_weather)],
        handoffs=[second],
        model_settings=ModelSettings(reasoning=reasoning),
    )
    deltas = ""
    result: Any  # of two classes with the same fields
    if task["stream"]:
        result = Runner.run_streamed(first, task["prompt"])
        async for event in result.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                deltas += event.data.delta
    else:
        result = await Runner.run(first, task["prompt"])
    return {
        "agent": result.last_agent.name,
        "text": result.final_output,
        "items": [item.type for item in result.new_items],
        "deltas": deltas,
        "usage": result.context_wrapper.usage.total_tokens,
    }


sys.stdout.write(json.dumps(asyncio.run(run(json.loads(sys.argv[1])))))
