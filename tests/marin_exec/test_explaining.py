"""Why a step has to run, down to the root cause, through any chain of upstreams and from records alone."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from inprocess import World

from marin_exec import InputPath, Out, Step, kind
from marin_exec.plan import PlanOptions, make_plan
from marin_exec.store.withdrawal import invalidate


@dataclass(frozen=True, kw_only=True)
class Config:
    sources: tuple[InputPath, ...] = ()
    word: str = ""
    size: int = 1


def write(config: Config, out: Out) -> None:
    texts = [Path(each, "text.txt").read_text() for each in config.sources]
    Path(out.file("text.txt")).write_text((config.word + "".join(texts)) * config.size)


@kind("explaining/text", version=1)
def text(config: Config, out: Out) -> None:
    write(config, out)


@kind("explaining/text", version=2)
def text_2(config: Config, out: Out) -> None:
    write(config, out)


@kind("explaining/other", version=1)
def other(config: Config, out: Out) -> None:
    write(config, out)


def chain(length: int = 4, *, fn: Any = text, names: str = "abcdefgh", **first: Any) -> Step:
    step = Step(names[0], fn, Config(**{"word": "w", **first}))
    for name in names[1:length]:
        step = Step(name, other, Config(sources=(step,), word=name))
    return step


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


def causes(world: World, step: Step, name: str = "d") -> tuple[str, ...]:
    return world.plan(step).named(name).causes


def test_root_cause_is_found_through_any_chain_of_upstreams_with_old_and_new_value(world):
    world.run(chain())
    assert causes(world, chain(word="W", size=2)) == ("a: config.size 1 -> 2", "a: config.word 'w' -> 'W'")
    planned = world.plan(chain(word="W")).named("d")
    assert planned.reason.startswith("upstream a: config.word 'w' -> 'W' (last run ")


def test_root_cause_kind_version(world):
    world.run(chain())
    assert causes(world, chain(fn=text_2)) == ("a: kind.version 1 -> 2",)


def test_root_cause_code_of_a_kind_without_version(world, monkeypatch):
    def plain(config: Config, out: Out) -> None:
        write(config, out)

    world.run(chain(fn=plain))
    from marin_exec import draft, identity

    real = identity.source_of

    def edited(fn: Any) -> Any:
        return (
            replace(real(fn), digest="0" * 64, functions={**real(fn).functions, "helper": "x"})
            if fn is plain
            else real(fn)
        )

    monkeypatch.setattr(identity, "source_of", edited)
    monkeypatch.setattr(draft, "source_of", edited)
    assert causes(world, chain(fn=plain)) == ("a: code changed in helper",)


def test_root_cause_renamed_input_is_followed_to_what_changed_in_it(world):
    world.run(chain())
    assert causes(world, chain(names="Abcd", word="W")) == ("A: config.word 'w' -> 'W'",)


def test_root_cause_another_step_in_an_inputs_place_names_both(world):
    world.run(chain(), Step("raw2", text, Config(word="x")))
    swapped = Step("b", other, Config(sources=(Step("raw2", text, Config(word="x")),), word="b"))
    both = (swapped, Step("keep", other, Config(sources=(chain(1),))))
    assert world.plan(*both).named("b").causes == ("b: config.sources[0] a -> raw2",)


def test_root_cause_input_that_was_invalidated_names_who_and_why(world):
    world.run(chain())
    digest = world.plan(chain()).named("a").digest
    invalidate(world.store, digest, "ada", "the crawl was cut short")
    planned = world.plan(chain()).named("d")
    assert planned.action == "RUN" and len(planned.causes) == 1
    assert planned.causes[0].startswith("a: invalidated by ada on ") and planned.causes[0].endswith(
        ": the crawl was cut short"
    )


def test_reason_names_a_change_that_several_upstreams_share_once(world):
    def joined(word: str) -> Step:
        return Step("all", other, Config(sources=tuple(chain(1, names=name, word=word + name) for name in "abcde")))

    def alike(size: int) -> Step:
        return Step("all", other, Config(sources=tuple(chain(1, names=name, word=name, size=size) for name in "abcde")))

    world.run(alike(1))
    reason = world.plan(alike(2)).named("all").reason
    assert reason.startswith("upstream a, b, c and 2 more: config.size 1 -> 2 (last run ")
    different = world.plan(joined("W")).named("all").reason
    assert different.startswith("upstream a: config.word 'a' -> 'Wa'; upstream b: ") and "; and 2 more (" in different


def test_root_cause_data_that_is_gone_names_the_file(world):
    world.run(chain())
    record = world.plan(chain()).named("d").record
    Path(world.store.url(record.output_path), "text.txt").unlink()
    assert causes(world, chain()) == ("d: data gone or damaged: text.txt (missing)",)


def test_root_cause_input_replaced_names_the_first_files(world, monkeypatch):
    words = ["x"]

    @kind("explaining/many", version=1)
    def many(config: Config, out: Out) -> None:
        for n in range(6):
            Path(out.file(f"{n}.txt")).write_text(words[-1])

    @kind("explaining/reader", version=1)
    def reader(config: Config, out: Out) -> str:
        return Path(config.sources[0], "0.txt").read_text()

    step = Step("reader", reader, Config(sources=(Step("many", many, Config()),)))
    world.run(step)
    words.append("longer")
    world.run(step, only=["many"], force=["many"])
    (cause,) = world.plan(step).named("reader").causes
    assert cause == (
        "many: output replaced by run run-2: 0.txt changed (1 -> 6 bytes), 1.txt changed (1 -> 6 bytes), "
        "2.txt changed (1 -> 6 bytes) and 3 more"
    )


def test_nearest_run_is_the_latest_and_of_the_same_experiment_if_there_is_one(world):
    def run(word: str, experiment: str) -> None:
        scheduler = world.scheduler(world.plan(chain(1, word=word)))
        scheduler.context = replace(
            scheduler.context, provenance={**scheduler.context.provenance, "experiment": experiment}
        )
        scheduler.run()

    def compared(experiment: str) -> tuple[str, ...]:
        options = PlanOptions(experiment=experiment)
        return make_plan([chain(1, word="now")], world.store, options).named("a").causes

    for word, experiment in (("one", "/here/mine.py"), ("two", "/here/mine.py"), ("three", "/here/other.py")):
        run(word, experiment)
    assert compared("/elsewhere/mine.py") == ("a: config.word 'two' -> 'now'",)
    assert compared("/here/new.py") == ("a: config.word 'three' -> 'now'",)


def test_causes_of_a_wide_change_are_the_first_few(world):
    steps = {f"s{n:02}": n for n in range(30)}
    base = [Step(name, text, Config(word=f"{n}")) for name, n in steps.items()]
    changed = [Step(name, text, Config(word=f"{n}!")) for name, n in steps.items()]
    world.run(Step("all", other, Config(sources=tuple(base))))
    found = world.plan(Step("all", other, Config(sources=tuple(changed)))).named("all")
    assert len(found.causes) == 20 and found.causes[0] == "s00: config.word '0' -> '0!'"
    assert found.reason.count("upstream") == 3 and "; and 17 more" in found.reason
