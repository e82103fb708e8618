"""Headers that identify a single request, so that their values differ where all else is the same."""

from __future__ import annotations

from typing import Final

VARYING: Final = frozenset(
    {
        *(b"traceparent", b"tracestate", b"baggage", b"x-client-request-id", b"idempotency-key"),
        # what Envoy and ingress controllers, Amazon's and Google's load balancers, and Cloudflare add
        *(b"x-request-id", b"x-amzn-trace-id", b"x-cloud-trace-context", b"cf-ray"),
    }
)
"""Headers whose values mean nothing here, whether they are passed on or not."""
