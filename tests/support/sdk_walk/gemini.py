"""What Google's SDK is called with: its converters look at what they get, so each method has its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, Final

from google.auth.credentials import Credentials
from google.genai import types
from pydantic import BaseModel

from tests.support.sdk_walk.arguments import FILE, QUERY
from tests.support.sdk_walk.cases import Case, finish
from tests.support.sdk_walk.differences import CLIENT_SECRET
from tests.support.sdk_walk.methods import Method

_CHUNK: Final = 8 * 1024 * 1024
"""What Google's SDK sends at once (``_api_client.CHUNK_SIZE``)."""

_TOOLS: Final = [{"function_declarations": [{"name": "look", "parameters_json_schema": {"type": "object"}}]}]
_CONTENT_CONFIG: Final[dict[str, Any]] = {
    "system_instruction": "Be brief. é",
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 7,
    "candidate_count": 1,
    "max_output_tokens": 7,
    "stop_sequences": ["stop"],
    "seed": 7,
    "response_mime_type": "application/json",
    "response_json_schema": {"type": "object"},
    "safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    "tools": _TOOLS,
    "cached_content": "cachedContents/cache-1",
    "thinking_config": {"thinking_budget": 7},
    "media_resolution": "MEDIA_RESOLUTION_LOW",
}
_PARTS: Final = [
    {
        "role": "user",
        "parts": [{"text": "Hello"}, {"inline_data": {"data": b"\0\xff", "mime_type": "image/png"}}],
    },
    {"role": "model", "parts": [{"text": "Hi"}]},
]
_PAGE: Final[dict[str, Any]] = {"page_size": 7, "page_token": "page/+1="}
_EXTRA: Final[dict[str, Any]] = {"extra_query": QUERY, "extra_headers": {"X-Client-Request-Id": "request_1"}}
_VIDEO: Final = "models/walk-model-1/operations/operation-1"


class _GoogleAccount(Credentials):
    """The client's own Google account, which registers its files."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # google-auth has no types
        self.token = f"ya29.{CLIENT_SECRET}"

    def refresh(self, request: object) -> None:
        """Nothing to do: the token stays valid."""


def _call(name: str = "required", then: Callable[[Any], object] = finish, /, **given: Any) -> Case:
    return Case(name, lambda model: given, then)


def _modelled(name: str = "required", then: Callable[[Any], object] = finish, /, **given: Any) -> Case:
    """Return a case that names the model."""
    return Case(name, lambda model: {"model": model} | given, then)


def _uploaded(data: bytes, name: str, /, **given: Any) -> Case:
    return Case(name, lambda model: given | {"file": io.BytesIO(data)})


def _paged(**given: Any) -> list[Case]:
    return [_call(**given), _call("everything", **given, config=_PAGE)]


def _text(**config: Any) -> list[Case]:
    return [
        _modelled(contents="Hello"),
        _modelled("everything", contents=_PARTS, config=config or _CONTENT_CONFIG),
    ]


def _generated(*names: str, **given: Any) -> list[Case]:
    """Return the cases of one of Google's generated resources, which add query parameters and headers."""
    return [_call(**given), _call("everything", **given, **_EXTRA)]


def _operation(kind: type[BaseModel], name: str) -> BaseModel:
    return kind.model_validate({"name": name})


def _chat(chat: Any) -> None:
    chat.send_message("Hello")
    next(chat.send_message_stream("And again"), None)


