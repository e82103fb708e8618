"""Resources that nobody looks into: kept, listed, changed and forgotten, each in its vendor's shape."""

import pytest

from mgw_sim.api import StreamResponse
from mgw_sim.platform.store import MAX_OBJECTS
from tests.memory.mgw_sim.client import CLAUDE, GOOGLE, KEYS, Client

PLAIN = ((b"content-type", b"application/json"),)


@pytest.fixture
def ours() -> Client:
    return Client()


@pytest.fixture
def claude() -> Client:
    return Client(CLAUDE)


@pytest.fixture
def google() -> Client:
    return Client(GOOGLE)


def test_an_object_of_openais_lives_and_dies(ours: Client) -> None:
    made = ours.json("POST", "/v1/vector_stores", {"name": "n", "metadata": {"a": "b"}})
    assert (made["id"], made["object"], made["name"]) == ("vs_sim00000001", "vector_store", "n")
    path = f"/v1/vector_stores/{made['id']}"
    assert ours.json("POST", path, {"name": "other", "id": "mine"}) == {**made, "name": "other"}
    assert ours.json("GET", path)["name"] == "other"
    assert [one["id"] for one in ours.json("GET", "/v1/vector_stores")["data"]] == [made["id"]]
    gone = {"id": made["id"], "object": "vector_store.deleted", "deleted": True}
    assert ours.json("DELETE", path) == gone
    assert ours.error("GET", path) == (404, f"No vector_store found with id '{made['id']}'.")


def test_an_object_of_anthropics_lives_and_dies(claude: Client) -> None:
    made = claude.json("POST", "/v1/environments", {"name": "n"})
    assert (made["id"], made["type"], made["created_at"]) == (
        "env_sim00000001",
        "environment",
        "2026-01-02T03:03:05Z",
    )
    path = f"/v1/environments/{made['id']}"
    assert claude.json("POST", f"{path}/archive")["archived_at"] == "2026-01-02T03:03:05Z"
    assert claude.json("GET", "/v1/environments")["data"][0]["archived_at"] is not None
    assert claude.json("DELETE", path) == {"id": made["id"], "type": "environment_deleted"}
    assert claude.error("GET", path) == (404, f"environment not found: {made['id']}")


def test_an_object_of_googles_lives_and_dies_under_every_version(google: Client) -> None:
    made = google.json("POST", "/v1beta/cachedContents", {"model": "models/m", "displayName": "d"})
    assert made["name"] == "cachedContents/sim00000001"
    assert google.json("PATCH", f"/v1/{made['name']}", {"ttl": "5s", "name": "x"}) == {**made, "ttl": "5s"}
    assert [one["name"] for one in google.json("GET", "/v1alpha/cachedContents")["cachedContents"]] == [
        made["name"]
    ]
    assert google.json("DELETE", f"/v1beta/{made['name']}") == {}
    assert google.error("GET", f"/v1beta/{made['name']}")[0] == 404


def test_objects_stand_below_those_that_they_were_made_in(ours: Client) -> None:
    beta = "assistants=v2"
    for name in ("a", "b"):
        ours.json("POST", f"/v1/threads/{name}/messages", {"content": name}, openai_beta=beta)
    [found] = ours.json("GET", "/v1/threads/b/messages", openai_beta=beta)["data"]
    assert (found["object"], found["content"]) == ("thread.message", "b")


@pytest.mark.parametrize(
    ("headers", "kind"),
    [
        (KEYS, "skill"),
        (CLAUDE, "skill"),
    ],
    ids=["openai", "anthropic"],
)
def test_the_same_path_is_that_vendors_whose_headers_come(
    headers: tuple[tuple[bytes, bytes], ...], kind: str
) -> None:
    made = Client(headers).json("POST", "/v1/skills", {})
    assert made["type" if headers is CLAUDE else "object"] == kind
    assert ("type" in made) == (headers is CLAUDE)


def test_objects_of_one_vendor_are_not_anothers() -> None:
    client = Client()
    made = client.json("POST", "/v1/agents", {})
    assert client.json("GET", "/v1/agents", anthropic_version="2023-06-01")["data"] == []
    assert client.error("GET", f"/v1/agents/{made['id']}", anthropic_version="2023-06-01")[0] == 404
    assert client.json("GET", "/v1/agents", x_goog_api_key="k") == {"agents": []}


@pytest.mark.parametrize("sign", [{"x_goog_api_client": "c"}, {"x_goog_api_key": "k"}])
def test_googles_signs_decide_on_a_path_that_several_have(sign: dict[str, str]) -> None:
    assert Client().json("GET", "/v1/files", **sign) == {"files": []}


def test_a_key_in_the_query_is_googles_sign() -> None:
    assert Client(PLAIN).json("GET", "/v1/files?key=k") == {"files": []}


def test_a_path_of_one_vendor_alone_stays_its_own_whatever_the_headers() -> None:
    assert Client().json("GET", "/v1/vector_stores", anthropic_version="2023-06-01")["object"] == "list"


