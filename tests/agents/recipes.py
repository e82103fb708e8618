"""The recipes of docs/clients.rst, as the page has them: its blocks, and what runs each of them.

A program of the page gets a few lines before it (the key) and behind it (what a reader would do next); the
page's own lines are run as they stand, but for the address of the gateway.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tools.pages.blocks import ROOT, Place, blocks_of

FILE: Final = ROOT / "docs" / "clients.rst"
PAGE: Final = blocks_of(FILE)
KEY: Final = "edge-canary-recipes"
SHOWN: Final = "127.0.0.1:8787"
SHOWN_TLS: Final = "https://gateway.example"

CONFIGURATION: Final[tuple[Place, ...]] = (
    ("Clients", 1),
    ("Client settings", 1),
    ("Models of other families", 2),
    ("Codex", 3),
)
"""The blocks that make up the configuration of the gateway that all recipes use."""

AGENTS: Final[dict[Place, str]] = {
    ("Claude Code", 1): "test_claude_code_is_set_up_by_variables",
    ("Claude Code", 2): "test_claude_code_works_without_an_anthropic_provider",
    ("Codex", 1): "test_codex_is_set_up_by_its_table",
    ("Codex", 2): "test_codex_is_set_up_by_its_table",
    ("Codex", 4): "test_codex_takes_the_catalog",
    ("Codex", 5): "test_codex_takes_the_catalog",
    ("WebSockets", 1): "test_codex_uses_a_websocket_for_openais_models",
    ("WebSockets", 2): "test_codex_uses_a_websocket_for_openais_models",
    ("Gemini CLI", 1): "test_the_gemini_cli_is_set_up_by_a_file_and_variables",
    ("Gemini CLI", 2): "test_the_gemini_cli_is_set_up_by_a_file_and_variables",
    ("Gemini CLI", 3): "test_the_gemini_cli_works_in_a_ci_job",
    ("llm", 1): "test_llm_is_set_up_by_a_file_and_its_keys",
    ("llm", 2): "test_llm_is_set_up_by_a_file_and_its_keys",
}
"""Which test of ``test_recipes.py`` runs a block that is no program of its own."""

ELSEWHERE: Final[dict[Place, str]] = {
    ("curl", 1): "tests/documents/test_command_blocks.py",
    ("Claude Code", 3): "tests/documents/test_page_configurations.py",
    ("Claude Code", 4): "tests/documents/test_page_configurations.py",
    ("Claude Code", 5): "tests/documents/test_page_configurations.py",
    ("Azure clients", 1): "tests/documents/test_page_configurations.py",
    ("Azure clients", 2): "tests/sockets/test_azure_clients.py",
    ("Web pages", 1): "tests/documents/test_page_configurations.py",
    ("Web pages", 2): "tests/browser/test_cors.py",
    ("Open WebUI", 1): "a container of another project",
    ("aider", 1): "every library that it pins is older than those of the other frameworks",
}
"""Blocks that are run by other tests, or by hand, and why."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the page.

    ``interpreter`` is ``python`` or ``older`` of the agents' installation, ``own`` for the one of the tests,
    or ``node``; ``expected`` is what it prints with ``before`` and ``after`` around it.
    """

    place: Place
    interpreter: str
    after: str
    expected: str
    before: str = ""
    continues: Place | None = None
    """A block that stands before this one in the same program."""

    def source(self, replaced: Mapping[str, str]) -> str:
        """Return the whole program, with what stands for the page's addresses."""
        blocks = [place for place in (self.continues, self.place) if place is not None]
        declared = "const key" if self.interpreter == "node" else "key"
        return "\n".join(
            [f"{declared} = '{KEY}';", self.before, *(here(place, replaced) for place in blocks), self.after]
        )


def here(place: Place, replaced: Mapping[str, str]) -> str:
    """Return a block of the page, with what stands for its words here."""
    text = PAGE[place].text
    for shown, own in replaced.items():
        text = text.replace(shown, own)
    return text


