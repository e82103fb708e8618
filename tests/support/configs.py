"""Configurations for tests, as an operator would write them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from mgw.config.load import parse
from mgw.config.settings import Config

THREE_FAMILIES = """
providers:
  main: {kind: openai, base_url: "https://openai.example/v1", api_key: sk-main-0001, models: [gpt-b, gpt-c]}
  host: {kind: openai_compat, base_url: "https://host.example/v1", api_key: sk-host-0002}
  claude: {kind: anthropic, base_url: "https://anthropic.example/v1", api_key: sk-ant-0003}
  gem: {kind: gemini, base_url: "https://gemini.example/v1beta", api_key: AIza-0004}
  mute:
    kind: openai_compat
    base_url: "https://mute.example/v1"
    api_key: sk-mute
    capabilities: {text: false}
defaults: {openai_dialect: main, anthropic_dialect: claude, gemini_dialect: gem}
aliases:
  fast: main/gpt-b
  smart: claude/claude-x
  slashed/name: host/meta-llama/llama-4
"""


def config(text: str = THREE_FAMILIES, environ: Mapping[str, str] | None = None) -> Config:
    """Return the configuration that a text means; it never changes, so many tests have the same one."""
    return _config(text, tuple((environ or {}).items()))


@lru_cache
def _config(text: str, environ: tuple[tuple[str, str], ...]) -> Config:
    return parse(text, "mgw.yaml", dict(environ))
