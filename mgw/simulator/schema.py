"""A value that conforms to a JSON Schema: always the same one for the same schema.

Covers what function tools and structured outputs use: types (also Gemini's upper-case ones), ``enum``,
``const``, ``properties``, ``items``, ``anyOf`` and its kin, local ``$ref``, bounds of lengths and numbers,
common formats.  Every property is filled, the optional ones too, but for those that would recurse for ever.
"""

from collections.abc import Callable
from typing import Any, Final

Json = dict[str, Any]  # a schema, as the client wrote it

_DEEPEST: Final = 6
_ENDLESS: Final = 40  # a schema that requires itself has no example
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


def example(schema: Any) -> Any:  # a schema is an object or a boolean, its example is any JSON value
    """The example of a schema."""
    return _example(schema, schema if isinstance(schema, dict) else {}, 0, "value")


def _example(schema: Any, root: Json, depth: int, name: str) -> Any:  # any JSON value
    if not isinstance(schema, dict):
        return name
    if depth > _ENDLESS:
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
        schema = _merged([_follow(part, root) for part in schema["allOf"]], schema)
    return _MAKERS.get(_type_of(schema), _text)(schema, root, depth, name)


def _resolve(reference: str, root: Json) -> Any:  # a schema
    found: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            found = found.get(step.replace("~1", "/").replace("~0", "~"), {})
    return found


def _follow(schema: Json, root: Json) -> Json:
    return _resolve(schema["$ref"], root) if "$ref" in schema else schema


def _shallowest(choices: list[Any], depth: int) -> Any:  # a schema
    """The first choice; deep down, one that ends the descent if there is one."""
    if depth > _DEEPEST:
        for choice in choices:
            if (
                isinstance(choice, dict)
                and _type_of(choice) not in {"object", "array"}
                and "$ref" not in choice
            ):
                return choice
    return choices[0]


def _merged(parts: list[Json], schema: Json) -> Json:
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
    wanted = {
        key: value
        for key, value in schema.get("properties", {}).items()
        if depth <= _DEEPEST or key in required
    }
    return {key: _example(value, root, depth + 1, key) for key, value in wanted.items()}


def _array(schema: Json, root: Json, depth: int, name: str) -> list[Any]:
    least = int(schema.get("minItems", 0))
    count = max(least, 0 if depth > _DEEPEST else 1)
    fixed = schema.get("prefixItems", [])
    made = [_example(item, root, depth + 1, name) for item in fixed]
    return made + [_example(schema.get("items", {}), root, depth + 1, name) for _ in range(count - len(made))]


def _integer(schema: Json, root: Json, depth: int, name: str) -> int:  # noqa: ARG001  one signature for all makers
    return int(_bounded(schema, 1))


def _number(schema: Json, root: Json, depth: int, name: str) -> float:  # noqa: ARG001  one signature for all makers
    return _bounded(schema, 0.5)


def _bounded(schema: Json, step: float) -> float:
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
    made = str(_FORMATS.get(str(schema.get("format")), f"some {name}"))
    least, most = schema.get("minLength", schema.get("min_length")), schema.get("maxLength")
    if least is not None:
        made = made.ljust(int(least), "x")
    return made if most is None else made[: int(most)]


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
