"""Models that a provider lists, and what model lists say about these and about aliases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, ConfigDict, Field, GetJsonSchemaHandler, WithJsonSchema
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from mgw.config.checks import NAME, TEXT, checked_name, checked_text
from mgw.config.field_types import Name
from mgw.config.problems import Path, Report
from mgw.config.quoting import quote
from mgw.config.settings_base import (
    Omittable,
    Settings,
    check_with,
    expect,
    required,
    setting,
    wrong_type,
    wrong_value,
)

MAX_NAME_CHARACTERS: Final = 200
MAX_DESCRIPTION_CHARACTERS: Final = 1000
_MAX_MODEL_TOKENS: Final = 2**53


def _at_most(characters: int) -> AfterValidator:
    def check(text: str) -> str:
        checked_text(text)
        if len(text) > characters:
            raise ValueError(f"expected at most {characters} characters, found {len(text)}")
        return text

    return check_with(check)


def _text(characters: int) -> JsonSchemaValue:
    return TEXT | {"maxLength": characters}


ShownName = Annotated[
    str, expect("a string"), _at_most(MAX_NAME_CHARACTERS), WithJsonSchema(_text(MAX_NAME_CHARACTERS))
]
Description = Annotated[
    str,
    expect("a string"),
    _at_most(MAX_DESCRIPTION_CHARACTERS),
    WithJsonSchema(_text(MAX_DESCRIPTION_CHARACTERS)),
]
ModelTokens = Annotated[int, Field(gt=0, le=_MAX_MODEL_TOKENS), expect("a whole number above 0")]


class CatalogSettings(Settings):
    """What model lists say about a model."""

    display_name: Omittable[ShownName] = setting(
        "Name that model lists show to people",
        f"At most {MAX_NAME_CHARACTERS} characters.",
    )
    description: Omittable[Description] = setting(
        "Description in the model lists of OpenAI and Gemini clients",
        f"At most {MAX_DESCRIPTION_CHARACTERS} characters.",
    )
    context_window: Omittable[ModelTokens] = setting(
        "Number of input tokens that model lists state for the model", "It limits nothing."
    )
    max_output: Omittable[ModelTokens] = setting(
        "Number of output tokens that model lists state for the model", "It limits nothing."
    )

    @property
    def has_metadata(self) -> bool:
        """Whether there is anything to say."""
        said = (self.display_name, self.description, self.context_window, self.max_output)
        return any(one is not None for one in said)


class _Model(Settings):
    id: Name = required("Id of the model at the provider")


class ListedModelSettings(CatalogSettings, _Model):
    """A model that a provider lists."""

    model_config = ConfigDict(json_schema_extra={"required": ["id"]})


class _TextOrMapping:
    """Take a listed model in both of its forms."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(_listed_model, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [NAME, handler(schema)]}


def _listed_model(value: object, mapping: Callable[[object], object]) -> object:
    if isinstance(value, str):
        return ListedModelSettings.model_construct(id=_checked(value))
    if isinstance(value, dict | ListedModelSettings):
        return mapping(value)
    raise wrong_type("a string (in quotes if YAML would read it as a number), or a mapping with an id")


def _checked(text: str) -> str:
    try:
        return checked_name(text)
    except ValueError as error:
        raise wrong_value(str(error)) from None


ListedModel = Annotated[ListedModelSettings, _TextOrMapping()]


def check_listed_models(models: Sequence[ListedModelSettings], path: Path, report: Report) -> None:
    """Note what the mappings in a provider's list lack, and ids that are listed twice."""
    seen: set[str] = set()
    for position, model in enumerate(models):
        place = (*path, position)
        if not model.id:
            if not report.has_problem_below((*place, "id")):
                report.add((*place, "id"), "missing, expected the id of a model")
        elif model.id in seen and model.has_metadata:
            report.add((*place, "id"), f"{quote(model.id)} is listed twice: keep only one")
        seen.add(model.id)