def test_a_shared_path_that_the_asked_vendor_does_not_have_is_its_404() -> None:
    answer = Client().ask("GET", "/v1/batches", anthropic_version="2023-06-01")
    assert answer.status == 404
    assert b'"type":"not_found_error"' in getattr(answer, "body", b"")


@pytest.mark.parametrize(
    ("method", "target", "headers", "shown"),
    [
        ("PUT", "/v1/files", {}, b'"code":"method_not_allowed"'),
        ("GET", "/v1/nothing", {}, b'"type":"invalid_request_error"'),
        ("GET", "/v1beta/nothing", {}, b'"status": "NOT_FOUND"'),
        ("PATCH", "/v1/skills", {"anthropic_version": "2023-06-01"}, b'"type":"error"'),
    ],
)
def test_what_a_vendor_does_not_have_is_refused_in_its_shape(
    method: str, target: str, headers: dict[str, str], shown: bytes
) -> None:
    answer = Client().ask(method, target, **headers)
    assert answer.status in {404, 405}
    assert shown in getattr(answer, "body", b"")


def test_anthropics_paths_want_a_version() -> None:
    headers = ((b"x-api-key", b"k"),)
    wanted = (400, "anthropic-version: header is required")
    assert Client(headers).error("GET", "/v1/messages/batches") == wanted


def test_a_beta_wants_its_header(ours: Client) -> None:
    status, message = ours.error("GET", "/v1/assistants")
    assert status == 400
    assert "OpenAI-Beta: assistants=v2" in message


@pytest.mark.parametrize("name", ["mgw", "provider"])
@pytest.mark.parametrize(
    ("target", "headers"),
    [("/v1/files", KEYS), ("/v1/messages/batches", CLAUDE), ("/v1beta/files", GOOGLE)],
    ids=["openai", "anthropic", "gemini"],
)
def test_a_gateways_own_parameter_is_refused(
    target: str, headers: tuple[tuple[bytes, bytes], ...], name: str
) -> None:
    assert Client(headers).error("GET", f"{target}?{name}=x")[0] == 400


def test_an_unknown_identifier_is_made_up_where_that_is_asked_for(ours: Client) -> None:
    assert ours.error("GET", "/v1/files/file-1")[0] == 404
    assert ours.json("GET", "/v1/files/file-1", x_sim_lenient="on")["id"] == "file-1"
    assert ours.json("GET", "/v1/files/sim-lenient")["id"] == "sim-lenient"
    ours.recorder.lenient = True
    assert ours.json("DELETE", "/v1/files/file-1")["deleted"]
    assert ours.json("POST", "/v1/batches/batch_1/cancel")["status"] == "cancelled"


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("GET", "/v1/files/missing-1"),
        ("DELETE", "/v1/files/missing"),
        ("POST", "/v1/batches/missing/cancel"),
        ("GET", "/v1/fine_tuning/jobs/missing/events"),
        ("POST", "/v1/vector_stores/missing/files"),
    ],
)
def test_what_is_missing_is_so_whatever_is_asked_for(ours: Client, method: str, target: str) -> None:
    ours.recorder.lenient = True
    assert ours.error(method, target, {"file_id": "f"} if method == "POST" else None)[0] == 404


def test_a_fault_may_stand_in_a_header_or_in_an_identifier(ours: Client) -> None:
    assert ours.error("GET", "/v1/files", x_sim_status="503")[0] == 503
    assert ours.error("GET", "/v1/files/sim-status-429")[0] == 429
    assert ours.error("GET", "/v1/files/sim-nonsense")[0] == 400


def test_the_oldest_objects_go(ours: Client) -> None:
    first = ours.json("POST", "/v1/vector_stores", {})["id"]
    for _ in range(MAX_OBJECTS):
        ours.json("POST", "/v1/vector_stores", {})
    assert ours.error("GET", f"/v1/vector_stores/{first}")[0] == 404
    assert len(ours.dispatcher.store.objects) == MAX_OBJECTS


def test_an_object_is_an_event_where_events_are_asked_for(ours: Client) -> None:
    body = {"assistant_id": "a", "stream": True}
    answer = ours.ask("POST", "/v1/threads/t/runs", body, openai_beta="assistants=v2")
    assert isinstance(answer, StreamResponse)
    assert answer.pieces[0].startswith(b"event: thread.run.created\ndata: ")
    assert answer.pieces[1] == b"data: [DONE]\n\n"


def test_a_session_of_anthropics_tells_its_events(claude: Client) -> None:
    answer = claude.ask("GET", "/v1/sessions/s/events/stream")
    assert isinstance(answer, StreamResponse)
    assert b"session.status_idle" in answer.pieces[0]


def test_a_bucket_of_anthropics_is_activated(claude: Client) -> None:
    made = claude.json("POST", "/v1/organizations/external_storage", {"display_name": "d"})
    assert (made["id"][:6], made["type"]) == ("estrg_", "external_storage")
    path = f"/v1/organizations/external_storage/{made['id']}"
    assert claude.json("POST", f"{path}/activate")["status"] == {"type": "active"}
    assert claude.json("DELETE", path) == {"id": made["id"], "type": "external_storage_deleted"}


