"""The two kinds of block: as an operator writes it, and as the gateway reads it."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Written(BaseModel):
    """A mapping in the file, whose keys are all known."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)


class Settings(BaseModel):
    """What such a mapping means: checked, resolved, frozen."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True
    )
