"""The audio modality, put into a client's own bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects.gemini.speech import add_audio_modality
from mgw.nouns.errors import GatewayError, Reason

CONTENTS = b'"contents" : [{"parts":[{"text":"say \\u007b\\"generationConfig\\""}]}]'


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"{}", b'{"generationConfig":{"responseModalities":["AUDIO"]}}'),
        (b" { } ", b' {"generationConfig":{"responseModalities":["AUDIO"]} } '),
        (
            b"{ " + CONTENTS + b"\n}",
            b'{"generationConfig":{"responseModalities":["AUDIO"]}, ' + CONTENTS + b"\n}",
        ),
        (
            b'{"generationConfig":{},' + CONTENTS + b"}",
            b'{"generationConfig":{"responseModalities":["AUDIO"]},' + CONTENTS + b"}",
        ),
        (
            b'{"generationConfig" : null}',
            b'{"generationConfig" : {"responseModalities":["AUDIO"]}}',
        ),
        (
            b'{"generationConfig":{ "seed":1.0e0 }}',
            b'{"generationConfig":{"responseModalities":["AUDIO"], "seed":1.0e0 }}',
        ),
        (
            b'{"generation_config":{"seed":1}}',
            b'{"generation_config":{"response_modalities":["AUDIO"],"seed":1}}',
        ),
        (b'{"generation_config":null}', b'{"generation_config":{"response_modalities":["AUDIO"]}}'),
        (
            b'{"generationConfig":{"responseModalities": null ,"seed":1}}',
            b'{"generationConfig":{"responseModalities": ["AUDIO"] ,"seed":1}}',
        ),
        (
            b'{"generationConfig":{"response_modalities":[ ]}}',
            b'{"generationConfig":{"response_modalities":["AUDIO"]}}',
        ),
        (
            b'{"generation_config":null,"generationConfig":{"seed":1}}',
            b'{"generation_config":null,"generationConfig":{"responseModalities":["AUDIO"],"seed":1}}',
        ),
        (
            b'{"generation_config":{"seed":1},"generationConfig":{}}',
            b'{"generation_config":{"seed":1},"generationConfig":{"responseModalities":["AUDIO"]}}',
        ),
        (
            b'{"generationConfig":{},"generation_config":{}}',
            b'{"generationConfig":{},"generation_config":{"response_modalities":["AUDIO"]}}',
        ),
        (
            b'{"\\u0067enerationConfig":{}}',
            b'{"\\u0067enerationConfig":{"responseModalities":["AUDIO"]}}',
        ),
    ],
)
def test_the_wish_is_put_in_where_it_belongs(body: bytes, found: bytes) -> None:
    assert add_audio_modality(body) == found


@pytest.mark.parametrize(
    "body",
    [
        b'{"generationConfig":{"responseModalities":["AUDIO"]}}',
        b'{"generationConfig":{"responseModalities":["TEXT"]}}',
        b'{"generation_config":{"response_modalities":["AUDIO"]}}',
        b'{"generationConfig":{"response_modalities":["AUDIO"],"responseModalities":null}}',
        b'{"generationConfig":"nonsense"}',
        b'{"generationConfig":[]}',
        b'["generationConfig"]',
        b'"text"',
        b"null",
    ],
)
def test_what_says_it_or_is_no_such_request_stays_the_same_object(body: bytes) -> None:
    assert add_audio_modality(body) is body


@pytest.mark.parametrize("body", [b"", b"{", b'{"a":1}}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(GatewayError) as caught:
        add_audio_modality(body)
    assert caught.value.reason is Reason.MALFORMED


VALUES: st.SearchStrategy[Any] = st.sampled_from(
    [1, 'a \\ " {', [], {}, {"responseModalities": ["TEXT"]}, None, "é"]
)
CONFIGS = st.one_of(st.none(), st.dictionaries(st.sampled_from(["seed", "topK", "speechConfig"]), VALUES))


@given(
    before=st.dictionaries(st.sampled_from(["contents", "tools", "model"]), VALUES),
    config=CONFIGS,
    key=st.sampled_from(["generationConfig", "generation_config"]),
    stated=st.booleans(),
    indent=st.sampled_from([None, 1]),
)
def test_nothing_else_of_any_request_changes(
    before: dict[str, Any], config: dict[str, Any] | None, key: str, stated: bool, indent: int | None
) -> None:
    request = {**before, **({key: config} if stated else {}), "cachedContent": "x"}
    body = json.dumps(request, indent=indent).encode()
    found = add_audio_modality(body)
    changed = json.loads(found)
    spelled = key if stated else "generationConfig"
    name = "responseModalities" if spelled == "generationConfig" else "response_modalities"
    assert changed.pop(spelled) == {name: ["AUDIO"], **((config if stated else None) or {})}
    request.pop(spelled, None)
    assert changed == request
    assert len(found) <= len(body) + len(b'"generation_config":{"response_modalities":["AUDIO"]},')
