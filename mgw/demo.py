"""``--demo``: the gateway with the built-in simulator beside it, and three requests to try."""

from __future__ import annotations

import sys
from typing import Any, Final

from twisted.application.service import MultiService

from mgw.service import GatewayService
from mgw.simulator.service import SimulatorService

SIMULATOR: Final = ("127.0.0.1", 8788)

_REQUESTS: Final = """\
The gateway answers. Try it, in another terminal, with each of the three dialects:

  curl -s http://{address}/v1/chat/completions -H 'Content-Type: application/json' \
-d '{{"model": "gpt-demo", "messages": [{{"role": "user", "content": "Hello"}}]}}'

  curl -s http://{address}/v1/messages -H 'Content-Type: application/json' \
-d '{{"model": "claude-demo", "max_tokens": 64, "messages": [{{"role": "user", "content": "Hello"}}]}}'

  curl -s http://{address}/v1beta/models/gemini-demo:generateContent -H 'Content-Type: application/json' \
-d '{{"contents": [{{"role": "user", "parts": [{{"text": "Hello"}}]}}]}}'

"""


class Demo(MultiService):
    """Both services as one."""

    def __init__(self, gateway: GatewayService, reactor: Any) -> None:  # Any: a reactor has no one type
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted's
        self._gateway = gateway
        simulator: Any = SimulatorService(reactor, *SIMULATOR)  # Any: it knows nothing of our types
        for service in (simulator, gateway):
            service.setServiceParent(self)

    def setServiceParent(self, parent: Any) -> None:
        """Join the application, whose log becomes the gateway's."""
        self._gateway.take_over_log(parent)
        super().setServiceParent(parent)  # type: ignore[no-untyped-call]  # Twisted's

    def startService(self) -> None:
        """Start both, and say what to try."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted's
        stdout = sys.__stdout__  # sys.stdout is the log by now
        if stdout is not None:
            stdout.write(_REQUESTS.format(address=self._gateway.addresses[0]))
            stdout.flush()
