"""Gemini on Vertex AI: the methods of models as the Gemini API has them, and nothing else.

Files, caches, batches, tuned models and the like have other addresses there, or none, and models are not
listed.  Source: google-genai 3.6, ``_api_client.py`` and the modules of its resources.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from mgw.config.provider import Provider
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Operation
from mgw.upstream.wires.wire import HostCall, ProviderWire, VendorCall, own_call
from mgw.wire.target import quote_model_path

_METHOD: Final = re.compile(rb"/models/(?!.*/operations(?:/|\Z)).+(?::|%3[Aa])[A-Za-z]+").fullmatch
_FILES: Final = re.compile(rb"/files(?:[/:]|\Z)").match
_HI: Final = b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'


def call(provider: Provider, vendor_call: VendorCall) -> HostCall:
    """Return where Vertex AI takes a call.

    :raises GatewayError: ``UNSUPPORTED_BY_KIND``: not below the address of a publisher.
    """
    is_list = vendor_call.operation is Operation.MODELS
    if not is_list and (vendor_call.prefix or not _METHOD(vendor_call.path)):
        message = "Gemini on Vertex AI serves the methods of models only"
        if _FILES(vendor_call.path):
            message += (
                ", and stores no files: put a gs:// or https address into fileData, or send the file itself"
            )
        raise GatewayError(Reason.UNSUPPORTED_BY_KIND, message)
    return own_call(provider, vendor_call)


def probe(provider: Provider) -> HostCall:
    """Return the call that counts a small text, or asks for the models if none is known."""
    if not provider.models:
        return own_call(provider, VendorCall(Operation.MODELS, b"GET", b"/models"))
    path = b"/models/%b:countTokens" % quote_model_path(provider.models[0].removeprefix("models/"))
    return replace(own_call(provider, VendorCall(Operation.COUNT, b"POST", path)), body=_HI)


WIRE: Final = ProviderWire(call=call, probe=probe, serves_all=False, has_list=False)
