"""A gateway before hosts of AWS: one simulator that verifies each signature; and before hosts of Google's.

The keys contain ``canary``, so that what the gateway writes is searched for them.
"""

from __future__ import annotations

import json
from typing import Any, Final

KEY: Final = "edge-canary-1"
KEY_ID: Final = "ASIAE2ESIMULATED9QZX"
SECRET: Final = "canary/secret+of=the-clouds"
TOKEN: Final = "canary/session+of=the-clouds//"
AWS_KEY: Final = f"{KEY_ID}:{SECRET}:{TOKEN}"
"""As the simulator takes it."""
ENVIRON: Final = {
    "AWS_ACCESS_KEY_ID": KEY_ID,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_SESSION_TOKEN": TOKEN,
}
REGION: Final = "us-east-1"
SONNET: Final = "us.anthropic.claude-sonnet-4-5-20250929-v1:0"
OPUS: Final = "anthropic.claude-opus-5"
PROFILE: Final = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"
MODELS: Final = (
    f"invoke/{SONNET}",
    f"invoke/{OPUS}",
    f"mantle/{OPUS}",
    f"runtime/{SONNET}",
    "gpt/openai.gpt-5.5",
    "oss/openai.gpt-oss-120b",
)
"""One of each kind of provider, and of each way in which Claude thinks."""


def _on_aws(kind: str, base_url: str, service: str | None = None) -> dict[str, Any]:
    settings = {"region": REGION} | ({} if service is None else {"service": service})
    return {"kind": kind, "base_url": base_url, "auth": "aws", "aws": settings}


def clouds(url: str, more: str = "", /, **others: dict[str, Any]) -> str:
    """Return the configuration; JSON is YAML.

    :param url: the simulator's.
    :param more: further lines.
    :param others: further providers.
    """
    providers = {
        "invoke": _on_aws("bedrock", url),
        "mantle": _on_aws("anthropic", f"{url}/anthropic/v1", "bedrock-mantle"),
        "runtime": _on_aws("anthropic", f"{url}/anthropic/v1", "bedrock"),
        "gpt": _on_aws("openai", f"{url}/openai/v1", "bedrock-mantle"),
        "oss": _on_aws("openai_compat", f"{url}/openai/v1", "bedrock"),
        **others,
    }
    return f"""
providers: {json.dumps(providers)}
defaults: {{openai_dialect: gpt, anthropic_dialect: invoke, gemini_dialect: invoke}}
edge_auth: {{enabled: true, keys: [{KEY}]}}
translation: {{responses: {{enabled: true, hosted_tools: drop}}}}
observe_dropped_fields: true
{more}
"""


def on_google(url: str) -> dict[str, dict[str, Any]]:
    """Return providers on Vertex AI, for :func:`clouds`.

    :param url: that of a simulator without keys of AWS.
    """
    base = f"{url}/v1/projects/p/locations/global/publishers"
    key = {"auth": "bearer", "api_key": "canary-token"}
    return {
        "vertex": {"kind": "vertex_anthropic", "base_url": f"{base}/anthropic", **key},
        "gemini": {"kind": "gemini", "base_url": f"{base}/google", **key},
    }
