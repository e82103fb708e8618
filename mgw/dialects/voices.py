"""The voices of each family, and who of another family sounds most like them.

A name that a family knows itself is sent as that family spells it, one of another family's is mapped by
character, and any other goes as it is: vendors add voices, and hosts have their own.  What the operator says
(``translation.voices``) comes before all of that.  Google's voices map onto the nine that every speech model
of OpenAI's takes, ``tts-1`` included.

Sources: ``SpeechCreateParams`` of openai 3.x and https://developers.openai.com/api/docs/guides/text-to-speech;
https://ai.google.dev/gemini-api/docs/speech-generation ("Voice options").
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mgw.vocabulary import Family

DEFAULT_VOICE: Final = "alloy"
"""Who speaks at OpenAI where the client names nobody: its API demands a name."""

TO_GEMINI: Final = MappingProxyType(
    {
        "alloy": "Kore",
        "ash": "Orus",
        "ballad": "Enceladus",
        "cedar": "Iapetus",
        "coral": "Laomedeia",
        "echo": "Achird",
        "fable": "Sadachbia",
        "marin": "Sulafat",
        "nova": "Zephyr",
        "onyx": "Charon",
        "sage": "Vindemiatrix",
        "shimmer": "Achernar",
        "verse": "Fenrir",
    }
)
"""OpenAI's voices, and Google's in their place."""

TO_OPENAI: Final = MappingProxyType(
    {
        "Achernar": "shimmer",
        "Achird": "echo",
        "Algenib": "onyx",
        "Algieba": "onyx",
        "Alnilam": "ash",
        "Aoede": "coral",
        "Autonoe": "nova",
        "Callirrhoe": "alloy",
        "Charon": "onyx",
        "Despina": "shimmer",
        "Enceladus": "echo",
        "Erinome": "sage",
        "Fenrir": "fable",
        "Gacrux": "sage",
        "Iapetus": "echo",
        "Kore": "alloy",
        "Laomedeia": "coral",
        "Leda": "nova",
        "Orus": "ash",
        "Puck": "fable",
        "Pulcherrima": "alloy",
        "Rasalgethi": "fable",
        "Sadachbia": "fable",
        "Sadaltager": "onyx",
        "Schedar": "echo",
        "Sulafat": "coral",
        "Umbriel": "echo",
        "Vindemiatrix": "sage",
        "Zephyr": "nova",
        "Zubenelgenubi": "ash",
    }
)
"""Google's voices, and OpenAI's in their place."""


def _stock(own: Mapping[str, str], mapped: Mapping[str, str]) -> Mapping[str, str]:
    """Return what to send for each known name, in whatever case it was asked."""
    return MappingProxyType(
        {name.casefold(): name for name in own}
        | {name.casefold(): instead for name, instead in mapped.items()}
    )


_STOCK: Final[Mapping[Family, Mapping[str, str]]] = MappingProxyType(
    {
        Family.OPENAI: _stock(TO_GEMINI, TO_OPENAI),
        Family.GEMINI: _stock(TO_OPENAI, TO_GEMINI),
    }
)
"""By the family of the provider."""


def voice_for(family: Family, asked: str, overrides: Mapping[Family, Mapping[str, str]]) -> str:
    """Return the name to send to a provider of ``family`` for the voice that a client asked for.

    :param overrides: the operator's table: by the provider's family, the name asked for and the name to send.
    """
    own = overrides.get(family, {})
    if asked in own:
        return own[asked]
    folded = asked.casefold()
    for name, instead in own.items():
        if name.casefold() == folded:
            return instead
    return _STOCK.get(family, {}).get(folded, asked)
