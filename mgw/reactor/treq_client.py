"""treq's client, and the errors that it passes on.

They are imported from here, since the modules that treq needs would bring pyOpenSSL: it is for an agent of
Twisted's that speaks TLS, and ours has connections of its own (:mod:`mgw.upstream.agent`).  Whoever imports
this does so where a request of ours is made, or is to be made: few gateways make any.
"""

from __future__ import annotations

from mgw.reactor.lean_start import without_openssl

with without_openssl():
    from treq.client import HTTPClient
    from twisted.web.client import ResponseDone, ResponseFailed

__all__ = ["HTTPClient", "ResponseDone", "ResponseFailed"]
