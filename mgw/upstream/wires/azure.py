"""Azure OpenAI: OpenAI's API, of which each call may have to say its version in the query.

Source: Microsoft's REST references of the versions ``v1`` and ``2024-10-21``.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from mgw.config.provider import Provider
from mgw.upstream.wires.wire import HostCall, ProviderWire, VendorCall, own_call
from mgw.wire.target import query_value, with_parameter


def versioned_call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return the call with the provider's ``api_version``, where the client's query says none."""
    call, parameter = own_call(provider, vendor_call), provider.row.version_parameter
    if provider.api_version is None or parameter is None or query_value(call.query, parameter) is not None:
        return call
    return replace(call, query=with_parameter(call.query, parameter, provider.api_version))


WIRE: Final = ProviderWire(call=versioned_call)
