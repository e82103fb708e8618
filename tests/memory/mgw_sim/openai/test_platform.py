"""Videos and batches."""

import pytest

from tests.memory.mgw_sim.client import Client


@pytest.fixture
def ours() -> Client:
    return Client()


def test_a_video_is_queued_done_remixed_and_deleted(ours: Client) -> None:
    made = ours.post_form("/v1/videos", ("prompt", None, b"a cat"), ("seconds", None, b"8"))
    assert (made["status"], made["model"], made["seconds"]) == ("queued", "sora-2", "8")
    path = f"/v1/videos/{made['id']}"
    assert ours.json("GET", path)["progress"] == 100
    assert ours.json("POST", f"{path}/remix", {"prompt": "a dog"})["remixed_from_video_id"] == made["id"]
    assert len(ours.json("GET", "/v1/videos")["data"]) == 2
    answer = ours.ask("GET", f"{path}/content?variant=thumbnail")
    assert getattr(answer, "content_type", None) == "image/webp"
    assert ours.json("DELETE", path)["object"] == "video.deleted"
    assert ours.error("GET", f"{path}/content")[0] == 404


def test_a_batch_of_openais_is_made_asked_for_and_cancelled() -> None:
    ours = Client()
    made = ours.json("POST", "/v1/batches", {"input_file_id": "f", "endpoint": "/v1/responses"})
    assert (made["object"], made["status"]) == ("batch", "validating")
    assert ours.json("GET", f"/v1/batches/{made['id']}") == made
    assert ours.json("POST", f"/v1/batches/{made['id']}/cancel")["status"] == "cancelled"
