"""What a step is, apart from where and when it runs: its digest, and the tree that the digest is taken of.

The tree holds the kind, its version (or, without one, the digest of its source) and the coerced identity fields of the
config; a dependency stands in it by its own digest (Merkle), so it stays as small as the config itself. A step's name,
`after`, `see`, resources and retry are not in it, nor is anything of the machine, the store or the clock.

Cost: linear in steps and edges, each step encoded once.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marin_exec.coercion import coerce
from marin_exec.config_values import annotations_of, is_named_tuple, rebuilt, short
from marin_exec.encoding import canonical_bytes, digest_of_bytes, encode, key_order
from marin_exec.errors import ConfigError, InternalError
from marin_exec.secrets import secret_in, secret_variables
from marin_exec.source import source_of
from marin_exec.step import Step, StepPath
from marin_exec.trees import Difference, dependency_references, differences, flatten, texts

__all__ = [
    "FORMAT",
    "Difference",
    "Identity",
    "dependency_references",
    "differences",
    "flatten",
    "identify",
    "resolve_config",
]

FORMAT = "marin-step/1"
"""The format of the tree and its encoding. Raising it gives every step another digest."""


@dataclass(frozen=True)
class Identity:
    """The identity of one step."""

    digest: str
    """SHA-256 of the tree, 64 hex digits."""
    tree: dict[str, Any]
    """Plain JSON: format, kind, version, source, config. What the digest is taken of, exactly."""


def identify(steps: Sequence[Step], pinned: Mapping[int, Identity] | None = None) -> dict[int, Identity]:
    """Returns the identity of each step, keyed by `id(step)`.

    Args:
        steps: in topological order, as `marin_exec.step.topological` returns them. Two step objects that are equal in
            name and digest are one step, and no error.
        pinned: the identities of the steps that are pinned, by `id(step)`; only a store knows them.

    Raises:
        ConfigError: a config value has no encoding or the wrong type, or one name has two identities; the message names
            the step and the dotted path of the field.
    """
    found: dict[int, Identity] = {}
    by_name: dict[str, Identity] = {}
    variables = secret_variables()
    for step in steps:
        identity = _pinned(step, pinned or {}) if step.pinned else _identity(step, found, variables)
        found[id(step)] = identity
        earlier = by_name.setdefault(step.name, identity)
        if earlier.digest != identity.digest:
            first = differences(earlier.tree, identity.tree)[0]
            raise ConfigError(
                f"step {step.name}: two steps of this name differ, first in {first.path} ({first.old}, {first.new}); "
                "give one of them another name"
            )
    return found


def _pinned(step: Step, pinned: Mapping[int, Identity]) -> Identity:
    if id(step) not in pinned:
        raise InternalError(f"step {step.name}: is pinned to {step.pinned}, which nobody looked up in a store")
    return pinned[id(step)]


def _identity(step: Step, found: dict[int, Identity], variables: Sequence[tuple[str, str]]) -> Identity:
    where = f"step {step.name}"
    kind = step.kind
    if not isinstance(kind.fn, types.FunctionType):
        raise ConfigError(
            f"{where}: fn is {short(kind.fn)} ({type(kind.fn).__name__}); a plain function fn(config, out) is needed, "
            "and what it is given besides goes in the config"
        )
    source = None
    if kind.version is None:
        try:
            source = source_of(kind.fn).digest
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from error

    def dependency(value: Any, field: str) -> list[Any] | None:
        if not isinstance(value, (Step, StepPath)):
            return None
        path = StepPath(value, "") if isinstance(value, Step) else value
        if id(path.step) not in found:
            raise InternalError(f"{field}: {path.step!r} is identified after a step that needs it")
        return ["step", found[id(path.step)].digest, path.sub_path, path.milestone]

    config = _coerced(step.config, where)
    tree = {
        "format": FORMAT,
        "kind": kind.digested_name,
        "version": kind.version,
        "source": source,
        "config": encode(config, f"{where}: config", dependency),
    }
    data = canonical_bytes(tree)
    if secret_in(data.decode("ascii"), variables) is not None:
        _refuse_secrets(where, tree["config"], variables)
    return Identity(digest_of_bytes(data, FORMAT), tree)


def _refuse_secrets(where: str, config: Any, variables: Sequence[tuple[str, str]]) -> None:
    """A config is kept in records as it is, so a secret must not be in it."""
    for field, text in texts(config):
        found = secret_in(text, variables)
        if found is not None:
            raise ConfigError(
                f"{where}: {field} holds {found}; a config is kept in records that everybody with the store can read. Give the "
                f"name of an environment variable instead, in a field declared `runtime`, and read it in the step"
            )


def _coerced(config: Any, where: str) -> Any:
    if config is None:
        return None
    if isinstance(config, type) or not hasattr(config, "__dataclass_fields__"):
        raise ConfigError(f"{where}: config is {short(config)}; an instance of a frozen dataclass, or None, is needed")
    return coerce(config, Any, f"{where}: config")


def resolve_config(config: Any, path_of: Callable[[StepPath], str]) -> Any:
    """Returns the config as the step function gets it: coerced, with a path in place of each dependency.

    Dicts come back in canonical key order, because configs that differ in insertion order alone have one identity.

    Args:
        config: the step's config.
        path_of: given a dependency, its path; a whole step comes as a `StepPath` with sub-path "".
    """
    return _resolved(coerce(config, Any, "config"), path_of)


def _resolved(value: Any, path_of: Callable[[StepPath], str]) -> Any:
    if isinstance(value, Step):
        return path_of(StepPath(value, ""))
    if isinstance(value, StepPath):
        return path_of(value)
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        fields = {name: getattr(value, name) for name in annotations_of(type(value))}
        new = {name: _resolved(each, path_of) for name, each in fields.items()}
        return rebuilt(value, {name: each for name, each in new.items() if each is not fields[name]})
    if is_named_tuple(value):
        return type(value)(*(_resolved(each, path_of) for each in value))
    if type(value) in (list, tuple, set, frozenset):
        new = type(value)(_resolved(each, path_of) for each in value)
        return (
            new
            if type(value) in (set, frozenset) or any(a is not b for a, b in zip(new, value, strict=True))
            else value
        )
    if type(value) is dict:
        keys = sorted(value, key=lambda key: key_order(encode(key, "config key")))
        return {key: _resolved(value[key], path_of) for key in keys}
    return value
