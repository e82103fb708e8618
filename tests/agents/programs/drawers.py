"""An MCP server with one tool, over standard input and output: what is in a drawer.

Just what a client needs of the protocol (modelcontextprotocol.io, revision 2025-06-18), one JSON-RPC message
a line: ``initialize``, ``tools/list`` and ``tools/call``.  Other requests are unknown methods.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Final

TOOL: Final = {
    "name": "open",
    "description": "Open a drawer.",
    "inputSchema": {
        "type": "object",
        "properties": {"drawer": {"type": "integer"}},
        "required": ["drawer"],
        "additionalProperties": False,
    },
}


def result_of(method: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request, or None for an unknown method."""
    if method == "initialize":
        version = parameters["protocolVersion"]
        server = {"name": "drawers", "version": "1"}
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
    if method == "tools/list":
        return {"tools": [TOOL]}
    if method == "tools/call":
        text = f"a tangerine is in drawer {parameters['arguments']['drawer']}"
        return {"content": [{"type": "text", "text": text}], "isError": False}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = result_of(message["method"], message.get("params") or {})
    unknown = {"error": {"code": -32601, "message": "unknown method"}}
    answer = unknown if result is None else {"result": result}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n")
    sys.stdout.flush()
