"""What an alias stands for."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from pydantic import ConfigDict, GetJsonSchemaHandler, TypeAdapter
from pydantic.annotated_handlers import GetCoreSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from mgw.config.body_rules import BodyRuleSettings
from mgw.config.checks import TARGET
from mgw.config.field_types import AliasTarget, AliasTargets
from mgw.config.listed_models import CatalogSettings
from mgw.config.settings_base import ListOf, NotEmpty, Settings, UniqueList, required, setting


class _Targets(Settings):
    targets: Annotated[UniqueList[AliasTarget], NotEmpty("<provider>/<model>")] = required(
        "Targets in the order in which they are tried, as ``<provider>/<model>``"
    )
    body: ListOf[BodyRuleSettings] = setting(
        "Rules that change the bodies of requests for this alias, before those of the provider",
        "Each rule has the settings of ``providers.NAME.body``.",
        default=(),
    )


class AliasSettings(CatalogSettings, _Targets):  # the settings of the last base come first
    """An alias with more than its targets."""

    model_config = ConfigDict(json_schema_extra={"required": ["targets"]})


class _OrTargets:
    """Take a mapping, or the targets alone."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_wrap_validator_function(_validate, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [TARGET, {"type": "array", "items": TARGET, "minItems": 1}, handler(schema)]}


def _validate(value: object, inner: core_schema.ValidatorFunctionWrapHandler) -> Any:  # Any: pydantic's own
    if isinstance(value, dict | AliasSettings):
        return inner(value)
    return AliasSettings.model_construct(targets=_targets().validate_python(value))


@cache
def _targets() -> TypeAdapter[tuple[str, ...]]:
    return TypeAdapter(AliasTargets, config=ConfigDict(strict=True, hide_input_in_errors=True))


Alias = Annotated[AliasSettings, _OrTargets()]
