"""Secrets: known by shape, by name and by the environment; and planted everywhere, they reach neither store nor page."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from engine import EXPERIMENTS, Engine
from inprocess import World

from marin_exec import ConfigError, Out, Step, kind
from marin_exec.secrets import REDACTED, redact, redact_tree, secret_in
from marin_exec.store import Store
from marin_exec.store.withdrawal import invalidate

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----"
SHAPES = (
    "hf_abcdefghijklmnopqrstuv",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijkl_mnop",
    "sk-proj-abc123def456ghi789jkl",
    "AKIAABCDEFGHIJKLMNOP",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-def_ghi",
    PEM,
    "https://ada:s3same@example.org/data",
    "https://example.org/data?X-Goog-Signature=0a1b2c&x=1",
)


@pytest.mark.parametrize("secret", SHAPES)
def test_known_shape_is_redacted_and_refused_and_what_stands_around_it_stays(secret):
    text = f"before {secret} after"
    cleaned = redact(text)
    assert cleaned.startswith("before ") and cleaned.endswith(" after") and REDACTED in cleaned
    assert not any(part in cleaned for part in (secret, "s3same", "0a1b2c", "MIIE"))
    assert secret_in(text) is not None and secret_in(cleaned) is None
    assert redact(cleaned) == cleaned


@pytest.mark.parametrize(
    "text",
    [
        "train.py --api-key hunter2 --count 3",
        "train.py --hf-token=hunter2 --count 3",
        "token=hunter2 --count 3",
        "HF_TOKEN=hunter2 python x.py --count 3",
        "{'api_key': 'hunter2', '--count 3': 1}",
        'aws_secret_access_key = "hunter2" --count 3',
        "Authorization: Basic hunter2 --count 3",
        "bearer hunter2 --count 3",
    ],
)
def test_value_under_a_secret_name_is_redacted_and_its_neighbours_stay(text):
    assert "hunter2" not in redact(text) and "--count 3" in redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "num_tokens=1000 tokens: 12, token: the, max_token=512 tokenizer=gpt2, pad_token=<pad>",
        "task-1234567890123456789abc and risk-of-something-1234567890",
        "commit 0123456789abcdef0123456789abcdef01234567, digest " + "ab" * 32,
        "KeyError: 'secret' in ssh://git@github.com/x and gs://bucket/a@b:c",
        "basic configuration, authority, key=words/counts",
    ],
)
def test_text_of_this_field_that_only_sounds_secret_stays(text):
    assert redact(text) == text and secret_in(text) is None


def test_values_of_secret_variables_are_redacted_in_every_form_and_those_of_others_stay(monkeypatch):
    monkeypatch.setenv("DATABASE_PASSWORD", 'p@ss/wo"rd\nline')
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", __file__)
    monkeypatch.setenv("SHORT_KEY", "abc")
    for form in ('p@ss/wo"rd\nline', "p%40ss%2Fwo%22rd%0Aline", repr('p@ss/wo"rd\nline')[1:-1]):
        assert redact(f"a {form} b") == f"a {REDACTED} b"
    kept = f"disabled: abc {__file__}"
    assert redact(kept) == kept


def test_tree_is_redacted_in_texts_and_under_secret_keys_and_keeps_its_other_values():
    tree = {"password": "hunter2", "n": [1, None, "hf_abcdefghijklmnopqrstuv"], "content_key": "ab", "token": {"id": 5}}
    assert redact_tree(tree) == {
        "password": REDACTED,
        "n": [1, None, REDACTED],
        "content_key": "ab",
        "token": {"id": 5},
    }


@dataclass(frozen=True)
class Source:
    urls: tuple[str, ...] = ()
    headers: dict[str, str] | None = None


@kind("secrets/returns", version=1)
def returns(config: Source, out: Out) -> str:
    return "hf_" + config.urls[0] * 20


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (
            Source(urls=("https://example.org", "https://ada:pw@example.org")),
            "config.urls[1] holds a URL with credentials",
        ),
        (Source(headers={"X": SHAPES[1]}), "config.headers.X holds a GitHub token"),
        (Source(headers={SHAPES[0]: ""}), "config.headers holds a Hugging Face token"),
        (
            Source(urls=("the planted-in-env of mine",)),
            "config.urls[0] holds the value of the environment variable MY_KEY",
        ),
    ],
)
def test_config_that_holds_a_secret_is_refused_by_field_without_saying_it(tmp_path, monkeypatch, config, field):
    monkeypatch.setenv("MY_KEY", "planted-in-env")
    with pytest.raises(ConfigError, match="environment variable instead") as refused:
        World(tmp_path).plan(Step("returns", returns, config))
    assert field in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("pw@", SHAPES[0], SHAPES[1], "planted-in-env"))


def test_result_that_holds_a_secret_fails_the_step_and_is_not_altered_silently(tmp_path):
    world = World(tmp_path)
    status = world.run(Step("returns", returns, Source(urls=("a",))))["returns"]
    assert status.state == "failed" and "holds a Hugging Face token" in status.note
    assert world.store.attempts(status.planned.digest) == [1]


PLANTED = ("pLaNtEd", "s3same-in-env", "5191a7ed")


@pytest.mark.parametrize("backend", ["local", "ray"])
def test_secrets_planted_everywhere_reach_no_file_of_the_store_and_no_output(tmp_path, backend):
    engine = Engine(tmp_path, EXPERIMENTS / "secrets.py")
    engine.environment |= {"PLANTED_PASSWORD": "s3same-in-env", "OF_STEP_TOKEN": "pLaNtEd-of-driver"}
    ran = engine.run("--api_key", "pLaNtEd-on-command-line", backend=backend)
    assert ran.returncode == 1 and ran.stderr.count("FAILED") >= 2, ran.stderr
    said = {"run": ran.stdout + ran.stderr}
    fine = json.loads(engine.call("ls", "--json").stdout)["steps"][0]["digest"]
    for verb, arguments in {
        "plan": (),
        "status": (),
        "why": ("leaky/raises",),
        "show": ("leaky/fine",),
        "diff": (fine, fine),
        "lineage": ("leaky/fine",),
        "ls": (),
        "logs": ("leaky/raises",),
    }.items():
        answer = engine.call(verb, *arguments, *(("--json",) if backend == "local" else ()))
        said[verb] = answer.stdout + answer.stderr
    for path in engine.store.rglob("*"):
        if path.is_file():
            said[str(path)] = path.read_bytes().decode()
    leaks = {f"{where}: {planted}" for where, text in said.items() for planted in PLANTED if planted in text}
    assert not leaks
    failure = said["run"]
    assert "cannot reach https://[redacted]@example.org/data" in failure and "RuntimeError: shard" in failure
    record = json.loads(engine.call("show", "leaky/fine", "--json").stdout)["record"]
    assert record["resources"]["env"] == ["OF_STEP_TOKEN"]
    assert "--api_key" in record["provenance"]["command_line"]


@pytest.mark.slow
@pytest.mark.parametrize("kind_of_store", ["file", "gcs"])
def test_secrets_that_ranks_and_shards_on_ray_let_slip_reach_no_object_and_no_output(
    request, tmp_path, monkeypatch, kind_of_store
):
    engine = Engine(tmp_path, EXPERIMENTS / "secrets.py")
    if kind_of_store == "gcs":
        server = request.getfixturevalue("gcs_server")
        engine.environment |= {**server.environment, "MARIN_PREFIX": server.new_prefix()}
    planted = {"PLANTED_PASSWORD": "s3same-in-env", "OF_STEP_TOKEN": "pLaNtEd-of-driver"}
    engine.environment |= planted
    arguments = ("--backend", "ray", "--api_key", "pLaNtEd-on-command-line", "--ranks", "2")
    ran = engine.call("run", *arguments, timeout=280)
    assert ran.returncode == 1, ran.stderr
    said = {"run": ran.stdout + ran.stderr}
    for name in ("gang/raises", "gang/killed", "leaky/shards"):
        answer = engine.call("logs", name)
        said[name] = answer.stdout + answer.stderr
        assert f"FAILED {name}" in ran.stderr, ran.stderr
    for name in set(engine.environment) - set(planted):
        monkeypatch.setenv(name, engine.environment[name])
    store = Store.open(engine.env()["MARIN_PREFIX"])
    said |= {path: store.fs.cat_file(path).decode() for path in store.fs.find(store.prefix)}
    assert len(said) > 20
    leaks = {f"{where}: {planted}" for where, text in said.items() for planted in PLANTED if planted in text}
    assert not leaks
    assert "rank 1 reads https://[redacted]@example.org/data" in said["gang/killed"], said["gang/killed"]
    assert "RuntimeError: rank 1: https://[redacted]@" in said["gang/raises"]


def test_reasons_that_a_person_gives_are_redacted(tmp_path):
    world = World(tmp_path)
    done = world.run(Step("returns", returns_nothing, Source()))["returns"]
    head = invalidate(world.store, done.planned.digest, "ada", f"see https://ada:pLaNtEd@example.org and {SHAPES[0]}")
    stored = "".join(path.read_text() for path in Path(world.store.prefix).rglob("*") if path.is_file())
    assert "pLaNtEd" not in stored and SHAPES[0] not in stored and REDACTED in head.invalidated


@kind("secrets/nothing", version=1)
def returns_nothing(config: Source, out: Out) -> str:
    return "nothing"
