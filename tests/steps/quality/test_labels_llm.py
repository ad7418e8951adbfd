import json
from pathlib import Path

import pytest

from marin_exec import ConfigError, IdentityMismatch, Step, StepFailed
from steps.documents import NamedInput, document_id
from steps.quality.chat import ChatModel, parse_answer
from steps.quality.labels import read_labels
from steps.quality.labels_llm import RUBRIC_DIGEST, LabelsLlmConfig, labels_llm, read_rubric
from tests.directory_out import DirectoryOut
from tests.marin_exec.inprocess import World
from tests.steps.embed.model_server import Answer, model_server
from tests.steps.embed.test_embed_documents import write_documents

TEXTS = [f"document {number}: {'good ' * (number % 5)}" for number in range(12)]


def judged(text):
    """What the model of these tests thinks of a text: one point more for every 'good'."""
    value = {"content_type": "prose", "score": 1 + text.count("good"), "reason": "counted"}
    return json.dumps(value)


def said(text):
    return Answer({"choices": [{"message": {"role": "assistant", "content": text}}]})


def reads(path, body, number):
    return said(judged(body["messages"][1]["content"]))


@pytest.fixture
def sources(tmp_path):
    return (NamedInput(name="s", path=write_documents(tmp_path / "s", TEXTS, 5)),)


def config(sources, url, **changes):
    chat = ChatModel(model="reader-1", url=url, backoff_seconds=0.001, max_attempts=3)
    return LabelsLlmConfig(**{"documents": sources, "chat": chat, "count": 12, **changes})


class RememberingOut(DirectoryOut):
    """Keeps shards that are done from one attempt to the next, as the engine does."""

    def __init__(self, path, kept):
        super().__init__(path)
        self.kept = kept

    def map_shards(self, fn, items, *, cpus=1):
        for name, item in items.items():
            if name not in self.kept:
                self.kept.update(super().map_shards(fn, {name: item}))
        return {name: self.kept[name] for name in items}


def test_every_document_is_asked_once_with_the_rubric_and_labelled(tmp_path, sources):
    with model_server(reads) as server:
        out = DirectoryOut(tmp_path / "out")
        result = labels_llm(config(sources, f"{server.url}/v1"), out)
    labels = {label.id: label for label in read_labels(out.file("labels.jsonl"))}
    assert {each: label.score for each, label in labels.items()} == {
        document_id(text): 1 + text.count("good") for text in TEXTS
    }
    assert {label.reader for label in labels.values()} == {"reader-1"}
    assert (result.documents, result.unanswered, result.malformed_answers) == (12, 0, 0)
    assert len(server.requests) == 12
    path, body, _ = server.requests[0]
    assert path == "/v1/chat/completions" and body["model"] == "reader-1" and body["temperature"] == 0.0
    assert body["messages"][0]["content"] == read_rubric(RUBRIC_DIGEST)


def test_server_that_dies_and_comes_back_is_not_asked_again_for_what_it_answered(tmp_path, sources):
    kept = {}

    def dies_after_seven(path, body, number):
        return reads(path, body, number) if number < 7 else Answer({"error": "out of memory"}, 500)

    with model_server(dies_after_seven) as server, pytest.raises(StepFailed, match="no answer after 3 tries"):
        labels_llm(config(sources, server.url), RememberingOut(tmp_path / "a", kept))
    first = [body["messages"][1]["content"] for _, body, _ in server.requests[:7]]
    assert len(kept) == 7
    with model_server(reads) as server:
        result = labels_llm(config(sources, server.url), RememberingOut(tmp_path / "b", kept))
    second = [body["messages"][1]["content"] for _, body, _ in server.requests]
    assert result.documents == 12
    assert sorted(first + second) == sorted(TEXTS)


def test_rate_limit_is_waited_for_and_counts_as_no_malformed_answer(tmp_path, sources):
    def busy_every_second_time(path, body, number):
        return Answer({}, 429, {"Retry-After": "0"}) if number % 2 == 0 else reads(path, body, number)

    with model_server(busy_every_second_time) as server:
        result = labels_llm(config(sources, server.url), DirectoryOut(tmp_path / "out"))
    assert (result.documents, result.malformed_answers, len(server.requests)) == (12, 0, 24)


def test_malformed_answer_is_asked_again_with_what_was_wrong(tmp_path, sources):
    def wrong_at_first(path, body, number):
        return said('{"score": 9}') if len(body["messages"]) == 2 else reads(path, body, number)

    with model_server(wrong_at_first) as server:
        result = labels_llm(config(sources, server.url), DirectoryOut(tmp_path / "out"))
    assert (result.documents, result.unanswered, result.malformed_answers) == (12, 0, 12)
    assert "score 9" in server.requests[1][1]["messages"][-1]["content"]


def test_document_never_well_answered_is_reported_and_the_others_kept(tmp_path, sources):
    stubborn = TEXTS[4]

    def mumbles_at_one(path, body, number):
        return said("I cannot say.") if body["messages"][1]["content"] == stubborn else reads(path, body, number)

    with model_server(mumbles_at_one) as server:
        result = labels_llm(config(sources, server.url, max_unanswered_fraction=0.1), DirectoryOut(tmp_path / "out"))
        asked = [body["messages"][1]["content"] for _, body, _ in server.requests]
        assert asked.count(stubborn) == 3
        assert (result.documents, result.unanswered, result.malformed_answers) == (11, 1, 3)
        [row] = map(json.loads, (tmp_path / "out/unanswered.jsonl").read_text().splitlines())
        assert row["id"] == document_id(stubborn) and "no JSON object" in row["problem"]
        with pytest.raises(StepFailed, match="1 of 12 documents have no well-formed answer"):
            labels_llm(config(sources, server.url), DirectoryOut(tmp_path / "strict"))


