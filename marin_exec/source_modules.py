"""Python modules read as text: what each top-level name is made of, and which names that uses. Nothing is imported.

A `Definition` is all top-level statements that make one name (a function, a class, a constant and what fills it). Its
digest is over the syntax tree without comments, doc strings, field docs and formatting. A file is parsed once.
"""

import ast
import functools
import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marin_exec.errors import ConfigError

BODY = "<body>"
"""The name of a module's statements that run on import and make no name, such as a call that sets an option."""

_IMPORTS = (ast.Import, ast.ImportFrom)


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


@dataclass
class ModuleSource:
    """One parsed file."""

    path: str
    name: str
    """Dotted, from the packages that the file lies in; a script goes by its file's stem."""
    root: str
    """The directory that holds the outermost package, or the script: where its own imports are looked for first."""
    nodes: dict[str, list[ast.stmt]] = field(default_factory=dict)
    imports: dict[str, tuple[Import, ...]] = field(default_factory=dict)
    stars: tuple[str, ...] = ()
    """Modules whose names were all imported."""
    tree: ast.Module = field(default_factory=lambda: ast.Module([], []))
    _definitions: dict[str, Definition] = field(default_factory=dict)

    def definition(self, name: str) -> Definition:
        if name not in self._definitions:
            self._definitions[name] = define(self, self.nodes[name])
        return self._definitions[name]

    def absolute(self, node: ast.ImportFrom) -> str:
        """Returns the absolute module that a `from` import names."""
        if not node.level:
            return node.module or ""
        package = self.name.split(".")
        if Path(self.path).name != "__init__.py":
            package = package[:-1]
        package = package[: len(package) - (node.level - 1)]
        return ".".join([*package, *([node.module] if node.module else [])])


def module_source(path: str) -> ModuleSource:
    """Returns the parsed file, from memory while its time and size are as they were.

    Raises:
        ConfigError: the file cannot be read or is not valid Python.
    """
    try:
        status = os.stat(path)
        return _parse(path, status.st_mtime_ns, status.st_size)
    except (OSError, SyntaxError, ValueError) as error:
        raise ConfigError(
            f"source file {path} cannot be read: {error}; it is needed to tell which code a step runs"
        ) from error


@functools.lru_cache(maxsize=4096)
def _parse(path: str, mtime_ns: int, size: int) -> ModuleSource:
    return parse_text(Path(path).read_bytes(), path, *module_name(path))


def module_name(path: str) -> tuple[str, str]:
    """Returns (dotted name, root directory) of a file, from its packages: the same for a script and its import."""
    file = Path(path)
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        parts.insert(0, folder.name)
        folder = folder.parent
    return ".".join(parts), str(folder)


def parse_text(text: str | bytes, path: str, name: str, root: str) -> ModuleSource:
    """Returns a module parsed from its text."""
    module = ModuleSource(path, name, root)
    imports: dict[str, list[Import]] = {}
    stars: list[str] = []
    tree = ast.parse(text, filename=path)
    for statement in tree.body:
        if _is_main_guard(statement) or _is_text(statement):
            continue
        if isinstance(statement, _IMPORTS):
            _bind_import(module, statement, imports, stars)
            continue
        names = set(_bound_names(statement, module, imports, stars))
        if not names and _only_imports(statement):
            continue
        # A call or an assignment on something imported (`jax.config.update(...)`) makes no name of this module.
        for each in {BODY if name in imports and not _binds(statement, name) else name for name in names} or {BODY}:
            module.nodes.setdefault(each, []).append(statement)
    module.imports = {each: tuple(dict.fromkeys(bound)) for each, bound in imports.items()}
    module.stars = tuple(stars)
    module.tree = tree
    return module


def function_nodes(module: ModuleSource, name: str) -> dict[int, ast.AST]:
    """Returns the functions of that code name (or "<lambda>") anywhere in the file, by first line (a decorator's, if any).

    Raises:
        ConfigError: two lambdas start in one line, so that a code object does not tell which of them it is.
    """
    found: dict[int, ast.AST] = {}
    looked_into = ast.AST if name == "<lambda>" else (ast.stmt, ast.excepthandler, ast.match_case)
    stack: list[ast.AST] = [module.tree]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name == name:
            found[min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])] = node
        elif isinstance(node, ast.Lambda):
            if node.lineno in found:
                raise ConfigError(f"{module.path}:{node.lineno}: two lambdas in one line cannot be told apart; use def")
            found[node.lineno] = node
        stack.extend(child for child in ast.iter_child_nodes(node) if isinstance(child, looked_into))
    return found


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _is_empty_constant(node: ast.AST) -> bool:
    """In f-strings: Python 3.12 puts an empty text after a nested format spec, others do not."""
    return isinstance(node, ast.Constant) and node.value == ""


def _only_imports(node: ast.stmt) -> bool:
    simple = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and not isinstance(each, (ast.If, ast.Try))]
    return isinstance(node, (ast.If, ast.Try)) and all(isinstance(each, (*_IMPORTS, ast.Pass)) for each in simple)


def _binds(node: ast.stmt, name: str) -> bool:
    return getattr(node, "name", None) == name or any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(node)
    )


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test)
    )


def _bind_import(module: ModuleSource, node: ast.AST, imports: dict[str, list[Import]], stars: list[str]) -> None:
    if isinstance(node, ast.Import):
        for alias in node.names:
            whole = alias.name if alias.asname else alias.name.split(".")[0]
            imports.setdefault(alias.asname or whole, []).append(Import(whole, None))
            if whole != alias.name:  # `import a.b` binds a, and loads a.b
                imports[whole].append(Import(alias.name, None))
    elif isinstance(node, ast.ImportFrom):
        source = module.absolute(node)
        for alias in node.names:
            if alias.name == "*":
                stars.append(source)
            else:
                imports.setdefault(alias.asname or alias.name, []).append(Import(source, alias.name))


def _bound_names(
    node: ast.stmt, module: ModuleSource, imports: dict[str, list[Import]], stars: list[str]
) -> Iterator[str]:
    """The top-level names that a statement makes or fills; imports inside `if` and `try` are noted on the way."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    for each in _walk_outside_functions(node):
        if isinstance(each, _IMPORTS):
            _bind_import(module, each, imports, stars)
        elif isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield each.name
        elif isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            yield each.id
        elif isinstance(each, (ast.Attribute, ast.Subscript)) and isinstance(each.ctx, ast.Store):
            yield from _root(each)  # TABLE["a"] = 1 fills TABLE
        elif isinstance(each, ast.Expr) and isinstance(each.value, ast.Call):
            yield from _root(each.value.func)  # NAMES.append("a") fills NAMES


def _root(node: ast.AST) -> Iterator[str]:
    inner = node
    while isinstance(inner, (ast.Attribute, ast.Subscript)):
        inner = inner.value
    if isinstance(inner, ast.Name) and inner is not node:
        yield inner.id


def _walk_outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    stack = [node]
    while stack:
        each = stack.pop()
        yield each
        if not isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            stack.extend(ast.iter_child_nodes(each))


def define(module: ModuleSource, nodes: Sequence[ast.AST], *, without_decorators: bool = False) -> Definition:
    """Returns the definition that these nodes make; the outermost decorators can be left out."""
    reader = _Reader(module)
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

    def __init__(self, module: ModuleSource):
        self.module = module
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
            elif not _is_text(each) and not (parent is ast.JoinedStr and _is_empty_constant(each)):
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
        if cls in _IMPORTS:
            _bind_import(self.module, node, self.imports, [])
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
