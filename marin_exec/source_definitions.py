"""One walk over the syntax tree of a definition: its digest, and the names and imports that it uses.

The digest is over the tree without comments, doc strings, field docs and formatting, and is the same on every Python.
"""

import ast
import functools
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

IMPORTS = (ast.Import, ast.ImportFrom)
Absolute = Callable[[ast.ImportFrom], str]
"""Gives the absolute module that a `from` import of the file names."""


@dataclass(frozen=True)
class Import:
    """What an import statement binds a name to."""

    module: str
    """Absolute dotted module."""
    attribute: str | None
    """The name taken from it; None where the module itself is bound."""


@dataclass(frozen=True)
class Definition:
    """The source of one top-level name."""

    digest: str
    """SHA-256, 64 hex digits."""
    uses: frozenset[tuple[str, ...]]
    """Dotted names in it, e.g. ("read_table",) or ("documents", "read_table"), without what is local to a function."""
    imports: dict[str, tuple[Import, ...]]
    """Imports inside it, by the name they bind."""


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_empty_constant(node: ast.AST) -> bool:
    """In f-strings: Python 3.12 puts an empty text after a nested format spec, others do not."""
    return isinstance(node, ast.Constant) and node.value == ""


def bind_import(absolute: Absolute, node: ast.AST, imports: dict[str, list[Import]], stars: list[str]) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.split(".")[0]
            imports.setdefault(alias.asname or whole, []).append(Import(whole, None))
            if whole != alias.name:  # `import a.b` binds a, and loads a.b
                imports[whole].append(Import(alias.name, None))
    elif isinstance(node, ast.ImportFrom):
        source = absolute(node)
        for alias in node.names:
            if alias.name == "*":
                stars.append(source)
            else:
                imports.setdefault(alias.asname or alias.name, []).append(Import(source, alias.name))


def define(absolute: Absolute, nodes: Sequence[ast.AST], *, without_decorators: bool = False) -> Definition:
    """Returns the definition that these nodes make; the outermost decorators can be left out."""
    reader = _Reader(absolute)
    for node in nodes:
        reader.read(node, frozenset(), "decorator_list" if without_decorators else None)
    digest = hashlib.sha256("".join(reader.parts).encode("utf-8", "surrogatepass")).hexdigest()
    imports = {name: tuple(bound) for name, bound in reader.imports.items()}
    return Definition(digest, frozenset(reader.uses), imports)


_IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_ignores"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@functools.cache
def _fields_of(cls: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in cls._fields if name not in _IGNORED_FIELDS)


class _Reader:
    """Walks a definition once: writes its text for the digest, and notes the names and imports in it."""

    def __init__(self, absolute: Absolute):
        self.absolute = absolute
        self.parts: list[str] = []
        self.uses: set[tuple[str, ...]] = set()
        self.imports: dict[str, list[Import]] = {}

    def read(self, node: ast.AST, hidden: frozenset[str] | None, skipped_field: str | None = None) -> None:
        """Reads a node. Its text is the same on every Python: absent and empty fields are left out.

        Args:
            node: any syntax tree.
            hidden: names that are local here, and so mean nothing of the module; None where names are noted already.
            skipped_field: a field of this node to leave out.
        """
        cls = type(node)
        inside = hidden
        if hidden is not None:
            hidden, inside = self._note(node, cls, hidden)
        self.parts.append(f"({cls.__name__}")
        for name in _fields_of(cls):
            value = getattr(node, name, None)
            if (
                name == skipped_field
                or value == []
                or (value is None and not (name == "value" and cls is ast.Constant))
            ):
                continue
            self.parts.append(f" {name}=")
            names = inside if name == "body" else hidden
            if isinstance(value, list):
                self._read_list(value, names, cls)
            elif isinstance(value, ast.AST):
                self.read(value, names)
            else:
                self.parts.append(f"{type(value).__name__}:{value!r}")
        self.parts.append(")")

    def _read_list(self, values: list[Any], hidden: frozenset[str] | None, parent: type[ast.AST]) -> None:
        self.parts.append("[")
        for each in values:
            if not isinstance(each, ast.AST):
                self.parts.append(f"{each!r},")  # names (`global a`), or None for a default that is not there
            elif not is_text(each) and not (parent is ast.JoinedStr and _is_empty_constant(each)):
                self.read(each, hidden)
        self.parts.append("]")

    def _note(
        self, node: ast.AST, cls: type, hidden: frozenset[str]
    ) -> tuple[frozenset[str] | None, frozenset[str] | None]:
        """Notes what a node uses; returns the names hidden in its fields, and those hidden in its body."""
        if cls is ast.Name or cls is ast.Attribute:
            dotted = _dotted(node)
            if dotted is None:
                return hidden, hidden
            given_a_value = isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
            if dotted[0] not in hidden and not given_a_value:
                self.uses.add(dotted)
            return None, None
        if cls in IMPORTS:
            bind_import(self.absolute, node, self.imports, [])
        elif cls in _FUNCTIONS:  # defaults, decorators and annotations are read outside the function: not hidden there
            local, module_names = _local_names(node)
            return hidden, (hidden | local) - module_names
        return hidden, hidden


def _local_names(function: Any) -> tuple[set[str], set[str]]:
    """Returns the parameters and variables of a function, and the names that it declares global."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    local = {each.arg for each in every if each is not None}
    module_names: set[str] = set()
    stack: list[ast.AST] = list(function.body) if isinstance(function.body, list) else []
    while stack:
        each = stack.pop()
        if isinstance(each, ast.Name):
            if isinstance(each.ctx, ast.Store):
                local.add(each.id)
        elif isinstance(each, ast.Global):
            module_names.update(each.names)
        elif not isinstance(each, (*_SCOPES, ast.expr_context, ast.Constant)):
            stack.extend(ast.iter_child_nodes(each))
    return local, module_names


def _dotted(node: ast.AST) -> tuple[str, ...] | None:
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        return (node.id, *reversed(names))
    return None
