"""What of the Gemini API goes to Vertex AI."""

from __future__ import annotations

from typing import Any, Final

import pytest

from mgw.config.provider import Provider
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import Kind, Operation
from mgw.upstream.wires import wire_of
from mgw.upstream.wires.vertex_gemini import WIRE
from mgw.upstream.wires.wire import VENDOR, HostCall, VendorCall, probe_call

PATH: Final = b"/v1/projects/p/locations/global/publishers/google"
HOST: Final = f"https://aiplatform.googleapis.com{PATH.decode()}"


def provider(base_url: str = HOST, **more: Any) -> Provider:
    return Provider(name="gem", kind=Kind.GEMINI, base_url=base_url, **more)


def call(path: bytes, **more: Any) -> HostCall:
    return WIRE.call(provider(), VendorCall(Operation.RELAY, b"POST", path, b"alt=sse", **more))


def test_the_address_says_which_wire_a_provider_has() -> None:
    assert wire_of(provider()) is WIRE
    assert wire_of(provider("https://generativelanguage.googleapis.com/v1beta")) is VENDOR
    assert WIRE.is_plain


@pytest.mark.parametrize(
    "path",
    [
        b"/models/gemini-2.5-flash:generateContent",
        b"/models/gemini-2.5-flash%3AgenerateContent",
        b"/models/gemini-embedding-001:embedContent",
        b"/models/imagen-4:predict",
        b"/models/veo-3:fetchPredictOperation",
        b"/models/operations:generateContent",
    ],
)
def test_methods_of_models_go_on_as_they_are(path: bytes) -> None:
    assert call(path) == HostCall(b"POST", PATH + path, b"alt=sse")


@pytest.mark.parametrize(
    "path",
    [
        b"/cachedContents",
        b"/cachedContents/x",
        b"/batches/x:cancel",
        b"/tunedModels/x:generateContent",
        b"/fileSearchStores",
        b"/interactions",
        b"/auth_tokens",
        b"/operations/x",
        b"/models/veo-3/operations/x",
        b"/models/veo-3/operations/x:cancel",
        b"/models/gemini-2.5-flash",
        b"/corpora",
    ],
)
def test_what_has_no_place_there_is_refused(path: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        call(path)
    assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND
    assert "fileData" not in caught.value.message


def test_sessions_of_the_live_api_are_refused() -> None:
    path = b"/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
    with pytest.raises(GatewayError) as caught:
        call(path, from_origin=True)
    assert caught.value.reason is Reason.UNSUPPORTED_BY_KIND


@pytest.mark.parametrize(
    ("path", "prefix"),
    [(b"/files", b""), (b"/files/x", b""), (b"/files:register", b""), (b"/files", b"/upload")],
)
def test_the_refusal_of_files_says_what_to_do_instead(path: bytes, prefix: bytes) -> None:
    with pytest.raises(GatewayError, match=r"gs:// or https address into fileData"):
        call(path, prefix=prefix)


def test_health_counts_the_tokens_of_a_word_for_the_first_model() -> None:
    found = probe_call(provider(models=["models/gemini-2.5-flash"]), WIRE)
    assert (found.method, found.target) == (b"POST", PATH + b"/models/gemini-2.5-flash:countTokens")
    assert found.body == b'{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}'
    assert probe_call(provider(), WIRE) == HostCall(b"GET", PATH + b"/models")
    assert not WIRE.has_list
