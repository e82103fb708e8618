"""Whether a JSON Schema is one that a vendor would take for a tool or for a structured answer.

OpenAI and Anthropic want JSON Schema proper, its types lower-case.  With OpenAI's ``strict`` every object
closes itself with ``additionalProperties: false`` and requires all of its properties; Anthropic's structured
answers ask for the closing.  Google checks its own ``Schema`` by table, and ``…JsonSchema`` here; in
``responseJsonSchema`` it takes types in capitals, too, as its own CLI sends them (google-gemini/gemini-cli,
request 4814).
"""

from collections.abc import Iterator
from typing import Any, Final

from msgspec import Struct

_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_LISTS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS: Final = ("properties", "$defs", "definitions")
_NUMBERS: Final = (
    "minItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)


class Rules(Struct, frozen=True):
    """What is asked of one schema: ``closed`` objects, ``complete`` lists of what is required."""

    root: Any  # the whole schema, for its references
    closed: bool
    complete: bool
    types: frozenset[str] = _TYPES


def schema_fault(
    schema: Any, *, strict: bool = False, closed: bool = False, capitals: bool = False
) -> str | None:  # as a client gave it
    """What is wrong with a schema, or None.

    ``strict`` as OpenAI means it, ``closed`` its first half; ``capitals``: types may be written so.
    """
    types = _TYPES | {name.upper() for name in _TYPES} if capitals else _TYPES
    rules = Rules(schema, closed=strict or closed, complete=strict, types=types)
    found = next(_faults(schema, rules, ""), None)
    return found if found is not None or isinstance(schema, dict) else "schema must be a JSON object"


def _faults(schema: Any, rules: Rules, where: str) -> Iterator[str]:  # parts of a schema
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{where or '/'} is neither an object nor a boolean"
        return
    yield from _own(schema, rules, where)
    if rules.closed and schema.get("type") == "object":
        yield from _openness(schema, rules, where)
    inner: list[tuple[str, Any]] = [("items", schema["items"])] if "items" in schema else []
    for word in _LISTS:
        inner += [(f"{word}/{index}", one) for index, one in enumerate(schema.get(word) or ())]
    for word in _MAPS:
        inner += [(f"{word}/{name}", one) for name, one in (schema.get(word) or {}).items()]
    for name, one in inner:
        yield from _faults(one, rules, f"{where}/{name}")


def _own(schema: dict[str, Any], rules: Rules, where: str) -> Iterator[str]:
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in rules.types:
            yield f"{kind!r} is not valid under {where}/type"
    yield from _containers(schema, where)
    yield from _numbers(schema, where)
    if "$ref" in schema and not _resolves(schema["$ref"], rules.root):
        yield f"{where}/$ref leads nowhere"


def _containers(schema: dict[str, Any], where: str) -> Iterator[str]:
    for word in _MAPS:
        if not isinstance(schema.get(word, {}), dict):
            yield f"{where}/{word} is not an object"
    for word in (*_LISTS, "enum"):
        if word in schema and not (isinstance(schema[word], list) and schema[word]):
            yield f"{where}/{word} is not a list with something in it"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}/required is not a list of names"


def _numbers(schema: dict[str, Any], where: str) -> Iterator[str]:
    for word in _NUMBERS:
        value = schema.get(word, 1)
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{where}/{word} is not a number"
        elif word == "multipleOf" and value <= 0:
            yield f"{where}/multipleOf is not above 0"


def _resolves(reference: Any, root: Any) -> bool:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return False
    for step in reference[1:].strip("/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if step and not (isinstance(root, dict) and name in root):
            return False
        root = root[name] if step else root
    return isinstance(root, dict | bool)


def _openness(schema: dict[str, Any], rules: Rules, where: str) -> Iterator[str]:
    context = f"In context={where or '()'}"
    if schema.get("additionalProperties") is not False:
        yield f"{context}, 'additionalProperties' is required to be supplied and to be false."
    missing = set(schema.get("properties") or ()) - set(schema.get("required") or ())
    if missing and rules.complete:
        yield f"{context}, 'required' must include every key in properties: {sorted(missing)}."