_LISTED: Final[dict[str, Any]] = {"page_size": 7, "page_token": "page/+1="}
_MODELS: Final[Mapping[str, list[Case]]] = {
    "models.generate_content": _text(),
    "models.generate_content_stream": _text(),
    "models.count_tokens": _text(http_options={"headers": {"x-goog-user-project": "project-1"}}),
    "models.embed_content": _text(task_type="RETRIEVAL_QUERY", title="title", output_dimensionality=7),
    "models.generate_images": [_modelled(prompt="a cat")],
    "models.generate_videos": [
        _modelled(prompt="a cat"),
        _modelled("everything", prompt="a cat", config={"aspect_ratio": "16:9", "negative_prompt": "dogs"}),
    ],
    "models.update": [_modelled(config={"display_name": "name", "description": "text"})],
    "models.delete": [_modelled()],
    "models.get": [_modelled()],
    "models.list": _paged(),
    "models.compute_tokens": [_modelled(contents="Hello")],
    "models.edit_image": [_modelled(prompt="a cat", reference_images=[])],
    "models.recontext_image": [_modelled(source={"prompt": "a cat"})],
    "models.segment_image": [_modelled(source={"prompt": "a cat"})],
    "models.upscale_image": [_modelled(image={"image_bytes": b"1"}, upscale_factor="x2")],
    "chats.create": [_modelled("required", _chat), _modelled("everything", _chat, history=_PARTS)],
}
_STORED: Final[Mapping[str, list[Case]]] = {
    "auth_tokens.create": [
        _call(),
        _call("everything", config={"uses": 7, "expire_time": "2026-01-02T03:04:05Z"}),
    ],
    "batches.create": [
        _modelled(src=[{"contents": "Hello"}]),
        _modelled("everything", src="files/file-1", config={"display_name": "name"}),
    ],
    "batches.create_embeddings": [
        _modelled(src={"file_name": "files/file-1"}),
        _modelled(
            "everything", src={"inlined_requests": {"contents": "Hello"}}, config={"display_name": "name"}
        ),
    ],
    "batches.get": [_call(name="batches/batch-1")],
    "batches.cancel": [_call(name="batches/batch-1")],
    "batches.delete": [_call(name="batches/batch-1")],
    "batches.list": _paged(),
    "caches.create": [
        _modelled(),
        _modelled(
            "everything", config={"contents": _PARTS, "ttl": "7s", "display_name": "name", "tools": _TOOLS}
        ),
    ],
    "caches.get": [_call(name="cachedContents/cache-1")],
    "caches.update": [_call(name="cachedContents/cache-1", config={"ttl": "7s"})],
    "caches.delete": [_call(name="cachedContents/cache-1")],
    "caches.list": _paged(),
    "file_search_stores.create": [
        _call(),
        Case("everything", lambda model: {"config": {"display_name": "name", "embedding_model": model}}),
    ],
    "file_search_stores.get": [_call(name="fileSearchStores/store-1")],
    "file_search_stores.delete": [
        _call(name="fileSearchStores/store-1"),
        _call("everything", name="fileSearchStores/store-1", config={"force": True}),
    ],
    "file_search_stores.list": _paged(),
    "file_search_stores.import_file": [
        _call(file_search_store_name="fileSearchStores/store-1", file_name="files/file-1"),
    ],
    "file_search_stores.upload_to_file_search_store": [
        _uploaded(
            FILE[1],
            "required",
            file_search_store_name="fileSearchStores/store-1",
            config={"mime_type": "text/plain", "display_name": "name"},
        )
    ],
    "file_search_stores.download_media": [_call(media_id="fileSearchStores/store-1/media/blob-1")],
    "file_search_stores.documents.get": [_call(name="fileSearchStores/store-1/documents/document-1")],
    "file_search_stores.documents.delete": [
        _call(name="fileSearchStores/store-1/documents/document-1"),
        _call("everything", name="fileSearchStores/store-1/documents/document-1", config={"force": True}),
    ],
    "file_search_stores.documents.list": _paged(parent="fileSearchStores/store-1"),
    "files.get": [_call(name="files/file-1")],
    "files.delete": [_call(name="files/file-1")],
    "files.list": _paged(),
    "files.download": [_call(file="files/file-1")],
    "files.upload": [
        _uploaded(FILE[1], "required", config={"mime_type": "text/plain"}),
        _uploaded(
            b"two chunks".ljust(_CHUNK + 10, b"."),
            "in two chunks",
            config={"mime_type": "text/plain", "name": "files/file-1", "display_name": "é"},
        ),
    ],
    "files.register_files": [
        Case("required", lambda model: {"auth": _GoogleAccount(), "uris": ["gs://bucket/1"]})
    ],
    "operations.get": [
        _call(operation=_operation(types.GenerateVideosOperation, _VIDEO)),
        _call(
            "import", operation=_operation(types.ImportFileOperation, "fileSearchStores/store-1/operations/1")
        ),
        _call(
            "upload",
            operation=_operation(
                types.UploadToFileSearchStoreOperation, "fileSearchStores/store-1/upload/operations/1"
            ),
        ),
    ],
    "tunings.get": [_call(name="tunedModels/tuned-1")],
    "tunings.cancel": [_call(name="tunedModels/tuned-1")],
    "tunings.list": _paged(),
    "tunings.tune": [
        Case(
            "required",
            lambda model: {
                "base_model": f"models/{model}",
                "training_dataset": {"examples": [{"text_input": "a", "output": "b"}]},
                "config": {"tuned_model_display_name": "name", "epoch_count": 7},
            },
        )
    ],
    "tunings.validate_reward": [
        _call(parent="projects/1", sample_response={"parts": [{"text": "a"}]}, example={"contents": []})
    ],
}
_GENERATED: Final[Mapping[str, list[Case]]] = {
    "agents.create": _generated(id="agent-1", base_agent="base", description="text"),
    "agents.delete": _generated(id="agent-1"),
    "agents.get": _generated(id="agent-1"),
    "agents.list": _generated(**_LISTED, parent="parent"),
    "credentials.create": _generated(id="credential-1", type="bearer_token", token="token-1"),
    "credentials.delete": _generated(id="credential-1"),
    "credentials.get": _generated(id="credential-1"),
    "credentials.list": _generated(**_LISTED),
    "credentials.update": _generated(
        id="credential-1", type="bearer_token", token="token-1", update_mask="token"
    ),
    "environments.files.download": [_call(environment="environment-1", path="folder/file.txt")],
    "environments.files.list": _generated(environment="environment-1", path="folder"),
    "environments.files.upload": [
        _call(environment="environment-1", path="folder/file.txt", file=FILE[1], mime_type=FILE[2]),
        _call(
            "everything",
            environment="environment-1",
            path="a.zip",
            file=FILE[1],
            overwrite=True,
            extract=True,
        ),
    ],
    "triggers.create": _generated(
        interaction={"agent": "agent-1", "input": "Hello"}, schedule="0 0 * * *", time_zone="UTC"
    ),
    "triggers.delete": _generated(id="trigger-1"),
    "triggers.get": _generated(id="trigger-1"),
    "triggers.list": _generated(**_LISTED, filter_="status=ACTIVE"),
    "triggers.list_executions": _generated(trigger_id="trigger-1", **_LISTED),
    "triggers.run": _generated(trigger_id="trigger-1"),
    "triggers.update": _generated(id="trigger-1", display_name="name"),
    "voices.create": [
        *_generated(voice={"type": "prompted", "display_name": "name"}),
        Case("with a model", lambda model: {"voice": {"type": "prompted", "model": model}}),
    ],
    "voices.delete": _generated(id="voice-1"),
    "voices.get": _generated(id="voice-1"),
    "voices.list": _generated(**_LISTED, language_code=["en", "de"]),
    "webhooks.create": _generated(subscribed_events=["batch.succeeded"], uri="https://example.com/hook"),
    "webhooks.delete": _generated(id="webhook-1"),
    "webhooks.get": _generated(id="webhook-1"),
    "webhooks.list": _generated(**_LISTED),
    "webhooks.ping": _generated(id="webhook-1"),
    "webhooks.rotate_signing_secret": _generated(id="webhook-1"),
    "webhooks.update": _generated(id="webhook-1", uri="https://example.com/hook", update_mask="uri"),
    "interactions.auth_tokens.create": [
        *_generated(interaction_id="interaction-1"),
        _call("expiring", interaction_id="interaction-1", expire_time="2026-01-02T03:04:05Z"),
    ],
    "interactions.auth_tokens.delete": _generated(
        interaction_id="interaction-1", auth_token="auth_tokens/token-1"
    ),
    "interactions.cancel": _generated(id="interaction-1"),
    "interactions.delete": _generated(id="interaction-1"),
    "interactions.get": [
        *_generated(id="interaction-1"),
        _call("stream", id="interaction-1", stream=True, last_event_id="event-1"),
    ],
    "interactions.create": [
        _modelled(input="Hello"),
        _modelled("everything", input="Hello", store=False, system_instruction="Be brief.", **_EXTRA),
        _modelled("stream", input="Hello", stream=True),
        _call("agent", agent="agent-1", input="Hello", background=True),
    ],
    "decisions.create": [
        _modelled(
            input="Hello",
            questions={
                "sort": {"type": "choice", "instructions": "Which?", "criteria": {"a": "A", "b": "B"}}
            },
        ),
    ],
    "environments.create": _generated(network={}),
    "environments.create_environment": _generated(network={}),
    "environments.delete": _generated(id="environment-1"),
    "environments.delete_environment": _generated(id="environment-1"),
    "environments.get": _generated(id="environment-1"),
    "environments.get_environment": _generated(id="environment-1"),
    "environments.list": _generated(**_LISTED),
    "environments.list_environments": _generated(**_LISTED),
}

GEMINI: Final[Mapping[str, Callable[[Method], list[Case]]]] = {
    name: (lambda method, cases=cases: cases)  # type: ignore[misc]  # the default argument binds the cases now
    for table in (_MODELS, _STORED, _GENERATED)
    for name, cases in table.items()
}
"""Cases by method's name."""
