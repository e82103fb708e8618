"""Uploads of clients with tokens, in a service whose workers share nothing but what was made before them."""

from __future__ import annotations

import http.client
import signal
from collections.abc import Mapping
from urllib.parse import urlsplit

from tests.support.deployment import providers
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.idp import Idp
from tests.support.simulator import SimulatorProcess
from tests.support.waiting import WAIT_SECONDS, wait_until

PATH = "/upload/v1beta/files"
START = {
    "X-Goog-Upload-Protocol": "resumable",
    "X-Goog-Upload-Command": "start",
    "X-Goog-Upload-Header-Content-Length": "400",
    "X-Goog-Upload-Header-Content-Type": "text/plain",
    "Content-Type": "application/json",
}


def post(gateway: GatewayProcess, path: str, headers: Mapping[str, str]) -> http.client.HTTPResponse:
    """Send a request on a connection of its own, which any worker may take."""
    connection = http.client.HTTPConnection("127.0.0.1", gateway.port, timeout=WAIT_SECONDS)
    connection.request("POST", path, b"{}", dict(headers))
    response = connection.getresponse()
    response.read()
    connection.close()
    return response


def test_all_workers_take_an_address_where_a_reload_brought_the_first_issuer(
    simulator: SimulatorProcess,
) -> None:
    idp = Idp(simulator.url, "uploads")
    token = idp.token()
    base = f"{providers(idp.url)}\nworkers: 3\nlisten: 127.0.0.1:0\n"
    corp = f"{{name: corp, issuer: '{idp.issuer}', audience: mgw, rules: [{{}}]}}"
    with start_gateway(base) as gateway:
        gateway.rewrite(f"{base}edge_auth: {{enabled: true, jwt: [{corp}]}}\n")
        gateway.signal(signal.SIGHUP)
        gateway.log(b"issuer corp: keys added")
        wait_until(lambda: post(gateway, PATH, {"x-goog-api-key": "none"}).status == 401, "the reload")
        response = post(gateway, PATH, {**START, "x-goog-api-key": token})
        address = urlsplit(response.getheader("X-Goog-Upload-URL") or "")
        chunk = {"X-Goog-Upload-Command": "query"}
        statuses = [post(gateway, f"{address.path}?{address.query}", chunk).status for _ in range(12)]
        assert (response.status, set(statuses)) == (200, {200})
