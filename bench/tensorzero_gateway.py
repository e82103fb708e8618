"""Serve by the gateway inside TensorZero's Python package: ``python tensorzero_gateway.py CONFIG``.

Its project is archived, and the registries have no other build of it.  The package starts its HTTP server
for its own patch of OpenAI's client, on a port that it chooses; it is printed.  Only ``.venv-rivals`` has it.
"""

import signal
import sys

from tensorzero.tensorzero import _start_http_gateway

serving = _start_http_gateway(
    config_file=sys.argv[1], clickhouse_url=None, postgres_url=None, valkey_url=None, async_setup=False
)
print(serving.base_url, flush=True)
signal.pause()