def asked_texts(server):
    return [body["messages"][1]["content"] for _, body, _ in server.requests]


def test_step_that_failed_for_malformed_answers_asks_again_for_those_alone(tmp_path, sources):
    """Through the engine: answers are kept from attempt to attempt, malformed ones are no answers."""
    stubborn = {TEXTS[4], TEXTS[9]}

    def mumbles_at_two(path, body, number):
        return said("I cannot say.") if body["messages"][1]["content"] in stubborn else reads(path, body, number)

    world = World(tmp_path)
    with model_server(mumbles_at_two) as server:
        step = Step("labels", labels_llm, config(sources, server.url, max_asks=1))
        failed = world.run(step)["labels"].failure
        assert (
            "2 of 12 documents have no well-formed answer" in failed.reason and "10 answers are kept" in failed.reason
        )
        assert sorted(asked_texts(server)) == sorted(TEXTS)
    with model_server(mumbles_at_two) as server:
        more = Step("labels", labels_llm, config(sources, server.url, max_asks=2))  # the same step: patience is runtime
        assert "2 of 12" in world.run(more)["labels"].failure.reason
        assert sorted(asked_texts(server)) == sorted([*stubborn] * 2)
    with model_server(reads) as server:
        again = Step("labels", labels_llm, config(sources, server.url, max_asks=1))
        assert world.run(again)["labels"].failure is None
        assert sorted(asked_texts(server)) == sorted(stubborn)
    assert world.actions(again) == {"labels": "REUSE"}


def test_tolerance_raised_after_a_failure_asks_for_nothing(tmp_path, sources):
    def mumbles_at_one(path, body, number):
        return said("?") if body["messages"][1]["content"] == TEXTS[4] else reads(path, body, number)

    world = World(tmp_path)
    with model_server(mumbles_at_one) as server:
        world.run(Step("labels", labels_llm, config(sources, server.url)))
    with model_server(reads) as server:
        lenient = Step("labels", labels_llm, config(sources, server.url, max_unanswered_fraction=0.1))
        world.run(lenient)
        assert asked_texts(server) == []
    assert world.actions(lenient) == {"labels": "REUSE"}


def test_endpoint_in_another_form_is_an_error_that_shows_its_answer(tmp_path, sources):
    with model_server(lambda *_: Answer({"text": "hello"})) as server, pytest.raises(StepFailed, match="hello"):
        labels_llm(config(sources, server.url), DirectoryOut(tmp_path / "out"))


def test_shards_of_several_documents_give_the_same_labels(tmp_path, sources):
    with model_server(reads) as server:
        for size in (1, 5):
            labels_llm(config(sources, server.url, documents_per_shard=size), DirectoryOut(tmp_path / str(size)))
    one, five = ((tmp_path / str(size) / "labels.jsonl").read_bytes() for size in (1, 5))
    assert one == five


def test_rubric_that_changed_is_refused(tmp_path, sources):
    with pytest.raises(IdentityMismatch, match=r"rubric\.md"):
        labels_llm(config(sources, "http://127.0.0.1:1", rubric_digest="0" * 32), DirectoryOut(tmp_path / "out"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_asks": 0}, r"LabelsLlmConfig\.max_asks: 0; a value at least 1 is needed"),
        ({"count": 0}, r"LabelsLlmConfig\.count: 0"),
        ({"documents_per_shard": 0}, r"LabelsLlmConfig\.documents_per_shard: 0"),
        ({"cpus_per_shard": 0.0}, r"LabelsLlmConfig\.cpus_per_shard: 0\.0; a value above 0"),
        (
            {"max_unanswered_fraction": 1.5},
            r"LabelsLlmConfig\.max_unanswered_fraction: 1\.5; .* at least 0 and at most 1",
        ),
        ({"documents": ()}, r"LabelsLlmConfig\.documents is empty"),
    ],
)
def test_setting_out_of_range_is_refused_when_the_config_is_made(sources, changes, message):
    with pytest.raises(ConfigError, match=message):
        config(sources, "http://127.0.0.1:1", **changes)


@pytest.mark.parametrize("changes", [{"temperature": -0.1}, {"max_attempts": 0}, {"timeout_seconds": 0.0}])
def test_chat_model_setting_out_of_range_is_refused(changes):
    with pytest.raises(ConfigError, match=rf"ChatModel\.{next(iter(changes))}"):
        ChatModel(**{"model": "m", "url": "http://127.0.0.1:1", **changes})


@pytest.mark.parametrize(
    "text",
    [
        '{"content_type": "code", "score": 4, "reason": "fine"}',
        'Thinking {about it}...\n```json\n{"content_type": "code", "score": 4, "reason": "fine"}\n```\nDone.',
        'First {"score": 1} then better: {"content_type": "code", "score": 4, "reason": "fine"}',
    ],
)
def test_answer_is_found_whatever_stands_around_it(text):
    assert parse_answer(text) == (4, "code", "fine")


@pytest.mark.parametrize("text", ["", "4", "[4]", '{"score": 4}', '{"content_type": "code", "score": 4', "{}"])
def test_answer_without_a_judgement_is_refused(text):
    with pytest.raises(ValueError):
        parse_answer(text)


def test_rubric_names_every_content_type_and_score_the_parser_accepts():
    rubric = (Path(__file__).parents[3] / "steps/quality/rubric.md").read_text()
    for name in ("prose", "code", "reference", "legal", "structured", "other"):
        assert f"| `{name}` |" in rubric
    for score in range(1, 6):
        assert f"| {score} |" in rubric
