"""Small deterministic experiments, and what each of their steps holds when it is computed by hand.

A `Node` is a step as a person writes it; `Draw` is an experiment of them. `value` is the whole meaning of a step, and the
step functions write it down; nothing else of the engine is needed to know what an experiment gives.
"""

import hashlib
import secrets
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from marin_exec import InputPath, Kind, Out, ShardOut, Step, pin, renamed_from, runtime
from marin_exec.source import source_of

FLAVOURS = ("concat", "lossy", "milestones", "shards", "loose")
MILESTONE = "early"
FAIL_ONCE: set[tuple[str, str]] = set()
"""Step functions and shards that raise the next time: (key of the world, name of the step or "name/shard")."""


@dataclass(frozen=True, kw_only=True)
class Config:
    key: Annotated[str, runtime]
    step: Annotated[str, runtime]
    text: str
    note: str = ""
    """Changes the recipe and not what it makes."""
    sources: tuple[InputPath, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RenamedConfig:
    """The same under another name of a field."""

    __identity_tag__ = "Config"
    key: Annotated[str, runtime]
    step: Annotated[str, runtime]
    text: str
    remark: Annotated[str, renamed_from("note")] = ""
    sources: tuple[InputPath, ...] = ()


def value(flavour: str, code: int, text: str, inputs: Sequence[str]) -> str:
    """Returns what a step's text.txt holds; `code` is 0 or 1."""
    mark = "'" * code
    if flavour == "lossy":  # many inputs give the same
        return f"{text}{sum(map(len, inputs)) % 2}{mark}"
    joined = ",".join(inputs)
    if flavour == "shards":
        return "".join(shard_value(letter, joined) for letter in text) + mark
    return f"{text}({joined}){mark}"


def milestone_value(text: str, inputs: Sequence[str]) -> str:
    """Returns what the milestone holds, which neither the inputs nor the code change."""
    return f"early {text[:1]} {len(inputs)}"


def shard_value(letter: str, joined: str) -> str:
    return f"<{letter}{joined}>"


def _may_fail(key: str, what: str) -> None:
    if (key, what) in FAIL_ONCE:
        FAIL_ONCE.remove((key, what))
        raise RuntimeError(f"{what} fails this once")


def shard(letter: str, joined: str, key: str, name: str, out: ShardOut) -> str:
    _may_fail(key, name)
    made = shard_value(letter, joined)
    Path(out.file(f"shards/{name.rpartition('/')[2]}.txt")).write_text(made)
    return made


def _make(flavour: str, code: int, config: Any, out: Out) -> dict[str, int]:
    inputs = [Path(source, "text.txt").read_text() for source in config.sources]
    if flavour == "milestones":
        Path(out.file(f"{MILESTONE}/text.txt")).write_text(milestone_value(config.text, inputs))
        out.publish(MILESTONE)
    if flavour == "shards":
        joined = ",".join(inputs)
        items = {f"s{n}": (letter, joined, config.key, f"{config.step}/s{n}") for n, letter in enumerate(config.text)}
        made = "".join(out.map_shards(lambda item, shard_out: shard(*item, shard_out), items).values()) + "'" * code
    else:
        made = value(flavour, code, config.text, inputs)
    _may_fail(config.key, config.step)
    if flavour == "loose":
        Path(out.file("nonce.txt")).write_text(secrets.token_hex(8))
    Path(out.file("text.txt")).write_text(made)
    return {"letters": len(made)}


def concat_0(config: Any, out: Out) -> dict[str, int]:
    return _make("concat", 0, config, out)


def concat_1(config: Any, out: Out) -> dict[str, int]:
    return _make("concat", 1, config, out)


def lossy_0(config: Any, out: Out) -> dict[str, int]:
    return _make("lossy", 0, config, out)


def lossy_1(config: Any, out: Out) -> dict[str, int]:
    return _make("lossy", 1, config, out)


def milestones_0(config: Any, out: Out) -> dict[str, int]:
    return _make("milestones", 0, config, out)


def milestones_1(config: Any, out: Out) -> dict[str, int]:
    return _make("milestones", 1, config, out)


def shards_0(config: Any, out: Out) -> dict[str, int]:
    return _make("shards", 0, config, out)


def shards_1(config: Any, out: Out) -> dict[str, int]:
    return _make("shards", 1, config, out)


def loose_0(config: Any, out: Out) -> dict[str, int]:
    return _make("loose", 0, config, out)


def loose_1(config: Any, out: Out) -> dict[str, int]:
    return _make("loose", 1, config, out)


def digest_of_text(folder: str) -> str:
    return hashlib.sha256(Path(folder, "text.txt").read_bytes()).hexdigest()


@cache
def function(flavour: str, code: int, version: int | None, renamed: bool) -> Callable[..., Any]:
    """Returns the step function of a flavour as it stands in one version of an experiment's file."""
    body = globals()[f"{flavour}_{code}"]
    copied = types.FunctionType(body.__code__, body.__globals__, body.__name__)
    first = f"model/{flavour}"
    digest = digest_of_text if flavour == "loose" else None
    copied.__marin_kind__ = Kind(  # type: ignore[attr-defined]
        f"{first}-renamed" if renamed else first, version, copied, digest, renamed_from=first if renamed else ""
    )
    return copied


@cache
def code_of(source_digest: str) -> int:
    """Returns which code made a record, 0 or 1."""
    return next(
        code
        for flavour in FLAVOURS
        for code in (0, 1)
        if source_of(function(flavour, code, 1, False)).digest == source_digest
    )


@dataclass(frozen=True, kw_only=True)
class Node:
    """One step, as the experiment's file has it."""

    name: str
    flavour: str
    text: str
    note: str = ""
    inputs: tuple[tuple[int, bool], ...] = ()
    """Number of the node, and whether only its milestone is read."""
    after: tuple[int, ...] = ()
    version: int | None = 1
    code: int = 0
    renamed_kind: bool = False
    renamed_field: bool = False
    pinned: str = ""
    alias: bool = False
    """Whether the experiment gives the same work a second name."""


def build(nodes: Sequence[Node], key: str) -> list[Step]:
    """Returns the steps, one a node, and then the second names."""
    steps: list[Step] = []
    aliases: list[Step] = []
    for node in nodes:
        sources = tuple(steps[i].milestone(MILESTONE) if early else steps[i] for i, early in node.inputs)
        note: dict[str, Any] = {"remark" if node.renamed_field else "note": node.note}
        config = RenamedConfig if node.renamed_field else Config
        step = Step(
            node.name,
            function(node.flavour, node.code, node.version, node.renamed_kind),
            config(key=key, step=node.name, text=node.text, sources=sources, **note),
            after=tuple(steps[i] for i in node.after),
        )
        if node.alias:
            aliases.append(Step(f"{node.name}-too", step.fn, step.config, after=step.after))
        steps.append(pin(step, node.pinned) if node.pinned else step)
    return [*steps, *aliases]
