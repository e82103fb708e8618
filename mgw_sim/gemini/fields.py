"""The fields of Google's generateContent, as tables (types: ``google.genai.types`` 3.x).

Google reads JSON as protobuf does: a field may be written ``camelCase`` or ``snake_case``, null counts as
absent, and a name that is not in the message is an error.  ``canonical`` turns every name into its
``camelCase``.
"""

import re
from typing import Any, Final

from mgw_sim.api import Json
from mgw_sim.gemini.errors import error_for
from mgw_sim.validation import (
    ANYTHING,
    Field,
    Shape,
    array,
    boolean,
    either,
    find_problems,
    integer,
    mapping,
    number,
    string,
)

TYPES: Final = ("TYPE_UNSPECIFIED", "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL")
MODES: Final = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")
LEVELS: Final = ("THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")
_INT64: Final = either(integer(), string())
_SCHEMA_FIELDS: Final[dict[str, Field]] = {
    "type": string(*TYPES, *(kind.lower() for kind in TYPES)),
    "format": string(),
    "title": string(),
    "description": string(),
    "nullable": boolean(),
    "enum": array(string()),
    "maxItems": _INT64,
    "minItems": _INT64,
    "required": array(string()),
    "minProperties": _INT64,
    "maxProperties": _INT64,
    "minLength": _INT64,
    "maxLength": _INT64,
    "pattern": string(),
    "example": ANYTHING,
    "propertyOrdering": array(string()),
    "default": ANYTHING,
    "minimum": number(),
    "maximum": number(),
}
SCHEMA: Final = Shape(_SCHEMA_FIELDS)
_SCHEMA_FIELDS["items"] = mapping(SCHEMA)
_SCHEMA_FIELDS["anyOf"] = array(mapping(SCHEMA))
_SCHEMA_FIELDS["properties"] = Field(("object",))  # names are the client's: see schema_problems
_FUNCTION_CALL: Final = Shape(
    {"id": string(), "name": string(), "args": mapping(), "partialArgs": array(), "willContinue": boolean()},
    required=("name",),
)
_FUNCTION_RESPONSE: Final = Shape(
    {
        "id": string(),
        "name": string(),
        "response": mapping(),
        "parts": array(mapping()),
        "willContinue": boolean(),
        "scheduling": string(),
    },
    required=("name", "response"),
)
_BLOB: Final = Shape(
    {"mimeType": string(), "data": string(), "displayName": string()}, required=("mimeType", "data")
)
PART_DATA: Final = {
    "text": string(),
    "inlineData": mapping(_BLOB),
    "fileData": mapping(
        Shape({"mimeType": string(), "fileUri": string(), "displayName": string()}, required=("fileUri",))
    ),
    "functionCall": mapping(_FUNCTION_CALL),
    "functionResponse": mapping(_FUNCTION_RESPONSE),
    "executableCode": mapping(),
    "codeExecutionResult": mapping(),
    "toolCall": mapping(),
    "toolResponse": mapping(),
}
"""What a part holds; exactly one of them."""
_PART: Final = Shape(
    {
        **PART_DATA,
        "thought": boolean(),
        "thoughtSignature": string(),
        "videoMetadata": mapping(),
        "partMetadata": mapping(),
        "mediaResolution": ANYTHING,
        **dict.fromkeys(("mediaProcessing", "speechMetadata", "documentMetadata"), ANYTHING),
        **dict.fromkeys(("spreadsheetMetadata", "audioMetadata"), ANYTHING),
    }
)
CONTENT: Final = Shape({"role": string(), "parts": array(mapping(_PART))})
_DECLARATION: Final = Shape(
    {
        "name": string(),
        "description": string(),
        "behavior": string(),
        "parameters": mapping(SCHEMA),
        "parametersJsonSchema": ANYTHING,
        "response": mapping(SCHEMA),
        "responseJsonSchema": ANYTHING,
    },
    required=("name",),
)
_TOOL: Final = Shape(
    {
        "functionDeclarations": array(mapping(_DECLARATION)),
        "googleSearch": mapping(),
        "googleSearchRetrieval": mapping(),
        "googleMaps": mapping(),
        "codeExecution": mapping(),
        "urlContext": mapping(),
        "computerUse": mapping(),
        "fileSearch": mapping(),
        "mcpServers": array(mapping()),
    }
)
_TOOL_CONFIG: Final = Shape(
    {
        "functionCallingConfig": mapping(
            Shape(
                {
                    "mode": string(*MODES, *(mode.lower() for mode in MODES)),
                    "allowedFunctionNames": array(string()),
                    "streamFunctionCallArguments": boolean(),
                }
            )
        ),
        "retrievalConfig": mapping(),
        "includeServerSideToolInvocations": boolean(),
    }
)
_VOICE_CONFIG: Final = mapping(
    Shape({"prebuiltVoiceConfig": mapping(Shape({"voiceName": string()}, is_open=True))}, is_open=True)
)
_SPEAKER: Final = mapping(Shape({"speaker": string(), "voiceConfig": _VOICE_CONFIG}))
_SPEECH_CONFIG: Final = Shape(
    {
        "voiceConfig": _VOICE_CONFIG,
        "multiSpeakerVoiceConfig": mapping(Shape({"speakerVoiceConfigs": array(_SPEAKER)})),
        "languageCode": string(),
    },
    is_open=True,
)
_CONFIG: Final = Shape(
    {
        "stopSequences": array(string()),
        "responseMimeType": string("", "text/plain", "application/json", "text/x.enum"),
        "responseSchema": mapping(SCHEMA),
        "responseJsonSchema": ANYTHING,
        "responseFormat": ANYTHING,
        "responseModalities": array(string()),
        "candidateCount": integer(1, 8),
        "maxOutputTokens": integer(1),
        "temperature": number(0, 2),
        "topP": number(0, 1),
        "topK": number(0),
        "seed": integer(),
        "presencePenalty": number(-2, 2),
        "frequencyPenalty": number(-2, 2),
        "responseLogprobs": boolean(),
        "logprobs": integer(0, 20),
        "enableEnhancedCivicAnswers": boolean(),
        "speechConfig": mapping(_SPEECH_CONFIG),
        "imageConfig": mapping(),
        "mediaResolution": string(),
        "thinkingConfig": mapping(
            Shape(
                {
                    "includeThoughts": boolean(),
                    "thinkingBudget": integer(-1),
                    "thinkingLevel": string(*LEVELS, *(level.lower() for level in LEVELS)),
                }
            )
        ),
        "audioTimestamp": boolean(),
        "enableAffectiveDialog": boolean(),
    }
)
_SYSTEM: Final = either(string(), mapping(CONTENT))
GENERATE: Final = Shape(
    {
        "model": string(),
        "contents": array(mapping(CONTENT)),
        "systemInstruction": mapping(CONTENT),
        "tools": array(mapping(_TOOL)),
        "toolConfig": mapping(_TOOL_CONFIG),
        "safetySettings": array(
            mapping(Shape({"category": string(), "threshold": string(), "method": string()}))
        ),
        "generationConfig": mapping(_CONFIG),
        "cachedContent": string(),
        "serviceTier": string(),
        "store": boolean(),
        "labels": mapping(),
    },
    required=("contents",),
)
COUNT: Final = Shape(
    {"contents": array(mapping(CONTENT)), "generateContentRequest": mapping(GENERATE), "model": string()}
)
VERTEX_COUNT: Final = Shape(
    {name: GENERATE.fields[name] for name in ("contents", "systemInstruction", "tools", "generationConfig")}
)
"""Vertex AI's own: all of it stands at the top."""
EMBED: Final = Shape(
    {
        "model": string(),
        "content": mapping(CONTENT),
        "taskType": string(),
        "title": string(),
        "outputDimensionality": integer(1, 3072),
        "embedContentConfig": mapping(),
    },
    required=("content",),
)
BATCH_EMBED: Final = Shape({"requests": array(mapping(EMBED))}, required=("requests",))
VERTEX_EMBED: Final = Shape(
    {
        "content": mapping(CONTENT),
        "embedContentConfig": mapping(
            Shape(
                {
                    "taskType": string(),
                    "title": string(),
                    "outputDimensionality": integer(1, 3072),
                    "autoTruncate": boolean(),
                }
            )
        ),
    },
    required=("content",),
)
"""Vertex AI's own: the model stands in the path alone, and how to embed in a part of its own."""
VERTEX_BATCH_EMBED: Final = Shape({"requests": array(mapping(VERTEX_EMBED))}, required=("requests",))
PREDICT: Final = Shape(
    {
        "instances": array(
            mapping(
                Shape({"content": string(), "task_type": string(), "title": string()}, required=("content",))
            )
        ),
        "parameters": mapping(Shape({"outputDimensionality": integer(1, 3072), "autoTruncate": boolean()})),
    },
    required=("instances",),
)
"""The older embedding models on Vertex AI."""
_LIVE_SETUP: Final = Shape(
    {
        **{name: GENERATE.fields[name] for name in ("model", "generationConfig", "tools", "labels")},
        **{name: GENERATE.fields[name] for name in ("systemInstruction", "safetySettings")},
        "inputAudioTranscription": mapping(),
        "outputAudioTranscription": mapping(),
        "realtimeInputConfig": mapping(
            Shape({"automaticActivityDetection": mapping(Shape({}, is_open=True))}, is_open=True)
        ),
        "sessionResumption": mapping(Shape({"handle": string(), "transparent": boolean()})),
        **dict.fromkeys(("contextWindowCompression", "proactivity", "historyConfig"), mapping()),
        **dict.fromkeys(("explicitVadSignal", "avatarConfig"), ANYTHING),
    }
)
_LIVE_INPUT: Final = Shape(
    {
        "mediaChunks": array(mapping(_BLOB)),
        "audio": mapping(_BLOB),
        "video": mapping(_BLOB),
        "text": string(),
        "audioStreamEnd": boolean(),
        "activityStart": mapping(),
        "activityEnd": mapping(),
    }
)
LIVE: Final = Shape(
    {
        "setup": mapping(_LIVE_SETUP),
        "clientContent": mapping(Shape({"turns": array(mapping(CONTENT)), "turnComplete": boolean()})),
        "realtimeInput": mapping(_LIVE_INPUT),
        "toolResponse": mapping(Shape({"functionResponses": array(mapping(_FUNCTION_RESPONSE))})),
    }
)
"""A message of the client's in a Live session: it has exactly one of these."""