def configuration(simulator_url: str) -> str:
    """Return the configuration that the page shows, with the simulator in place of every provider."""
    found: dict[str, Any] = {}
    for place in CONFIGURATION:
        _merge(found, yaml.safe_load(PAGE[place].text))
    for provider in found["providers"].values():
        version = "v1beta" if provider["kind"] == "gemini" else "v1"
        provider["base_url"] = f"{simulator_url}/{version}"
        if provider.pop("auth", None) == "none":
            provider["api_key"] = "sk-canary-local"  # without any, the simulator answers nobody
    written: str = yaml.safe_dump(found)
    return written


def environ() -> dict[str, str]:
    """Return the variables that this configuration names."""
    named = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    return {**dict.fromkeys(named, "sk-canary-vendor"), "MGW_KEYS": KEY}


def _merge(into: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def interpreter(name: str, installation: Path) -> Path:
    """Return the Python of an environment of the agents' installation."""
    return installation / name / "bin" / "python"


# The programs ---------------------------------------------------------------------------------------------

_SDKS: Final = """
say = [{"role": "user", "content": "Hello"}]
print(openai.chat.completions.create(model="claude/claude-sonnet-5", messages=say).choices[0].message.content)
print(anthropic.messages.create(model="main/gpt-5", max_tokens=64, messages=say).content[0].text)
print(google.models.generate_content(model="claude/claude-sonnet-5", contents="Hello").text)
"""

_SEND_BACK_BEFORE: Final = """
from openai import OpenAI
client = OpenAI(base_url="http://127.0.0.1:8787/v1", api_key=key)
messages = [{"role": "user", "content": 'use tool get_weather with {"city": "Paris"}'}]
parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "get_weather", "parameters": parameters}}]
"""
_SEND_BACK_AFTER: Final = """
[call] = messages[-1].tool_calls
messages.append({"role": "tool", "tool_call_id": call.id, "content": "rain in Paris"})
print(client.chat.completions.create(model="claude/claude-sonnet-5", messages=messages, tools=tools)
      .choices[0].message.content)
"""

_LANGCHAIN: Final = """
from langchain_core.tools import tool
@tool
def get_weather(city: str) -> str:
    "The weather."
    return "rain"
for model in (openai, anthropic, google):
    called = model.bind_tools([get_weather]).invoke('use tool get_weather with {"city": "Paris"}').tool_calls
    print(model.invoke("Hello").content, called[0]["args"])
print(any(chunk.usage_metadata for chunk in openai.stream("Hello")))
"""

_VERCEL: Final = """
import { embed, generateText, jsonSchema, stepCountIs, streamText, tool } from 'ai';
const city = jsonSchema({ type: 'object', properties: { city: { type: 'string' } }, required: ['city'],
                          additionalProperties: false });
const tools = { weather: tool({ description: 'The weather', inputSchema: city, execute: () => 'rain' }) };
for (const model of [MODELS]) {
  const { text } = await generateText({ model, prompt: 'Hello', maxRetries: 0 });
  let streamed = '';
  const stream = streamText({ model, prompt: 'Hello', maxRetries: 0 });
  for await (const piece of stream.textStream) streamed += piece;
  const loop = await generateText({ model, tools, stopWhen: stepCountIs(3), maxRetries: 0,
                                    prompt: 'use tool weather with {"city": "Paris"}' });
  console.log(text, '/', streamed, '/', loop.steps.length, loop.text.includes('rain'));
}
const { embedding } = await embed({ model: EMBEDDING, value: 'Hello' });
console.log(embedding.length > 0);
"""


def _vercel() -> str:
    """Return what uses each of the models that the page makes."""
    lines = [line.partition(";")[0] for line in PAGE["Vercel AI SDK", 1].text.splitlines()]
    made = [line for line in lines if line.startswith(("openai", "anthropic", "google"))]
    models = [line for line in made if "embedding" not in line]
    [embedding] = set(made) - set(models)
    return _VERCEL.replace("MODELS", ", ".join(models)).replace("EMBEDDING", embedding)


_REALTIME_AGENT: Final = """
async with session:
    await session.send_message("Hello")
    async for event in session:
        if event.type in ("agent_end", "error"):
            print(event.type)
            break
"""
_REALTIME: Final = """
    await connection.conversation.item.create(
        item={"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}]})
    await connection.response.create()
    async for event in connection:
        if event.type in ("response.output_text.done", "error"):
            print(event.type, getattr(event, "text", event))
            break
"""
_LIVE: Final = """
    async for message in session.receive():
        if message.server_content and message.server_content.turn_complete:
            print("turn complete")
"""

_FORCED: Final = """
from pydantic import BaseModel
class City(BaseModel):
    city: str
models = {"main/gpt-5": openai, "claude/claude-sonnet-5": anthropic, "gem/gemini-2.5-flash": google}
for model, client in models.items():
    limit = {"max_tokens": 99} if client is anthropic else {}
    city = client.create(model=model, response_model=City, max_retries=0, **limit,
                         messages=[{"role": "user", "content": "Paris"}])
    print(type(city).__name__)
"""
_THREE_HELLOS: Final = "You said: Hello\n" * 3

PROGRAMS: Final = (
    Program(
        ("Models of other families", 1),
        "own",
        _SEND_BACK_AFTER,
        "Tool get_weather returned: rain in Paris\n",
        _SEND_BACK_BEFORE,
    ),
    Program(("Files, batches and other APIs", 1), "own", "print('listed')", "listed\n"),
    Program(("Files, batches and other APIs", 2), "own", "print('listed')", "listed\n"),
    Program(("Python SDKs", 1), "own", _SDKS, _THREE_HELLOS),
    Program(("LangChain", 1), "python", _LANGCHAIN, "You said: Hello {'city': 'Paris'}\n" * 3 + "True\n"),
    Program(
        ("LangChain", 2),
        "python",
        "print(all(model.embed_query('Hello') for model in (openai, google)))",
        "True\n",
    ),
    Program(
        ("Vercel AI SDK", 1), "node", _vercel(), "You said: Hello / You said: Hello / 2 true\n" * 4 + "true\n"
    ),
    Program(
        ("Vercel AI SDK", 2),
        "node",
        "console.log(text, Boolean(reasoningText));",
        "You said: Hello true\n",
        continues=("Vercel AI SDK", 1),
    ),
    Program(
        ("OpenAI Agents SDK", 1),
        "python",
        "from agents import Runner\nprint(Runner.run_sync(agent, 'Hello').final_output)",
        "You said: Hello\n",
    ),
    Program(("OpenAI Agents SDK", 2), "python", _REALTIME_AGENT, "agent_end\n"),
    Program(("Realtime SDKs", 1), "own", _REALTIME, "response.output_text.done You said: Hello\n"),
    Program(("Realtime SDKs", 2), "own", _LIVE, "turn complete\n"),
    Program(
        ("pydantic-ai", 1),
        "python",
        "for agent in agents:\n    print(agent.run_sync('Hello').output)",
        _THREE_HELLOS,
    ),
    Program(("instructor", 1), "older", _FORCED, "City\n" * 3),
    Program(
        ("LlamaIndex", 1),
        "older",
        "print(llm.complete('Hello'))\nprint(''.join(piece.delta for piece in llm.stream_complete('Hello')))",
        "You said: Hello\n" * 2,
    ),
    Program(
        ("LiteLLM", 1),
        "python",
        "for answer in answers:\n    print(answer.choices[0].message.content)",
        _THREE_HELLOS,
        before="import os; os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'\n"
        "import litellm; litellm.suppress_debug_info = True",
    ),
)
