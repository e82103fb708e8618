"""A tool and a structured output that tests ask every vendor's SDK for."""

from typing import Any

from pydantic import BaseModel

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 3},
        "unit": {"type": "string", "enum": ["metric", "imperial"]},
    },
    "required": ["city", "days", "unit"],
    "additionalProperties": False,
}
ARGUMENTS = {"city": "some city", "days": 3, "unit": "metric"}


class Weather(BaseModel):
    """A structured answer."""

    city: str
    degrees: float
    windy: bool
    days: list[int]
