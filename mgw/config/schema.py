"""The JSON schema of the configuration file, for editors.

Made by ``python -m mgw.config.schema > etc/mgw.schema.json``.
"""

from __future__ import annotations

import json
import sys

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from mgw.config.written import WrittenFile


class _Generator(GenerateJsonSchema):
    """Pydantic's generator without ``default: null``."""

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])


def schema_text() -> str:
    """Return the schema as it stands in the file."""
    schema = WrittenFile.model_json_schema(schema_generator=_Generator)
    schema = {"$schema": _Generator.schema_dialect, **schema, "title": "mgw.yaml"}
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
