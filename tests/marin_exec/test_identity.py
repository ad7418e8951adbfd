"""What counts towards a step's digest and what does not; errors; cost; configs as functions get them."""

import dataclasses
import enum
import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest

from marin_exec import ConfigError, InputPath, InternalError, Kind, Resources, Retry, Step, StepPath, kind, runtime
from marin_exec.identity import Identity, identify, resolve_config
from marin_exec.step import topological


@dataclass(frozen=True, kw_only=True)
class Config:
    inputs: tuple[InputPath, ...] = ()
    bands: int = 26
    containment: float = 0.8
    more: Any = None
    workers: Annotated[int, runtime] = 2


@kind("test-identity/plain", version=1)
def plain(config: Config, out: Any) -> None:
    """Is only identified."""


@kind("test-identity/plain", version=2)
def plain_second_version(config: Config, out: Any) -> None:
    """Is only identified."""


@kind("test-identity/other", version=1)
def other_kind(config: Config, out: Any) -> None:
    """Is only identified."""


def undeclared(config: Config, out: Any) -> int:
    return 1


class Pair(NamedTuple):
    left: Any
    right: Any


def identity_of(step: Step) -> Identity:
    return identify(topological([step]))[id(step)]


def digest_of(step: Step) -> str:
    return identity_of(step).digest


BASE = Step("base", plain, Config())
INPUT = Step("input", plain, Config(bands=1))


# --- what is identity -------------------------------------------------------------------------------------------------

# Each attribute of a step: what may stand there instead, and whether that makes it another step.
_STEP_ATTRIBUTES = {
    "name": ("renamed", False),
    "fn": (other_kind, True),
    "config": (Config(bands=20), True),
    "resources": (Resources(cpus=8, env={"A": "1"}), False),
    "retry": (Retry(exceptions=5), False),
    "after": ((INPUT,), False),
    "see": ((INPUT,), False),
    "limits": ({"huggingface": 4}, False),
}
_KIND_ATTRIBUTES = {
    "name": ("test-identity/another name", True),
    "version": (7, True),
    "fn": (other_kind, False),  # with a version, where the function lives and what it reads like is free
    "content_digest": (lambda path: "", False),
    "gang": (True, False),
    "reads_lineage": (True, False),
    "renamed_from": ("test-identity/first name", True),
}


def test_every_step_attribute_is_marked_as_identity_or_not():
    assert {
        each.name for each in dataclasses.fields(Step) if each.name not in ("_", "pinned")
    } == _STEP_ATTRIBUTES.keys()
    assert {each.name for each in dataclasses.fields(Kind)} == _KIND_ATTRIBUTES.keys()


@pytest.mark.parametrize("name", _STEP_ATTRIBUTES)
def test_step_attribute_counts_exactly_if_marked(name):
    value, counts = _STEP_ATTRIBUTES[name]
    assert (digest_of(dataclasses.replace(BASE, **{name: value})) != digest_of(BASE)) == counts


@pytest.mark.parametrize("name", _KIND_ATTRIBUTES)
def test_kind_attribute_counts_exactly_if_marked(name):
    value, counts = _KIND_ATTRIBUTES[name]

    def fn(config: Config, out: Any) -> None: ...

    fn.__marin_kind__ = dataclasses.replace(BASE.kind, **{name: value})  # type: ignore[attr-defined]
    assert (digest_of(Step("base", fn, Config())) != digest_of(BASE)) == counts


def test_kind_version_counts():
    assert digest_of(Step("base", plain_second_version, Config())) != digest_of(BASE)


def test_kind_without_version_is_known_by_its_source():
    tree = identity_of(Step("x", undeclared, Config())).tree
    assert tree["kind"] == "undeclared"
    assert tree["version"] is None
    assert len(tree["source"]) == 64
    assert identity_of(BASE).tree["source"] is None


def test_runtime_field_does_not_count():
    assert digest_of(Step("base", plain, Config(workers=64))) == digest_of(BASE)


def test_int_in_a_float_field_is_the_float():
    one, as_float = (Step("x", plain, Config(containment=value)) for value in (1, 1.0))
    assert digest_of(one) == digest_of(as_float)


def test_environment_prefix_and_directory_do_not_count(monkeypatch, tmp_path):
    before = digest_of(BASE)
    monkeypatch.setenv("MARIN_PREFIX", "gs://somewhere-else/prefix")
    monkeypatch.setenv("TZ", "Pacific/Chatham")
    monkeypatch.chdir(tmp_path)
    assert digest_of(Step("base", plain, Config())) == before


