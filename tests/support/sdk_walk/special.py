"""Methods of OpenAI's and Anthropic's SDKs that want more than their type hints say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.support.sdk_walk.arguments import everything, required
from tests.support.sdk_walk.cases import Case, finish
from tests.support.sdk_walk.methods import Method

Cases = Callable[[Method], Iterable[Case]]

FOLDER: Final = Path(__file__).parent
SAMPLE: Final = FOLDER / "__init__.py"
"""A file on disk, for methods that take no bytes."""

_WORKSPACE: Final = "/workspace/sample.txt"
_MESSAGES: Final = [{"role": "user", "content": "Hello"}]
_SCHEMA: Final[dict[str, Any]] = {"type": "object", "properties": {}}


def adjusted(*leave_out: str, then: Callable[[Any], object] = finish, **given: Any) -> Cases:
    """Return cases that replace some arguments, and leave some that may not stand together out."""

    def cases(method: Method) -> Iterator[Case]:
        yield Case("required", lambda model: required(method, model) | given, then)
        yield Case("everything", lambda model: _without(everything(method, model) | given, leave_out), then)

    return cases


def only(then: Callable[[Any], object] = finish, **given: Any) -> Cases:
    """Return the one case that has just these arguments."""
    return lambda method: [Case("given", lambda model: given, then)]


def _without(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in names}


def first_of(runner: Iterable[Any]) -> None:
    """Send what a runner of tools sends first."""
    next(iter(runner), None)


def _two_turns(thread: Any) -> None:
    thread.send(*_MESSAGES)
    thread.send(*_MESSAGES)


def _all_artifacts(found: Any) -> None:
    found.content("report.txt")


OPENAI: Final[Mapping[str, Cases]] = {
    # One of several sets of arguments must be there.
    "admin.organization.external_keys.create": adjusted(
        external_id="external_1", kms_arn="arn_1", name="key", role_arn="arn_2", type="aws_kms"
    ),
    "audio.voices.create": adjusted(name="voice", prompt="warm", type="prompt"),
    "beta.agents.automations.create": adjusted(
        name="daily", run_at="2026-01-02T03:04:05Z", target={"type": "agent"}, type="once"
    ),
    "beta.agents.environments.files.create": adjusted(file_id="file_1", path=_WORKSPACE, type="file"),
    # Files on disk, and where they go.
    "beta.agents.environments.files.prepare": adjusted(files={_WORKSPACE: str(SAMPLE)}),
    "beta.agents.environments.files.prepare_directory": adjusted(
        root=str(FOLDER), destination="/workspace/folder", include=[SAMPLE.name]
    ),
    "beta.agents.environments.files.upload": adjusted(path=_WORKSPACE),
    "uploads.upload_file_chunked": adjusted(file=b"0123456789", filename="ten.txt", bytes=10, part_size=4),
    # What a call before it has returned.
    "beta.agents.sessions.artifacts.for_result": only(
        result=SimpleNamespace(session_id="session_1", turn_id="turn_1"), then=_all_artifacts
    ),
    # Arguments that may not stand together, and tools that the SDK reads itself.
    "beta.chat.completions.parse": adjusted("tools"),
    "chat.completions.parse": adjusted("tools"),
    "responses.parse": adjusted("tools"),
    "responses.stream": adjusted("tools", "response_id", "starting_after", input="Hello"),
}

ANTHROPIC: Final[Mapping[str, Cases]] = {
    "beta.messages.thread": adjusted("tools", then=_two_turns),
    "beta.messages.tool_runner": adjusted(
        "run_tools_eagerly",
        "stream",
        tools=[{"name": "look", "input_schema": _SCHEMA}],
        then=first_of,
    ),
}