def camel_case(name: str) -> str:
    """``snake_case`` as protobuf's JSON writes it."""
    return re.sub(r"_([a-z0-9])", lambda match: match[1].upper(), name)


def canonical(value: Any, field: Field) -> Any:  # any JSON value
    """The value with every field's name in ``camelCase``; what is free-form stays as it is."""
    if isinstance(value, list) and field.items:
        return [canonical(item, field.items) for item in value]
    if not isinstance(value, dict) or field.shape is None:
        return value
    fields: Json = {}
    for name, item in value.items():
        known = name if name in field.shape.fields else camel_case(name)
        if known not in field.shape.fields:
            fields[name] = item
        elif field.shape is SCHEMA and known == "properties" and isinstance(item, dict):
            fields[known] = {key: canonical(schema, mapping(SCHEMA)) for key, schema in item.items()}
        elif item is not None:
            fields[known] = canonical(item, field.shape.fields[known])
    return fields


def validate(body: Json, shape: Shape, *, lenient: bool) -> Json:
    """The body in ``camelCase``.  Raises the ApiError for its first problem."""
    value: Json = canonical(body, mapping(shape))
    for problem in find_problems(value, mapping(shape)):
        if not (lenient and problem.kind.value == "unknown"):
            raise error_for(problem)
    for index, tool in enumerate(value.get("tools") or ()):
        for place, function in enumerate(tool.get("functionDeclarations") or ()):
            _check_schema(
                function.get("parameters"), ("tools", index, "function_declarations", place, "parameters")
            )
    _check_schema(
        (value.get("generationConfig") or {}).get("responseSchema"), ("generation_config", "response_schema")
    )
    return value


def _check_schema(schema: Any, path: tuple[str | int, ...]) -> None:  # a schema, as the client wrote it
    """Properties are named by the client, so the table cannot walk into them."""
    if not isinstance(schema, dict):
        return
    for problem in find_problems(schema, mapping(SCHEMA), path):
        raise error_for(problem)
    for name, inner in (schema.get("properties") or {}).items():
        _check_schema(inner, (*path, "properties", name))
    _check_schema(schema.get("items"), (*path, "items"))
    for index, inner in enumerate(schema.get("anyOf") or ()):
        _check_schema(inner, (*path, "any_of", index))
