"""--only, --until, --from, --force: what each runs, together and alone, and what is refused."""

from dataclasses import dataclass
from pathlib import Path

import pytest
from inprocess import World

from marin_exec import ConfigError, InputPath, Out, Step, kind


@dataclass(frozen=True, kw_only=True)
class Config:
    sources: tuple[InputPath, ...] = ()
    word: str = ""


@kind("selection/join", version=1)
def join(config: Config, out: Out) -> None:
    texts = [Path(each, "text.txt").read_text() for each in config.sources]
    Path(out.file("text.txt")).write_text(config.word + "".join(texts))


def pipeline(word: str = "raw") -> list[Step]:
    """raw -> clean -> (ladder/1, ladder/2) -> fit; side -> fit; the hero waits for fit, and is made from clean."""
    raw = Step("raw", join, Config(word=word))
    side = Step("side", join, Config(word="side"))
    clean = Step("clean", join, Config(sources=(raw,), word="clean"))
    rungs = tuple(Step(f"ladder/{n}", join, Config(sources=(clean,), word=str(n))) for n in (1, 2))
    fit = Step("fit", join, Config(sources=(*rungs, side)))
    hero = Step("hero", join, Config(sources=(clean,), word="hero"), after=(fit,))
    return [hero]


ALL = {"raw", "side", "clean", "ladder/1", "ladder/2", "fit", "hero"}


@pytest.fixture
def world(tmp_path) -> World:
    return World(tmp_path)


@pytest.fixture
def done(world) -> World:
    world.run(*pipeline())
    return world


def runs(world: World, **chosen: object) -> set[str]:
    return {each.step.name for each in world.plan(*pipeline(), **chosen).to_run}


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ALL),
        ({"until": ["clean"]}, {"raw", "clean"}),
        ({"until": ["ladder/*"]}, {"raw", "clean", "ladder/1", "ladder/2"}),
        ({"until": ["ladder/1", "side"]}, {"raw", "clean", "ladder/1", "side"}),
        ({"only": ["raw"]}, {"raw"}),
        ({"only": ["raw", "clean"]}, {"raw", "clean"}),
        ({"only": ["[rs]*"]}, {"raw", "side"}),
        ({"until": ["clean"], "force": ["raw"]}, {"raw", "clean"}),
    ],
)
def test_selection_in_an_empty_store_runs_exactly(world, chosen, expected):
    assert runs(world, **chosen) == expected


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"start_from": ["ladder/1"]}, {"ladder/1", "fit"}),  # the hero only waits for fit
        ({"start_from": ["clean"]}, ALL - {"raw", "side"}),
        ({"start_from": ["ladder/?"], "until": ["ladder/2"]}, None),
        ({"start_from": ["clean"], "until": ["ladder/2"]}, {"clean", "ladder/2"}),
        ({"start_from": ["side", "hero"]}, {"side", "fit", "hero"}),
        ({"force": ["clean"], "with_descendants": True}, ALL - {"raw", "side"}),
        ({"force": ["clean"], "with_descendants": True, "until": ["fit"]}, {"clean", "ladder/1", "ladder/2", "fit"}),
        ({"force": ["ladder/*"], "with_descendants": True}, {"ladder/1", "ladder/2", "fit"}),
        ({"force": ["side"], "only": ["side"]}, {"side"}),
        ({"only": ["hero"]}, set()),
        ({"start_from": ["ladder/1"], "force": ["ladder/1"]}, {"ladder/1", "fit"}),
    ],
)
def test_selection_in_a_finished_store_runs_exactly(done, chosen, expected):
    if expected is None:
        with pytest.raises(ConfigError, match="--from ladder/1: none of the steps in --until"):
            runs(done, **chosen)
        return
    planned = done.plan(*pipeline(), **chosen)
    assert {each.step.name for each in planned.to_run} == expected
    if not chosen.keys().isdisjoint({"start_from"}) or chosen.get("with_descendants"):
        assert all(each.forced for each in planned.to_run)


def test_from_really_runs_all_below_again_and_nothing_else_although_the_content_is_equal(done):
    before = {each.step.name: each.last_attempt for each in done.plan(*pipeline()).steps.values()}
    done.run(*pipeline(), start_from=["ladder/1"])
    after = {each.step.name: each.last_attempt for each in done.plan(*pipeline()).steps.values()}
    assert {name for name in ALL if after[name] != before[name]} == {"ladder/1", "fit"}


def test_force_alone_leaves_what_is_below_as_it_is_when_the_content_is_equal(done):
    statuses = done.run(*pipeline(), force=["clean"])
    assert {name for name, each in statuses.items() if each.state == "done"} == {"clean"}


def test_only_with_an_input_that_is_not_there_names_it_and_the_command(world):
    with pytest.raises(ConfigError) as refused:
        runs(world, only=["ladder/1", "ladder/2"])
    assert "--only ladder/1 ladder/2 runs nothing else" in str(refused.value)
    assert "raw (never run); clean (never run)" in str(refused.value)
    assert "`marin-exec run EXPERIMENT --until clean`" in str(refused.value)


def test_only_with_an_input_whose_data_is_gone_names_the_file(done):
    record = done.plan(*pipeline()).named("clean").record
    Path(done.store.url(record.output_path), "text.txt").unlink()
    with pytest.raises(ConfigError, match=r"clean \(data gone or damaged: text.txt"):
        runs(done, only=["ladder/1"], force=["ladder/1"])
    assert runs(done, only=["ladder/1"]) == set(), "it is done, so its input is not needed"


def test_only_of_a_step_that_waits_needs_what_it_waits_for(world):
    world.run(*pipeline(), until=["clean"])
    with pytest.raises(ConfigError, match=r"side \(never run\); and 1 more. .* --until fit`"):
        runs(world, only=["hero"])


def test_from_with_a_side_input_that_is_not_there_runs_nothing_else(world):
    world.run(*pipeline(), until=["ladder/*"])
    with pytest.raises(
        ConfigError, match=r"--from clean runs nothing else, and this is needed and not there: side \(never run\)"
    ):
        runs(world, start_from=["clean"])


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"only": ["clean"], "until": ["fit"]}, "--only clean and --until fit: --only names exactly what may run"),
        ({"only": ["clean"], "start_from": ["raw"]}, "--only clean and --from raw"),
        ({"with_descendants": True}, "--with-descendants belongs to --force"),
        ({"only": ["raw"], "force": ["raw"], "with_descendants": True}, "--only raw and --with-descendants"),
        ({"until": ["raw"], "force": ["fit"]}, "--force fit: none of the steps in --until .raw. needs it"),
        ({"only": ["raw"], "force": ["fit"]}, "--force fit: none of the steps in --only .raw. needs it"),
        ({"start_from": ["fit"], "force": ["side"]}, "--force side: none of the steps in --from .fit. needs it"),
        ({"until": ["clena"]}, "no step is named 'clena'; did you mean clean"),
        ({"force": ["lader/*"]}, "no step is named 'lader/.'; did you mean"),
        ({"start_from": ["x"]}, "no step is named 'x'"),
        ({"only": [""]}, "no step is named ''"),
    ],
)
def test_selection_that_cannot_be_meant_is_refused(world, chosen, message):
    with pytest.raises(ConfigError, match=message):
        runs(world, **chosen)
