"""An alias whose targets are at several clouds: one that throttles hands the request to the next.

Bedrock says so in a head, or as the first frame of an answer whose status is 200; neither is seen by the
client.  Behind the first words of an answer it is the client's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import anthropic
import openai
import pytest
from google.genai import errors as genai_errors

from tests.support.clouds import AWS_KEY, ENVIRON, KEY, OPUS, SONNET, clouds, on_google
from tests.support.gateway import GatewayProcess, start_gateway
from tests.support.sdk_conversations import CONVERSATIONS, SdkConversation
from tests.support.simulator import SimulatorProcess, start_simulator

Maker = Callable[[str, str, str], SdkConversation]
ERRORS: Final = (anthropic.APIError, openai.APIError, genai_errors.APIError)
LAST: Final = "claude/claude-sonnet-4-5"
FRAMES: Final = tuple(
    f"sim-exception-{name}-0"
    for name in (
        "throttlingException",
        "modelNotReadyException",
        "serviceUnavailableException",
        "internalServerException",
    )
)
ALIASES: Final = {
    "clouds": [
        f"invoke/{SONNET}+sim-status-429",
        "vertex/claude-sonnet-4-5@20250929+sim-status-429",
        LAST,
    ],
    "clouds-by-a-frame": [
        f"invoke/{SONNET}+sim-exception-throttlingException-0",
        "vertex/claude-sonnet-4-5@20250929+sim-status-503",
        LAST,
    ],
    "head": [f"invoke/{SONNET}+sim-status-429", f"runtime/{SONNET}+sim-status-429", LAST],
    "unavailable": [f"invoke/{SONNET}+sim-status-503", f"mantle/{OPUS}+sim-status-529", LAST],
    **{name: [f"invoke/{SONNET}+{name}", f"invoke/{OPUS}+sim-status-429", LAST] for name in FRAMES},
    "broken": [f"invoke/{SONNET}+sim-frame-cut-0", LAST],
    "late": [f"invoke/{SONNET}+sim-exception-throttlingException-4", LAST],
    "all": [f"runtime/{SONNET}+sim-status-503", f"invoke/{SONNET}+sim-exception-throttlingException-0"],
    "wrong": [f"invoke/{SONNET}+sim-exception-validationException-0", LAST],
}


@dataclass
class Street:
    """Hosts of Amazon's and Google's that fail, Anthropic's own that does not, and a gateway before them."""

    amazon: SimulatorProcess
    others: SimulatorProcess
    gateway: GatewayProcess
    _events: int = 0

    def ask(self, make: Maker, alias: str, *, stream: bool) -> str:
        """Ask an alias, and return the answer's text."""
        self.amazon.clear()
        self.others.clear()
        conversation = make(self.gateway.url, KEY, alias)
        conversation.add_user("Hello")
        return conversation.answer(stream=stream).text

    def event(self) -> dict[str, Any]:
        """Return the event of the only request since the last one."""
        before = self._events
        found = self.gateway.events(before + 1)
        self._events = len(found)
        assert self._events == before + 1
        return found[-1]


@pytest.fixture(scope="module")
def street() -> Iterator[Street]:
    with start_simulator(AWS_KEY) as amazon, start_simulator() as others:
        claude = {"kind": "anthropic", "base_url": f"{others.url}/v1", "api_key": "sk-ant-canary"}
        config = clouds(
            amazon.url,
            f"aliases: {json.dumps(ALIASES)}\nretries: {{attempts: 0}}",
            claude=claude,
            **on_google(others.url),
        )
        with start_gateway(config, ENVIRON) as gateway:
            yield Street(amazon, others, gateway)


@pytest.mark.parametrize("make", CONVERSATIONS)
@pytest.mark.parametrize(
    ("alias", "stream"),
    [
        ("clouds", False),
        ("clouds", True),
        ("clouds-by-a-frame", True),
        ("head", False),
        ("head", True),
        ("unavailable", False),
        ("unavailable", True),
        *((name, True) for name in FRAMES),
    ],
)
def test_every_target_is_tried_until_one_answers(
    street: Street, make: Maker, alias: str, stream: bool
) -> None:
    assert street.ask(make, alias, stream=stream) == "You said: Hello"
    event = street.event()
    assert (event["provider"], event["model"], event["status"]) == ("claude", alias, "ok")
    assert (event["attempts"], event["http_status"], event["stream"]) == (3, 200, stream)
    assert event["tokens_out"] > 0
    assert len(street.amazon.requests()) + len(street.others.requests()) == 3
    assert street.others.requests()[-1].target == "/v1/messages"


@pytest.mark.parametrize("make", CONVERSATIONS)
def test_a_broken_first_frame_is_a_failure_like_others(street: Street, make: Maker) -> None:
    assert street.ask(make, "broken", stream=True) == "You said: Hello"
    event = street.event()
    assert (event["provider"], event["attempts"], event["status"]) == ("claude", 2, "ok")


@pytest.mark.parametrize("make", CONVERSATIONS)
def test_an_exception_behind_the_first_words_is_the_clients(street: Street, make: Maker) -> None:
    with pytest.raises(ERRORS, match="throttlingException"):
        street.ask(make, "late", stream=True)
    event = street.event()
    assert (event["provider"], event["attempts"], event["status"]) == ("invoke", 1, "upstream_error")
    assert not street.others.requests()


@pytest.mark.parametrize("make", CONVERSATIONS)
def test_the_last_targets_refusal_is_the_clients(street: Street, make: Maker) -> None:
    with pytest.raises(ERRORS, match="throttlingException") as caught:
        street.ask(make, "all", stream=True)
    assert getattr(caught.value, "status_code", None) or getattr(caught.value, "code", None) == 429
    event = street.event()
    assert (event["provider"], event["attempts"], event["http_status"]) == ("invoke", 2, 429)


@pytest.mark.parametrize("make", CONVERSATIONS)
def test_what_no_other_target_would_take_is_not_sent_there(street: Street, make: Maker) -> None:
    with pytest.raises(ERRORS, match="validationException"):
        street.ask(make, "wrong", stream=True)
    event = street.event()
    assert (event["provider"], event["attempts"], event["http_status"]) == ("invoke", 1, 400)
    assert not street.others.requests()
