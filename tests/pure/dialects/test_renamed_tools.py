"""Names of tools in bodies that are passed on."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mgw.dialects import dialect_of, renamed_tools
from mgw.dialects.renamed_tools import RestoredStream, ToolPlaces, request_edits, restore_answer
from mgw.dialects.tool_name_map import ToolNameMap
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.vocabulary import DialectName
from mgw.wire.json_spans import apply_edits

NAMES = ToolNameMap({"shell": "Bash"}, "x_")
CHAT, MESSAGES, RESPONSES = DialectName.OPENAI_CHAT, DialectName.ANTHROPIC, DialectName.OPENAI_RESPONSES

REQUESTS = {
    "messages": (
        MESSAGES,
        b"""{ "model":"m", "name":"shell", "metadata":{"name":"shell"},
        "tools":[{"name":"shell","input_schema":{"name":"shell","properties":{"name":{"type":"string"}}}},
                 {"type":"custom","name":"read"}, {"type":"bash_20250124","name":"bash"},
                 {"type":null,"name":"q"}],
        "tool_choice":{"type":"tool","name":"shell"},
        "messages":[{"role":"user","content":"name"},{"role":"assistant","content":[{"type":"text","name":"shell"},
          {"type":"tool_use","id":"1","name":"sh\\u0065ll","input":{"name":"shell"}},
          {"type":"server_tool_use","id":"2","name":"web_search"},
          {"type":"tool_result","content":[{"type":"tool_reference","tool_name":"read"}]}]}] }""",
        [
            (b'{"name":"shell","input', b'{"name":"Bash","input'),
            (b'"custom","name":"read"', b'"custom","name":"x_read"'),
            (b'{"type":null,"name":"q"}', b'{"type":null,"name":"x_q"}'),
            (b'"type":"tool","name":"shell"', b'"type":"tool","name":"Bash"'),
            (b'"sh\\u0065ll"', b'"Bash"'),
            (b'"tool_name":"read"', b'"tool_name":"x_read"'),
        ],
    ),
    "chat": (
        CHAT,
        b"""{"messages":[{"role":"user","name":"shell","content":"x"},
        {"role":"assistant","tool_calls":[{"id":"1","type":"function","function":{"name":"shell","arguments":"{}"}},
          {"type":"custom","custom":{"name":"read","input":""}}],"function_call":{"name":"old"}},
        {"role":"tool","tool_call_id":"1","name":"tol","content":"y"}],
        "tools":[{"type":"function","function":{"name":"shell","parameters":{"name":"shell"}}},
                 {"type":"custom","custom":{"name":"read"}}, {"type":"web_search","name":"web"}],
        "functions":[{"name":"old"}],"function_call":{"name":"old"},
        "tool_choice":{"type":"function","function":{"name":"shell"}}}""",
        [
            (b'{"name":"shell","arg', b'{"name":"Bash","arg'),
            (b'{"name":"read","in', b'{"name":"x_read","in'),
            (b'"function_call":{"name":"old"}},', b'"function_call":{"name":"x_old"}},'),
            (b'"name":"tol"', b'"name":"x_tol"'),
            (b'{"name":"shell","par', b'{"name":"Bash","par'),
            (b'"custom":{"name":"read"}}, ', b'"custom":{"name":"x_read"}}, '),
            (b'[{"name":"old"}]', b'[{"name":"x_old"}]'),
            (b'"function_call":{"name":"old"},\n', b'"function_call":{"name":"x_old"},\n'),
            (b'"function":{"name":"shell"}}}', b'"function":{"name":"Bash"}}}'),
        ],
    ),
    "responses": (
        RESPONSES,
        b"""{"tools":[{"type":"function","name":"shell"},{"type":"mcp","name":"shell","server_label":"s"}],
        "tool_choice":{"type":"allowed_tools","tools":[{"type":"function","name":"read"}]},
        "input":[{"type":"function_call","name":"shell","arguments":"{}"},{"type":"message","name":"shell"}]}""",
        [
            (b'{"type":"function","name":"shell"},', b'{"type":"function","name":"Bash"},'),
            (b'"name":"read"', b'"name":"x_read"'),
            (b'"function_call","name":"shell"', b'"function_call","name":"Bash"'),
        ],
    ),
}
RENAMING = [name for name in DialectName if dialect_of(name).rewriting is not None]


def places_of(dialect: DialectName) -> ToolPlaces:
    rewriting = dialect_of(dialect).rewriting
    assert rewriting is not None
    return rewriting.tool_places


def test_gemini_has_no_profiles_and_so_no_tools_to_rename() -> None:
    assert set(RENAMING) == {MESSAGES, CHAT, RESPONSES}


@pytest.mark.parametrize("case", REQUESTS)
def test_a_request_is_sent_with_other_names_and_is_the_same_otherwise(case: str) -> None:
    dialect, body, changes = REQUESTS[case]
    expected = body
    for before, after in changes:
        assert expected.count(before) == 1, before
        expected = expected.replace(before, after)
    assert apply_edits(body, request_edits(places_of(dialect), body, NAMES)) == expected


def test_a_body_that_is_no_json_is_refused() -> None:
    with pytest.raises(GatewayError) as refused:
        request_edits(places_of(CHAT), b"{", NAMES)
    assert refused.value.reason is Reason.MALFORMED


ANSWERS = {
    "messages": (
        MESSAGES,
        (
            b'{"content":[{"type":"text","text":"name"},{"type":"tool_use","name":"Bash","input":{"name":"Bash"}},'
            b'{"type":"server_tool_use","name":"Bash"}]}'
        ),
        [(b'"tool_use","name":"Bash","input', b'"tool_use","name":"shell","input')],
    ),
    "chat": (
        CHAT,
        b'{"choices":[{"message":{"tool_calls":[{"function":{"name":"x_read","arguments":"x_read"}}]}}]}',
        [(b'"name":"x_read"', b'"name":"read"')],
    ),
    "responses": (
        RESPONSES,
        b'{"output":[{"type":"function_call","name":"Bash"}],"tools":[{"type":"function","name":"x_read"}]}',
        [(b'"Bash"', b'"shell"'), (b'"x_read"', b'"read"')],
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_has_the_clients_own_names(case: str) -> None:
    dialect, body, changes = ANSWERS[case]
    expected = body
    for before, after in changes:
        expected = expected.replace(before, after)
    assert restore_answer(places_of(dialect), body, NAMES) == expected


@pytest.mark.parametrize("body", [b"", b'no json, but a name"', b'{"content":[]}'])
def test_an_answer_without_a_tool_is_the_same_object(body: bytes) -> None:
    assert restore_answer(places_of(MESSAGES), body, NAMES) is body


STREAMS = {
    "messages": (
        MESSAGES,
        (
            b'event: content_block_start\r\ndata: {"type":"content_block_start","index":0,"content_block":'
            b'{"type":"tool_use","id":"t","name":"Bash","input":{}}}\r\n\r\n: name"Bash"\r\n'
            b'data:{"type":"content_block_delta","delta":{"partial_json":"\\"name\\":\\"Bash\\""}}\n\n'
            b'rest "name":"Bash"'
        ),
        b'"id":"t","name":"Bash"',
        b'"id":"t","name":"shell"',
    ),
    "chat": (
        CHAT,
        (
            b'data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"x_read","arguments":""}}]}}]}\n'
            b'\ndata: {"choices":[{"delta":{"content":"\\"name\\": \\"x_read\\""}}]}\n\ndata: [DONE]\n\n'
        ),
        b'{"name":"x_read"',
        b'{"name":"read"',
    ),
    "responses": (
        RESPONSES,
        b'event: response.output_item.added\ndata: {"item":{"type":"function_call","name":"x_read"}}\n\n',
        b"x_read",
        b"read",
    ),
}


@pytest.mark.parametrize("case", STREAMS)
@given(data=st.data())
def test_a_stream_has_the_clients_own_names_however_it_is_cut(case: str, data: st.DataObject) -> None:
    dialect, whole, before, after = STREAMS[case]
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12).map(sorted))
    stream, out = RestoredStream(places_of(dialect), NAMES), b""
    for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        out += stream.feed(whole[start:end])
    assert out + stream.finish() == whole.replace(before, after)


@given(pieces=st.lists(st.text('d\n\r"name:a{} ', max_size=6).map(str.encode)))
def test_what_names_no_tool_passes_byte_for_byte(pieces: list[bytes]) -> None:
    stream = RestoredStream(places_of(CHAT), NAMES)
    assert b"".join(map(stream.feed, pieces)) + stream.finish() == b"".join(pieces)


def test_whole_lines_without_a_name_are_the_same_object() -> None:
    data = b'data: {"choices":[]}\n\n'
    assert RestoredStream(places_of(CHAT), NAMES).feed(data) is data


def test_a_line_that_is_too_long_passes_as_it_is_and_the_next_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(renamed_tools, "MAX_LINE_BYTES", 100)
    stream = RestoredStream(places_of(MESSAGES), NAMES)
    long = [b"data: " + b" " * 90, b"y" * 20, b"z"]
    event = b'\ndata: {"content_block":{"type":"tool_use","name":"Bash"}}\n'
    out = [stream.feed(piece) for piece in [*long, event]]
    assert out == [b"", long[0] + long[1], b"z", event.replace(b"Bash", b"shell")]


@pytest.mark.parametrize("dialect", sorted(RENAMING))
def test_what_is_sent_and_comes_back_is_what_the_client_sent(dialect: DialectName) -> None:
    places: dict[DialectName, tuple[str, Callable[[str], Any]]] = {  # Any: JSON
        MESSAGES: ("content", lambda name: {"type": "tool_use", "name": name}),
        CHAT: ("choices", lambda name: {"message": {"tool_calls": [{"function": {"name": name}}]}}),
        RESPONSES: ("output", lambda name: {"type": "function_call", "name": name}),
    }
    key, call = places[dialect]
    whole = json.dumps({key: [call("shell"), call("read"), call("Bash")]}).encode()
    sent = json.dumps({key: [call("Bash"), call("x_read"), call("x_Bash")]}).encode()
    assert restore_answer(places_of(dialect), sent, NAMES) == whole
