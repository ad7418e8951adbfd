"""Reading identity trees: as flat dotted paths for people, and as the fields in which two of them differ."""

import datetime
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from marin_exec.encoding import canonical_bytes

_CUT = 80
_BRACKETS = {"list": "[]", "tuple": "()", "set": "{}", "dict": "{}"}


@dataclass(frozen=True)
class Difference:
    """One place where two identities differ."""

    path: str
    """Dotted path, e.g. "config.bands", "config.sources[0].name", "kind.version", "source"."""
    old: str | None
    """Short readable value; None where there was none."""
    new: str | None
    """Short readable value; None where there is none."""


def flatten(tree: dict[str, Any]) -> dict[str, str]:
    """Returns an identity tree as dotted path -> short readable value, in path order.

    Strings are quoted, so that "1" and 1 look different; a dependency reads "step <digest16>/sub/path".
    """
    flat = dict(_leaves(tree["config"], "config"))
    flat["kind.name"] = tree["kind"]
    flat["kind.version"] = str(tree["version"])
    if tree["source"] is not None:
        flat["source"] = tree["source"][:16]
    return flat


def differences(old_tree: dict[str, Any], new_tree: dict[str, Any]) -> list[Difference]:
    """Returns every place where two identity trees differ, in path order; none if and only if they are equal."""
    found = list(_compare(old_tree["config"], new_tree["config"], "config"))
    for key, path in (("kind", "kind.name"), ("version", "kind.version"), ("source", "source"), ("format", "format")):
        old, new = old_tree[key], new_tree[key]
        if old != new:
            found.append(Difference(path, *(None if each is None else str(each)[:16] for each in (old, new))))
    return found


def _children(node: list[Any]) -> list[tuple[str, list[Any]]] | None:
    """The parts of a container as (suffix of the path, node); None for everything that is compared whole."""
    tag = node[0]
    if tag in ("data", "named_tuple"):
        return [(f".{name}", each) for name, each in node[2]]
    if tag in ("list", "tuple"):
        return [(f"[{n}]", each) for n, each in enumerate(node[1])]
    if tag == "dict":
        return [(_key_suffix(key), each) for key, each in node[1]]
    return None


def _key_suffix(key: list[Any]) -> str:
    if key[0] == "str" and key[1].isidentifier():
        return f".{key[1]}"
    return f"[{readable(key)}]"


def _leaves(node: list[Any], path: str) -> Iterator[tuple[str, str]]:
    children = _children(node)
    if not children:
        yield path, readable(node)
        return
    for suffix, child in children:
        yield from _leaves(child, path + suffix)


def _compare(old: list[Any], new: list[Any], path: str) -> Iterator[Difference]:
    if old == new:
        return
    old_children, new_children = _children(old), _children(new)
    same_kind = old[0] == new[0] and old_children is not None and new_children is not None
    if not same_kind:
        yield Difference(path, *_told_apart(old, new))
        return
    if old[0] in ("data", "named_tuple") and old[1] != new[1]:
        yield Difference(f"{path} (class)", old[1], new[1])
    before, after = dict(old_children or ()), dict(new_children or ())
    for suffix in sorted({**before, **after}, key=_natural) if old[0] not in ("list", "tuple") else {**before, **after}:
        if suffix not in before:
            yield Difference(path + suffix, None, readable(after[suffix]))
        elif suffix not in after:
            yield Difference(path + suffix, readable(before[suffix]), None)
        else:
            yield from _compare(before[suffix], after[suffix], path + suffix)


def _natural(suffix: str) -> tuple[int, str]:
    return len(suffix) if suffix.strip("[]-").isdigit() else 0, suffix


def texts(config: list[Any]) -> Iterator[tuple[str, str]]:
    """Yields what stands in a config's tree as text: dotted path and the whole of it, keys and members of sets included."""

    def walk(node: Any, path: str) -> Iterator[tuple[str, str]]:
        if isinstance(node, str):
            yield path, node
            return
        children = _children(node) if isinstance(node, list) and node and isinstance(node[0], str) else None
        if children is not None:
            for suffix, child in children:
                yield from walk(child, path + suffix)
        if children is None or node[0] == "dict":
            for part in node if isinstance(node, list) else ():
                yield from walk(part, path)

    return walk(config, "config")


