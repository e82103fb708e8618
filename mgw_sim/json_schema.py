"""JSON Schemas: a value that conforms to one, and whether a vendor would take one at all.

The example is always the same one for the same schema.  It covers what function tools and structured outputs
use: types (also Gemini's upper-case ones), ``enum``, ``const``, ``properties``, ``items``, ``anyOf`` and its
kin, local ``$ref``, bounds of lengths and numbers, common formats.  Every property is filled, the optional
ones too, but for those that would recurse for ever.

OpenAI and Anthropic want JSON Schema proper, its types lower-case.  With OpenAI's ``strict`` every object
closes itself with ``additionalProperties: false`` and requires all of its properties; Anthropic's structured
answers ask for the closing.  Google checks its own ``Schema`` by table, and ``…JsonSchema`` here; in
``responseJsonSchema`` it takes types in capitals, too, as its own CLI sends them (google-gemini/gemini-cli,
request 4814).
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from msgspec import Struct

Json = dict[str, Any]  # a schema, as the client wrote it
_MAX_DEPTH: Final = 6
_FORMATS: Final = {
    "date-time": "2026-01-02T03:04:05Z",
    "date": "2026-01-02",
    "time": "03:04:05Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "hostname": "example.com",
}
_TYPES: Final = frozenset({"object", "array", "string", "number", "integer", "boolean", "null"})
_LIST_KEYWORDS: Final = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAP_KEYWORDS: Final = ("properties", "$defs", "definitions")
_NUMBER_KEYWORDS: Final = (
    "minItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
)
_MAX_RECURSION: Final = 40  # a schema that requires itself has no example


def example(schema: Any) -> Any:  # a schema is an object or a boolean, its example is any JSON value
    """The example of a schema."""
    return _example(schema, schema if isinstance(schema, dict) else {}, 0, "value")


def _example(schema: Any, root: Json, depth: int, name: str) -> Any:  # any JSON value
    if not isinstance(schema, dict):
        return name
    if depth > _MAX_RECURSION:
        return name
    if "$ref" in schema:
        return _example(_resolve(schema["$ref"], root), root, depth + 1, name)
    if "const" in schema:
        return schema["const"]
    if schema.get("enum"):
        return schema["enum"][0]
    for word in ("anyOf", "oneOf", "any_of"):
        if schema.get(word):
            return _example(_shallowest(schema[word], depth), root, depth, name)
    if schema.get("allOf"):
        schema = _merge([_follow(part, root) for part in schema["allOf"]], schema)
    return _MAKERS.get(_type_of(schema), _text)(schema, root, depth, name)


def _resolve(reference: str, root: Json) -> Any:  # a schema
    schema: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            schema = schema.get(step.replace("~1", "/").replace("~0", "~"), {})
    return schema


def _follow(schema: Json, root: Json) -> Json:
    return _resolve(schema["$ref"], root) if "$ref" in schema else schema


def _shallowest(choices: list[Any], depth: int) -> Any:  # a schema
    """The first choice; deep down, one that ends the descent if there is one."""
    if depth > _MAX_DEPTH:
        for choice in choices:
            if (
                isinstance(choice, dict)
                and _type_of(choice) not in {"object", "array"}
                and "$ref" not in choice
            ):
                return choice
    return choices[0]


def _merge(parts: list[Json], schema: Json) -> Json:
    merged: Json = {key: value for key, value in schema.items() if key != "allOf"}
    for part in parts:
        merged = {
            **part,
            **merged,
            "properties": {**part.get("properties", {}), **merged.get("properties", {})},
        }
        merged["required"] = [*part.get("required", []), *merged.get("required", [])]
    return merged


def _type_of(schema: Json) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kind).lower()


def _object(schema: Json, root: Json, depth: int, name: str) -> Json:  # noqa: ARG001  one signature for all makers
    required = schema.get("required", [])
    properties = {
        key: value
        for key, value in schema.get("properties", {}).items()
        if depth <= _MAX_DEPTH or key in required
    }
    return {key: _example(value, root, depth + 1, key) for key, value in properties.items()}


def _array(schema: Json, root: Json, depth: int, name: str) -> list[Any]:
    min_items = int(schema.get("minItems", 0))
    count = max(min_items, 0 if depth > _MAX_DEPTH else 1)
    prefix_items = schema.get("prefixItems", [])
    items = [_example(item, root, depth + 1, name) for item in prefix_items]
    return items + [
        _example(schema.get("items", {}), root, depth + 1, name) for _ in range(count - len(items))
    ]


def _integer(schema: Json, root: Json, depth: int, name: str) -> int:  # noqa: ARG001  one signature for all makers
    return int(_number_within_bounds(schema, 1))


def _number(schema: Json, root: Json, depth: int, name: str) -> float:  # noqa: ARG001  one signature for all makers
    return _number_within_bounds(schema, 0.5)


def _number_within_bounds(schema: Json, step: float) -> float:
    value: float = 1 if step == 1 else 1.5
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if high is not None and value >= high:
        value = high - step if "exclusiveMaximum" in schema else high
    if low is not None and value <= low:
        value = low + step if "exclusiveMinimum" in schema else low
    multiple = schema.get("multipleOf")
    return -(-value // multiple) * multiple if multiple else value


def _text(schema: Json, root: Json, depth: int, name: str) -> str:  # noqa: ARG001  one signature for all makers
    text = str(_FORMATS.get(str(schema.get("format")), f"some {name}"))
    min_length, max_length = schema.get("minLength", schema.get("min_length")), schema.get("maxLength")
    if min_length is not None:
        text = text.ljust(int(min_length), "x")
    return text if max_length is None else text[: int(max_length)]


def _boolean(schema: Json, root: Json, depth: int, name: str) -> bool:  # noqa: ARG001  one signature for all makers
    return True


def _null(schema: Json, root: Json, depth: int, name: str) -> None:  # noqa: ARG001  one signature for all makers
    return None


_MAKERS: Final[dict[str, Callable[[Json, Json, int, str], Any]]] = {
    "object": _object,
    "array": _array,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "string": _text,
}


class _Rules(Struct, frozen=True):
    """What is asked of one schema: ``closed`` objects, ``complete`` lists of what is required."""

    root: Any  # the whole schema, for its references
    closed: bool
    complete: bool
    types: frozenset[str] = _TYPES


def schema_error(
    schema: Any, *, strict: bool = False, closed: bool = False, capitals: bool = False
) -> str | None:  # as a client gave it
    """What is wrong with a schema, or None.

    ``strict`` as OpenAI means it, ``closed`` its first half; ``capitals``: types may be written so.
    """
    types = _TYPES | {name.upper() for name in _TYPES} if capitals else _TYPES
    rules = _Rules(schema, closed=strict or closed, complete=strict, types=types)
    error = next(_schema_errors(schema, rules, ""), None)
    return error if error is not None or isinstance(schema, dict) else "schema must be a JSON object"


def _schema_errors(schema: Any, rules: _Rules, where: str) -> Iterator[str]:  # parts of a schema
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield f"{where or '/'} is neither an object nor a boolean"
        return
    yield from _keyword_errors(schema, rules, where)
    if rules.closed and schema.get("type") == "object":
        yield from _strictness_errors(schema, rules, where)
    inner: list[tuple[str, Any]] = [("items", schema["items"])] if "items" in schema else []
    for word in _LIST_KEYWORDS:
        inner += [(f"{word}/{index}", one) for index, one in enumerate(schema.get(word) or ())]
    for word in _MAP_KEYWORDS:
        inner += [(f"{word}/{name}", one) for name, one in (schema.get(word) or {}).items()]
    for name, one in inner:
        yield from _schema_errors(one, rules, f"{where}/{name}")


def _keyword_errors(schema: dict[str, Any], rules: _Rules, where: str) -> Iterator[str]:
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if not isinstance(kind, str) or kind not in rules.types:
            yield f"{kind!r} is not valid under {where}/type"
    yield from _container_errors(schema, where)
    yield from _number_errors(schema, where)
    if "$ref" in schema and not _resolves(schema["$ref"], rules.root):
        yield f"{where}/$ref does not resolve"


def _container_errors(schema: dict[str, Any], where: str) -> Iterator[str]:
    for word in _MAP_KEYWORDS:
        if not isinstance(schema.get(word, {}), dict):
            yield f"{where}/{word} is not an object"
    for word in (*_LIST_KEYWORDS, "enum"):
        if word in schema and not (isinstance(schema[word], list) and schema[word]):
            yield f"{where}/{word} is not a non-empty list"
    required = schema.get("required", [])
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        yield f"{where}/required is not a list of names"


def _number_errors(schema: dict[str, Any], where: str) -> Iterator[str]:
    for word in _NUMBER_KEYWORDS:
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


def _strictness_errors(schema: dict[str, Any], rules: _Rules, where: str) -> Iterator[str]:
    context = f"In context={where or '()'}"
    if schema.get("additionalProperties") is not False:
        yield f"{context}, 'additionalProperties' is required to be supplied and to be false."
    missing = set(schema.get("properties") or ()) - set(schema.get("required") or ())
    if missing and rules.complete:
        yield f"{context}, 'required' must include every key in properties: {sorted(missing)}."
