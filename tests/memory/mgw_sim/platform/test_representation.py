"""Lists in pages: whoever follows them sees everything once."""

from collections.abc import Iterator

import pytest

from tests.memory.mgw_sim.client import CLAUDE, GOOGLE, Client


def _ours(client: Client, path: str) -> Iterator[list[str]]:
    after = ""
    while True:
        told = client.json("GET", f"{path}?limit=2{after}")
        yield [one["id"] for one in told["data"]]
        if not told["has_more"]:
            return
        after = f"&after={told['last_id']}"


def _claudes(client: Client, path: str) -> Iterator[list[str]]:
    token = ""
    while True:
        told = client.json("GET", f"{path}?limit=2{token}")
        yield [one["id"] for one in told["data"]]
        if not told.get("next_page"):
            return
        token = f"&page={told['next_page']}"


def _googles(client: Client, path: str) -> Iterator[list[str]]:
    token = ""
    while True:
        told = client.json("GET", f"{path}?pageSize=2{token}")
        yield [one["name"] for one in told[path.rpartition("/")[2]]]
        if "nextPageToken" not in told:
            return
        token = f"&pageToken={told['nextPageToken']}"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_openais_pages_hold_everything_once(count: int) -> None:
    client = Client()
    made = [client.json("POST", "/v1/vector_stores", {})["id"] for _ in range(count)]
    pages = list(_ours(client, "/v1/vector_stores"))
    assert [name for page in pages for name in page] == made
    assert len(pages) == max(1, -(-count // 2))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_anthropics_pages_hold_everything_once(count: int) -> None:
    client = Client(CLAUDE)
    made = [client.json("POST", "/v1/agents", {})["id"] for _ in range(count)]
    assert [name for page in _claudes(client, "/v1/agents") for name in page] == made


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5])
def test_googles_pages_hold_everything_once(count: int) -> None:
    client = Client(GOOGLE)
    made = [client.json("POST", "/v1/cachedContents", {})["name"] for _ in range(count)]
    assert [name for page in _googles(client, "/v1/cachedContents") for name in page] == made


def test_models_fill_several_pages_where_that_is_asked_for() -> None:
    claude, google = Client(CLAUDE), Client(GOOGLE)
    first = claude.json("GET", "/v1/models", x_sim_models="30")
    assert (len(first["data"]), first["has_more"]) == (20, True)
    last = claude.json("GET", f"/v1/models?after_id={first['last_id']}", x_sim_models="30")
    assert (len(last["data"]), last["has_more"]) == (10, False)
    first = google.json("GET", "/v1beta/models", x_sim_models="60")
    assert len(first["models"]) == 50
    target = f"/v1beta/models?pageToken={first['nextPageToken']}"
    assert len(google.json("GET", target, x_sim_models="60")["models"]) == 10
    assert len(Client().json("GET", "/v1/models", x_sim_models="60")["data"]) == 60


def test_three_models_are_listed_otherwise() -> None:
    assert len(Client().json("GET", "/v1/models")["data"]) == 3
    assert Client(CLAUDE).json("GET", "/v1/models?limit=3")["has_more"] is False
    assert Client(CLAUDE).json("GET", "/v1/models?limit=2")["has_more"] is True


@pytest.mark.parametrize("query", ["limit=0", "limit=many", "after=nobody"])
def test_a_page_that_cannot_be_is_refused(query: str) -> None:
    assert Client().error("GET", f"/v1/vector_stores?{query}")[0] == 400


def test_a_model_is_deleted() -> None:
    gone = {"id": "ft:m", "object": "model", "deleted": True}
    assert Client().json("DELETE", "/v1/models/ft:m") == gone