def test_edited_config_object_has_a_new_identity():
    @dataclass
    class Editable:
        x: int = 1

    step = Step("x", plain, Editable())
    before = digest_of(step)
    step.config.x = 2
    assert digest_of(step) != before  # nothing is kept on the step between plans


# --- dependencies -----------------------------------------------------------------------------------------------------


def _with_input(value: Any, name: str = "child") -> str:
    return digest_of(Step(name, plain, Config(more=value)))


def test_dependency_counts_by_digest_sub_path_and_milestone():
    variants = [
        INPUT,
        INPUT / "a",
        INPUT / "b",
        INPUT / "a/b",
        INPUT.milestone("a"),
        INPUT.milestone("a") / "b",
        BASE,
        "input",
        None,
    ]
    assert len({_with_input(each) for each in variants}) == len(variants)


def test_dependency_renamed_leaves_its_dependants_alone():
    renamed = dataclasses.replace(INPUT, name="called/otherwise")
    assert _with_input(renamed / "key") == _with_input(INPUT / "key")


def test_dependency_changed_far_upstream_changes_all_below():
    def chain(bands: int) -> list[Step]:
        steps = [Step("s/0", plain, Config(bands=bands))]
        for n in range(1, 60):
            steps.append(Step(f"s/{n}", plain, Config(inputs=(steps[-1],))))
        return steps

    first, second = chain(1), chain(2)
    digests = [{each.digest for each in identify(steps).values()} for steps in (first, second)]
    assert not digests[0] & digests[1]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda step: [step],
        lambda step: (step,),
        lambda step: {"a": step},
        lambda step: {step},
        lambda step: Pair(step, 1),
        lambda step: [{"a": (Config(more=step),)}],
    ],
)
def test_dependency_in_any_container_counts_and_is_resolved(wrap):
    child = Step("child", plain, Config(more=wrap(INPUT)))
    assert topological([child]) == [INPUT, child]
    assert digest_of(child) != _with_input(wrap(BASE))
    resolved = resolve_config(child.config, lambda path: f"/store/{path.step.name}").more
    assert type(resolved) is type(wrap(INPUT))
    assert resolved == wrap("/store/input")


def test_order_of_inputs_counts_where_it_means_something_only():
    assert _with_input([INPUT, BASE]) != _with_input([BASE, INPUT])
    assert _with_input({INPUT, BASE}) == _with_input({BASE, INPUT})
    assert _with_input({"a": INPUT, "b": BASE}) == _with_input({"b": BASE, "a": INPUT})


def test_equal_steps_made_twice_are_one_identity():
    again = Step("input", plain, Config(bands=1))
    found = identify([INPUT, again])
    assert found[id(INPUT)] == found[id(again)]


def test_tree_holds_no_trees_of_dependencies():
    layer = [Step(f"d/{n}", plain, Config(bands=n)) for n in range(5)]
    sizes = []
    for depth in range(11):
        layer = [Step(f"d/{depth}/{n}", plain, Config(bands=n, inputs=tuple(layer))) for n in range(5)]
        sizes.append(len(json.dumps(identity_of(layer[0]).tree)))
    assert len(set(sizes)) == 1
    assert sizes[0] < 2_000


def test_tree_survives_json():
    step = Step("x", plain, Config(inputs=(INPUT, INPUT / "a"), more={1: (b"x", None, float("nan"))}))
    tree = identity_of(step).tree
    assert json.loads(json.dumps(tree, allow_nan=False)) == tree


# --- errors -----------------------------------------------------------------------------------------------------------


def test_one_name_with_two_identities_names_the_first_differing_field():
    steps = [Step("same", plain, Config(bands=bands)) for bands in (26, 20)]
    with pytest.raises(
        ConfigError, match=r"step same: two steps of this name differ, first in config\.bands \(26, 20\)"
    ):
        identify(steps)


def test_wrong_type_names_step_field_value_and_need():
    with pytest.raises(ConfigError) as caught:
        digest_of(Step("dedup/fuzzy", plain, Config(bands="x")))  # type: ignore[arg-type]
    assert str(caught.value) == "step dedup/fuzzy: config.bands is 'x' (str); int is needed"


def test_callable_in_a_config_names_step_and_field():
    with pytest.raises(ConfigError, match=r"step x: config\.more\[0\]\.more is a callable .*lambda"):
        digest_of(Step("x", plain, Config(more=[Config(more=lambda: 1)])))