def test_a_review_case_of_anthropics_is_closed_by_a_response(claude: Client) -> None:
    path = "/v1/compliance/review/cases/rvc_1"
    assert claude.json("GET", "/v1/compliance/review/cases")["data"] == []
    assert claude.json("GET", path, x_sim_lenient="1")["status"] == {"type": "open"}
    response = {"determination": "no_violation"}
    answered = claude.json("POST", f"{path}/respond", response, x_sim_lenient="1")
    assert (answered["type"], answered["status"]) == ("compliance_review_case", {"type": "closed"})


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (
            "/v1/organizations/providers/google/projects/7/data_controls",
            "google_managed_project_data_controls",
        ),
        ("/v1/user_profiles/uprof_1/providers/google/data_controls", "google_managed_data_controls"),
    ],
)
def test_data_controls_of_anthropics_are_one_object(claude: Client, path: str, kind: str) -> None:
    assert claude.json("GET", path)["type"] == kind
    assert claude.json("POST", path, {"cmek": {"us": "key"}})["cmek"] == {"us": "key"}
    assert claude.json("GET", path)["cmek"] == {"us": "key"}


def test_what_there_is_one_of_can_be_changed(ours: Client) -> None:
    path = "/v1/organization/projects/p/spend_limit"
    assert ours.json("POST", path, {"amount": 5})["amount"] == 5
    assert ours.json("GET", path)["amount"] == 5
    assert ours.json("DELETE", path)["deleted"]
    assert "amount" not in ours.json("GET", path)


@pytest.mark.parametrize(
    ("target", "body", "shown"),
    [
        (
            "/v1/rerank",
            {"model": "m", "query": "q", "documents": ["a", {"text": "q"}], "top_n": 1},
            "results",
        ),
        ("/v1/ocr", {"model": "m", "document": {"type": "document_url"}}, "pages"),
        ("/v1/tokenizers/estimate-token-count", {"model": "m", "messages": [{"content": "a b"}]}, "data"),
        ("/v1/realtime/client_secrets", {"session": {"model": "m"}}, "value"),
    ],
)
def test_what_hosts_have_beyond_openai_is_answered(
    ours: Client, target: str, body: dict[str, object], shown: str
) -> None:
    assert shown in ours.json("POST", target, body)
    if target == "/v1/rerank":
        assert [one["index"] for one in ours.json("POST", target, body)["results"]] == [1]
        assert ours.error("POST", target, {})[0] == 400


@pytest.mark.parametrize("target", ["/v1/users/me/balance", "/v1/credits", "/v1/key", "/v1/generation?id=g"])
def test_accounts_are_told(ours: Client, target: str) -> None:
    assert "data" in ours.json("GET", target)


def test_a_deferred_answer_comes_with_the_second_asking(ours: Client) -> None:
    assert ours.ask("GET", "/v1/chat/deferred-completion/r1").status == 202
    assert ours.json("GET", "/v1/chat/deferred-completion/r1")["object"] == "chat.completion"
    assert ours.error("GET", "/v1/chat/deferred-completion/missing")[0] == 404


def test_a_chat_that_is_to_be_kept_is_kept(ours: Client) -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "store": True, "stream": True}
    ours.ask("POST", "/v1/chat/completions", body)
    [kept] = ours.json("GET", "/v1/chat/completions")["data"]
    assert kept["choices"][0]["message"]["content"] == "You said: hi"
    [message] = ours.json("GET", f"/v1/chat/completions/{kept['id']}/messages")["data"]
    assert message["content"] == "hi"
    ours.json("POST", "/v1/chat/completions", {**body, "store": False, "stream": False})
    assert len(ours.json("GET", "/v1/chat/completions")["data"]) == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_is_kept_unless_it_says_no(ours: Client, *, stream: bool) -> None:
    body = {"model": "m", "input": "hi", "stream": stream}
    ours.ask("POST", "/v1/responses", {**body, "store": False})
    ours.ask("POST", "/v1/responses", body)
    assert ours.error("GET", "/v1/responses/resp_sim00000001")[0] == 404
    assert ours.json("GET", "/v1/responses/resp_sim00000002")["status"] == "completed"
    [item] = ours.json("GET", "/v1/responses/resp_sim00000002/input_items")["data"]
    assert item["content"] == "hi"
    assert ours.error("POST", "/v1/responses/resp_sim00000002/cancel")[0] == 400


def test_responses_are_counted_and_compacted(ours: Client) -> None:
    body = {"model": "m", "input": "one two three"}
    assert ours.json("POST", "/v1/responses/input_tokens", body)["input_tokens"] == 3
    compact = ours.json("POST", "/v1/responses/compact", body)
    assert [item["type"] for item in compact["output"]] == ["message", "compaction"]
    assert compact["usage"]["total_tokens"] == 4
    assert ours.error("POST", "/v1/responses/compact", {"input": "a"})[0] == 400
