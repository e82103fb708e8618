"""Run a program that may wait at its top level, as snippets of docs/clients.rst do: ``snippet.py FILE``."""

from __future__ import annotations

import ast
import asyncio
import sys
from inspect import CO_COROUTINE
from pathlib import Path

file = Path(sys.argv[1])
code = compile(file.read_text(encoding="utf-8"), file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
result = eval(code, {"__name__": "__main__"})  # a snippet of a page of ours
if code.co_flags & CO_COROUTINE:
    asyncio.run(result)
