"""The name of each feature that a dialect may be unable to carry.

A parser notes under which of the client's paths it met a feature; a renderer says which features it carries.
``dropped_fields`` is then algebra: what nobody read, and the paths of what was said and not carried
(contract 8.2).  So a new feature is reported towards every dialect until its renderer carries it.
"""

from __future__ import annotations

from enum import Enum, auto


class Feature(Enum):
    """One thing that can be lost on the way."""

    __hash__ = object.__hash__  # members are single objects; Enum's own hashes the name, in Python

    SYSTEM = auto()
    """Leading instructions."""
    TURN_NAME = auto()
    CACHE = auto()
    """A mark where the prompt is cached."""
    MEDIA_DETAIL = auto()
    MEDIA_NAME = auto()
    FILE_ID = auto()
    """A file that lies with the client's own vendor."""
    IMAGE = auto()
    DOCUMENT = auto()
    AUDIO = auto()
    VIDEO = auto()
    THINKING = auto()
    """A thought in history that belongs to another family."""
    REFUSAL = auto()
    RESULT_ERROR = auto()
    """That a tool failed."""
    RESULT_NAME = auto()
    TOOLS = auto()
    TOOL_STRICT = auto()
    TOOL_CHOICE = auto()
    TOOL_CHOICE_NAMES = auto()
    """Several tools to choose from, where other dialects name one or all."""
    PARALLEL_CALLS = auto()
    TEMPERATURE = auto()
    TOP_P = auto()
    TOP_K = auto()
    FREQUENCY_PENALTY = auto()
    PRESENCE_PENALTY = auto()
    SEED = auto()
    LOGPROBS = auto()
    TOP_LOGPROBS = auto()
    MAX_TOKENS = auto()
    STOP = auto()
    CANDIDATES = auto()
    OUTPUT = auto()
    """Structured output as a whole."""
    OUTPUT_NAME = auto()
    OUTPUT_DESCRIPTION = auto()
    OUTPUT_STRICT = auto()
    REASONING = auto()
    """Effort or budget."""
    THOUGHTS = auto()
    """Whether the client reads thoughts."""
    IMAGE_ANSWERS = auto()
    """That the answer may hold images."""
    IMAGE_SHAPE = auto()
    """Proportions and size of the images of the answer."""
    USER = auto()
    PROMPT_CACHE_KEY = auto()
    """What tells the provider which prompts share their beginning."""
    DIMENSIONS = auto()
    TASK_TYPE = auto()
    EMBEDDING_TITLE = auto()