def _told_apart(old: list[Any], new: list[Any]) -> tuple[str, str]:
    """Short values of two different nodes, with more said where the short forms alone look the same."""
    left, right = readable(old), readable(new)
    if left != right:
        return left, right
    if old[0] != new[0]:
        return f"{left} ({old[0]})", f"{right} ({new[0]})"
    whole_left, whole_right = readable(old, cut=None), readable(new, cut=None)
    at = next((n for n, (a, b) in enumerate(zip(whole_left, whole_right, strict=False)) if a != b), _CUT)
    start = max(0, at - 20)
    return f"…{whole_left[start : start + _CUT]}", f"…{whole_right[start : start + _CUT]}"


def readable(node: list[Any], cut: int | None = _CUT) -> str:
    """Returns one node as a person would write it, cut to a length that fits a line."""
    text = _text(node)
    return text if cut is None or len(text) <= cut else text[: cut - 1] + "…"


def _text(node: list[Any]) -> str:
    tag = node[0]
    if tag == "step":
        milestone = " (milestone)" if node[3] is not None else ""
        return f"step {node[1][:16]}" + (f"/{node[2]}" if node[2] else "") + milestone
    if tag == "none":
        return "None"
    if tag == "bool":
        return node[1].capitalize()
    if tag == "float":
        return repr(float.fromhex(node[1]))
    if tag == "str":
        return repr(node[1])
    if tag == "enum":
        return f"{node[1]}.{node[2]}"
    if tag == "timedelta":
        return str(datetime.timedelta(microseconds=int(node[1][:-2])))
    if tag in ("data", "named_tuple"):
        return f"{node[1]}({', '.join(f'{name}={_text(each)}' for name, each in node[2])})"
    if tag == "dict":
        return "{" + ", ".join(f"{_text(key)}: {_text(each)}" for key, each in node[1]) + "}"
    if tag in _BRACKETS:
        opening, closing = _BRACKETS[tag]
        trailing = "," if tag == "tuple" and len(node[1]) == 1 else ""
        return opening + ", ".join(map(_text, node[1])) + trailing + closing
    if tag in ("int", "path", "date", "dtype"):
        return node[1]
    return f"{tag}({', '.join(str(part) for part in node[1:] if part != '')})"


def dependency_references(tree: dict[str, Any]) -> dict[str, str]:
    """Returns the whole digest of each step that a config refers to, by the dotted path of the field."""

    def walk(node: list[Any], path: str) -> Iterator[tuple[str, str]]:
        if node[0] == "step":
            yield path, node[1]
        members = ((f"{{{n}}}", each) for n, each in enumerate(node[1])) if node[0] == "set" else ()
        for suffix, child in _children(node) or members:
            yield from walk(child, path + suffix)

    return dict(walk(tree["config"], "config"))


def with_content(node: list[Any], held: Mapping[tuple[str, str | None], str]) -> list[Any]:
    """Returns a node with each dependency replaced by what it holds, so that it does not matter how that was made.

    Args:
        node: an encoded config.
        held: output digests by (digest, milestone) of the dependencies; all of them.
    """
    tag = node[0]
    if tag == "step":
        return ["content", held[node[1], node[3]], node[2], node[3]]
    if tag in ("data", "named_tuple"):
        return [tag, node[1], [[name, with_content(each, held)] for name, each in node[2]]]
    if tag in ("list", "tuple"):
        return [tag, [with_content(each, held) for each in node[1]]]
    if tag == "dict":
        return [tag, [[key, with_content(each, held)] for key, each in node[1]]]
    if tag == "set":
        return [tag, sorted((with_content(each, held) for each in node[1]), key=canonical_bytes)]
    return node
