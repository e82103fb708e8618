"""The simulator's platform and media routes, judged by the vendors' own SDKs over real sockets."""

import hashlib
import io
from typing import Any

import anthropic
import openai
import pytest
from google import genai
from google.genai import types as genai_types

from tests.support.simulator import SimulatorProcess

MIB = 1024 * 1024
BIG = bytes(range(256)) * (18 * MIB // 256)  # three chunks of Google's SDK

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")


class TestOpenAI:
    """Files, media and what is kept."""

    def test_a_large_file_goes_up_and_comes_down(
        self, simulator: SimulatorProcess, ours: openai.OpenAI
    ) -> None:
        simulator.clear()
        made = ours.files.create(file=("a.bin", BIG), purpose="user_data")
        assert made.bytes == len(BIG)
        assert ours.files.content(made.id).read() == BIG
        [sent, _] = simulator.requests()
        assert sent.body_size > len(BIG)
        assert len(sent.body) == MIB
        assert ours.files.delete(made.id).deleted

    def test_a_content_of_any_size_streams_and_can_be_cut(self, ours: openai.OpenAI) -> None:
        digest, size = hashlib.sha256(), 0
        with ours.files.with_streaming_response.content("sim-size-30000000") as answer:
            for piece in answer.iter_bytes():
                digest.update(piece)
                size += len(piece)
        assert size == 30_000_000
        part = ours.files.content("sim-size-30000000", extra_headers={"Range": "bytes=29999990-"}).read()
        whole = ours.files.content("sim-size-30000000").read()
        assert (part, hashlib.sha256(whole).digest()) == (whole[-10:], digest.digest())

    def test_a_file_goes_up_in_parts(self, ours: openai.OpenAI) -> None:
        upload = ours.uploads.upload_file_chunked(
            file=BIG[: 3 * MIB],
            filename="x.bin",
            bytes=3 * MIB,
            mime_type="text/plain",
            purpose="user_data",
            part_size=MIB,
        )
        assert upload.status == "completed"
        assert upload.file is not None
        assert ours.files.content(upload.file.id).read() == BIG[: 3 * MIB]

    def test_speech_is_made_and_transcribed(self, ours: openai.OpenAI) -> None:
        sound = ours.audio.speech.create(
            model="gpt-4o-mini-tts", voice="alloy", input="hello there", response_format="wav"
        ).read()
        assert sound.startswith(b"RIFF")
        told = ours.audio.transcriptions.create(model="gpt-4o-transcribe", file=("a.wav", sound))
        assert told.text == f"You said {len(sound)} bytes in a.wav."
        stream = ours.audio.transcriptions.create(
            model="gpt-4o-transcribe", file=("a.wav", sound), stream=True
        )
        [*_, last] = stream
        assert last.type == "transcript.text.done"
        assert last.usage is not None

    def test_images_are_made_and_edited(self, ours: openai.OpenAI) -> None:
        made = ours.images.generate(model="gpt-image-1", prompt="a cat", n=2)
        assert made.data is not None
        assert [one.b64_json is not None for one in made.data] == [True, True]
        edited = ours.images.edit(model="gpt-image-1", prompt="a", image=[("a.png", b"1"), ("b.png", b"2")])
        assert edited.usage is not None
        assert edited.usage.input_tokens_details.image_tokens == 200
        events = ours.images.generate(model="gpt-image-1", prompt="a", stream=True, partial_images=1)
        assert [event.type for event in events] == [
            "image_generation.partial_image",
            "image_generation.completed",
        ]

    def test_a_video_is_made_and_downloaded(self, ours: openai.OpenAI) -> None:
        made = ours.videos.create_and_poll(prompt="a cat", model="sora-2")
        assert made.status == "completed"
        assert len(ours.videos.download_content(made.id).read()) == 100_000
        assert ours.videos.delete(made.id).deleted

    def test_what_is_kept_is_found_again(self, ours: openai.OpenAI) -> None:
        made = ours.responses.create(model="m", input="hello there")
        assert ours.responses.retrieve(made.id).output_text == "You said: hello there"
        assert len(list(ours.responses.input_items.list(made.id))) == 1
        said: list[Any] = [{"role": "user", "content": "hi"}]
        chat = ours.chat.completions.create(model="m", messages=said, store=True)
        assert chat.id in [one.id for one in ours.chat.completions.list()]
        assert ours.chat.completions.update(chat.id, metadata={"a": "b"}).metadata == {"a": "b"}
        assert ours.chat.completions.delete(chat.id).deleted

    def test_lists_are_followed_page_by_page(self, ours: openai.OpenAI) -> None:
        made = [ours.vector_stores.create(name=str(index)).id for index in range(5)]
        assert [one.id for one in ours.vector_stores.list(limit=2)] == made

    def test_an_assistants_run_streams(self, ours: openai.OpenAI) -> None:
        thread = ours.beta.threads.create()
        events = ours.beta.threads.runs.create(thread.id, assistant_id="a", stream=True)
        assert [event.event for event in events] == ["thread.run.created"]

    def test_an_unknown_identifier_is_the_sdks_own_error(
        self, simulator: SimulatorProcess, ours: openai.OpenAI
    ) -> None:
        with pytest.raises(openai.NotFoundError):
            ours.files.retrieve("file-nobody")
        simulator.settings(lenient=True)
        assert ours.files.retrieve("file-nobody").id == "file-nobody"
        simulator.settings()


class TestAnthropic:
    """Batches, files and agents."""

    def test_a_batchs_results_are_followed_line_by_line(self, claude: anthropic.Anthropic) -> None:
        asked: list[Any] = [
            {"custom_id": name, "params": {"model": "m", "max_tokens": 9, "messages": messages}}
            for name, messages in (("a", [{"role": "user", "content": "hi"}]), ("b", []))
        ]
        batch = claude.messages.batches.create(requests=asked)
        good, bad = claude.messages.batches.results(batch.id)
        assert good.result.type == "succeeded"
        assert good.result.message.content[0].type == "text"
        assert good.result.message.content[0].text == "You said: hi"
        assert (bad.custom_id, bad.result.type) == ("b", "errored")
        assert batch.id in [one.id for one in claude.messages.batches.list(limit=1)]
        assert claude.messages.batches.delete(batch.id).id == batch.id

    def test_a_file_goes_up_and_comes_down(self, claude: anthropic.Anthropic) -> None:
        made = claude.beta.files.upload(file=("a.txt", b"hello", "text/plain"))
        assert claude.beta.files.download(made.id).read() == b"hello"
        assert claude.beta.files.delete(made.id).type == "file_deleted"

    def test_models_are_followed_page_by_page(self, claude: anthropic.Anthropic) -> None:
        names = [one.id for one in claude.models.list(limit=7, extra_headers={"x-sim-models": "30"})]
        assert len(set(names)) == len(names) == 30

    def test_agents_are_followed_page_by_page(self, claude: anthropic.Anthropic) -> None:
        made = [claude.beta.agents.create(model="m", name=str(index)).id for index in range(3)]
        assert [one.id for one in claude.beta.agents.list(limit=2)] == made


class TestGoogle:
    """Uploads, batches and the newer resources."""

    def test_a_file_goes_up_in_several_chunks(
        self, simulator: SimulatorProcess, google: genai.Client
    ) -> None:
        simulator.clear()
        made = google.files.upload(file=io.BytesIO(BIG), config={"mime_type": "application/pdf"})
        assert (made.size_bytes, made.mime_type) == (len(BIG), "application/pdf")
        start, *chunks = simulator.requests()
        assert start.value("x-goog-api-key") == "a-key"
        assert [chunk.body_size // MIB for chunk in chunks] == [8, 8, 2]
        assert made.name is not None
        assert google.files.get(name=made.name).sha256_hash == made.sha256_hash
        google.files.delete(name=made.name)
        assert list(google.files.list()) == []

    def test_a_document_goes_up_into_a_store(self, google: genai.Client) -> None:
        store = google.file_search_stores.create(config={"display_name": "s"})
        assert store.name is not None
        done = google.file_search_stores.upload_to_file_search_store(
            file_search_store_name=store.name, file=io.BytesIO(BIG), config={"mime_type": "text/plain"}
        )
        assert done.done
        assert done.response is not None
        names = [one.name for one in google.file_search_stores.documents.list(parent=store.name)]
        assert names == [done.response.document_name]
        assert google.operations.get(done).done

    def test_a_batch_ends_with_its_answers(self, google: genai.Client) -> None:
        asked: Any = [{"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}]
        made = google.batches.create(model="m", src=asked)
        assert made.name is not None
        done = google.batches.get(name=made.name)
        assert done.state is genai_types.JobState.JOB_STATE_SUCCEEDED
        assert done.dest is not None
        [one] = done.dest.inlined_responses or []
        assert one.response is not None
        assert one.response.text == "You said: hi"
        assert made.name in [one.name for one in google.batches.list()]

    def test_speech_is_one_part_of_samples(self, google: genai.Client) -> None:
        config: Any = {
            "response_modalities": ["AUDIO"],
            "speech_config": {"voice_config": {"prebuilt_voice_config": {"voice_name": "Kore"}}},
        }
        answer = google.models.generate_content(model="m", contents="hello there", config=config)
        [part] = answer.parts or []
        assert part.inline_data is not None
        assert part.inline_data.mime_type == "audio/L16;codec=pcm;rate=24000"
        assert part.inline_data.data is not None
        assert len(part.inline_data.data) == 2 * 480 * 2

    def test_an_interaction_streams(self, google: genai.Client) -> None:
        stream: Any = google.interactions.create(model="m", input="a", stream=True)
        kinds = [event.event_type for event in stream]
        assert (kinds[0], kinds[-1]) == ("interaction.created", "interaction.completed")

    def test_a_file_of_an_environment_goes_up_and_comes_down(self, google: genai.Client) -> None:
        google.environments.files.upload(environment="e", path="d/x.txt", file=b"data")
        assert google.environments.files.download(environment="e", path="d/x.txt") == b"data"

    def test_caches_are_kept_until_they_are_deleted(self, google: genai.Client) -> None:
        made = google.caches.create(model="models/m", config={"display_name": "c"})
        assert made.name is not None
        assert [one.name for one in google.caches.list()] == [made.name]
        google.caches.delete(name=made.name)
        assert list(google.caches.list()) == []