def test_step_as_a_dict_key_is_refused():
    with pytest.raises(ConfigError, match=r"config\.more key Step\('input'\)"):
        identify([INPUT, Step("x", plain, Config(more={INPUT: 1}))])


def test_step_in_a_runtime_field_is_refused():
    @dataclass(frozen=True)
    class Hidden:
        source: Annotated[Any, runtime] = None

    with pytest.raises(ConfigError, match=r"config\.source is declared runtime and holds Step\('input'\)"):
        digest_of(Step("x", plain, Hidden([INPUT / "a"])))


@pytest.mark.parametrize("config", [{"bands": 1}, 3, "x", Config])
def test_config_that_is_no_dataclass_instance_is_refused(config):
    with pytest.raises(
        ConfigError, match=r"step x: config is .*; an instance of a frozen dataclass, or None, is needed"
    ):
        digest_of(Step("x", plain, config))


def test_step_function_that_is_no_function_is_refused():
    class Callable:
        __name__ = "callable"

        def __call__(self, config: Any, out: Any) -> None: ...

    with pytest.raises(ConfigError, match=r"step x: fn is .*a plain function"):
        digest_of(Step("x", Callable(), Config()))


def test_dependency_identified_too_late_is_a_bug_of_the_caller():
    with pytest.raises(InternalError, match="after a step that needs it"):
        identify([Step("x", plain, Config(more=INPUT)), INPUT])


# --- cost -------------------------------------------------------------------------------------------------------------


def test_layered_diamond_is_linear():
    layer = [Step(f"0/{n}", plain, Config(bands=n)) for n in range(10)]
    for depth in range(1, 20):
        layer = [
            Step(f"{depth}/{n}", plain, Config(bands=n, inputs=tuple(layer[(n + k) % 10] for k in range(3))))
            for n in range(10)
        ]
    started = time.process_time()
    order = topological(layer)
    identities = identify(order)
    seconds = time.process_time() - started
    assert len(order) == len({each.digest for each in identities.values()}) == 200
    assert seconds < 0.15  # 0.02 s seen; visiting shared inputs again would be 3^20 visits


def test_chain_of_ten_thousand_steps_is_identified_in_two_seconds():
    steps = [Step("c/0", plain, Config())]
    for n in range(1, 10_000):
        steps.append(Step(f"c/{n}", plain, Config(inputs=(steps[-1] / "sub",), bands=n)))
    started = time.process_time()
    identify(topological([steps[-1]]))
    assert time.process_time() - started < 2


# --- configs as functions get them ------------------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = "fast"


@dataclass(frozen=True, kw_only=True)
class Everything:
    source: InputPath
    part: str
    pair: Pair
    rates: dict[str, float] = field(default_factory=dict)
    folder: Path = Path("x")
    mode: Mode = Mode.FAST
    nested: tuple[Config, ...] = ()


def test_resolved_config_has_paths_coerced_values_and_its_own_types():
    config = Everything(
        source=INPUT,
        part=INPUT / "a/b",  # type: ignore[arg-type]
        pair=Pair(INPUT.milestone("m"), [BASE]),
        rates={"b": 2, "a": 1},
        folder="y",  # type: ignore[arg-type]
        nested=[Config(inputs=[BASE], containment=1)],  # type: ignore[arg-type]
    )

    def path_of(path: StepPath) -> str:
        return f"{path.step.name}:{path.sub_path}:{path.milestone}"

    found = resolve_config(config, path_of)
    assert found == Everything(
        source="input::None",
        part="input:a/b:None",
        pair=Pair("input:m:m", ["base::None"]),
        rates={"a": 1.0, "b": 2.0},
        folder=Path("y"),
        nested=(Config(inputs=("base::None",), containment=1.0),),
    )
    assert type(found.pair) is Pair
    assert type(found.nested[0].containment) is float
    assert config.source is INPUT


def test_resolved_dicts_have_one_order_whatever_the_insertion_order():
    for keys in (["b", "a"], ["a", "b"]):
        assert list(resolve_config(Config(more=dict.fromkeys(keys, 1)), str).more) == ["a", "b"]
    assert list(resolve_config(Config(more={10: "x", 9: "y", -1: "z"}), str).more) == [-1, 9, 10]


def test_resolved_none_is_none():
    assert resolve_config(None, str) is None
