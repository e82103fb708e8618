"""What a legal answer of each vendor looks like, as its reference and its SDK's types say it.

Nothing here knows how the gateway writes: a checker that copied the writer would bless its mistakes.  Each
function returns nothing, or raises :class:`AssertionError` with the place and the broken rule.  A stream that
is ``broken`` must show so and must not look complete.
"""

from tests.support.grammar.anthropic import check_message, check_messages_stream
from tests.support.grammar.gemini import check_gemini_array, check_gemini_sse, check_generate_content
from tests.support.grammar.openai import check_chat, check_chat_stream

__all__ = [
    "check_chat",
    "check_chat_stream",
    "check_gemini_array",
    "check_gemini_sse",
    "check_generate_content",
    "check_message",
    "check_messages_stream",
]
