"""In which of OpenAI's two APIs a model is asked, and which requests neither can take."""

from __future__ import annotations

import pytest

from mgw.canonical.conversation import Conversation, Role, Text, Tool, Turn
from mgw.dialects.models import Models
from mgw.dialects.provider_dialect import AskedProvider, choose_dialect
from mgw.nouns.errors import GatewayError, Reason
from mgw.nouns.kinds import KINDS
from mgw.nouns.vocabulary import DialectName, Family, Kind

PLAIN = Conversation((Turn(Role.USER, (Text("hi"),)),))
WITH_TOOLS = Conversation(PLAIN.turns, tools=(Tool("f"),))
CLIENTS = [Family.ANTHROPIC, Family.GEMINI]
each_client = pytest.mark.parametrize("client", CLIENTS)


def asked(model: str) -> AskedProvider:
    kind = KINDS[Kind.OPENAI]
    return AskedProvider(kind, kind.dialects, Models(()).row(model, Family.OPENAI))


@each_client
@pytest.mark.parametrize("model", ["gpt-5-pro", "gpt-5.1-codex", "o3-pro", "o4-mini-deep-research"])
@pytest.mark.parametrize("conversation", [PLAIN, WITH_TOOLS], ids=["plain", "tools"])
def test_a_model_that_only_responses_serve_is_refused_where_they_may_not_be_used(
    model: str, conversation: Conversation, client: Family
) -> None:
    assert choose_dialect(conversation, client, asked(model), foreign=True) is DialectName.OPENAI_RESPONSES
    with pytest.raises(GatewayError) as refused:
        choose_dialect(conversation, client, asked(model), foreign=False)
    assert (refused.value.reason, refused.value.param) == (Reason.MALFORMED, "model")
    assert "translation.responses.upstream is none" in refused.value.message


@each_client
def test_tools_are_refused_for_a_model_that_takes_them_on_responses_alone(client: Family) -> None:
    assert choose_dialect(PLAIN, client, asked("gpt-6"), foreign=False) is DialectName.OPENAI_CHAT
    with pytest.raises(GatewayError) as refused:
        choose_dialect(WITH_TOOLS, client, asked("gpt-6"), foreign=False)
    assert (refused.value.reason, refused.value.param) == (Reason.MALFORMED, "tools")
    assert "translation.responses.upstream is none" in refused.value.message
