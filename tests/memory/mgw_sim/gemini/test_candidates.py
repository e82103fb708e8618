"""Google's speech."""

import base64
import json
from typing import Any

from mgw_sim.api import StreamResponse
from tests.memory.mgw_sim.client import GOOGLE, Client, content_body


def _events(client: Client, target: str, body: Any, **headers: str) -> list[Any]:
    answer = client.ask("POST", target, body, **headers)
    assert isinstance(answer, StreamResponse), answer
    lines = [piece.split(b"data: ")[1] for piece in answer.pieces]
    return [json.loads(line) for line in lines if not line.startswith(b"[DONE]")]


def test_google_speaks_in_one_part_and_in_several() -> None:
    google = Client(GOOGLE)
    voice = {"voiceConfig": {"prebuiltVoiceConfig": {"voiceName": "Kore"}}}
    body = content_body(" ".join("word" for _ in range(9)), responseModalities=["AUDIO"], speechConfig=voice)
    told = google.json("POST", "/v1beta/models/m:generateContent", body)
    [part] = told["candidates"][0]["content"]["parts"]
    assert part["inlineData"]["mimeType"] == "audio/L16;codec=pcm;rate=24000"
    assert told["usageMetadata"]["candidatesTokensDetails"] == [{"modality": "AUDIO", "tokenCount": 9}]
    pieces = _events(google, "/v1beta/models/m:streamGenerateContent?alt=sse", body)
    data = [one["candidates"][0]["content"]["parts"][0]["inlineData"]["data"] for one in pieces]
    assert len(data) > 1
    assert b"".join(map(base64.b64decode, data)) == base64.b64decode(part["inlineData"]["data"])
    other = content_body("word " * 9, responseModalities=["AUDIO"])
    assert google.json("POST", "/v1/models/m:generateContent", other)["candidates"] != told["candidates"]
