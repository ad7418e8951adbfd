"""Python modules read as text: what each top-level name is made of, and which names that uses. Nothing is imported.

A `Definition` is all top-level statements that make one name (a function, a class, a constant and what fills it). Its
digest is over the syntax tree without comments, doc strings, field docs and formatting. A file is parsed once.
"""

import ast
import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from marin_exec.errors import ConfigError
from marin_exec.source_definitions import IMPORTS, Definition, Import, bind_import, define, is_text

BODY = "<body>"
"""The name of a module's statements that run on import and make no name, such as a call that sets an option."""


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
            self._definitions[name] = define(self.absolute, self.nodes[name])
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
        if _is_main_guard(statement) or is_text(statement):
            continue
        if isinstance(statement, IMPORTS):
            bind_import(module.absolute, statement, imports, stars)
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


def _only_imports(node: ast.stmt) -> bool:
    simple = [each for each in ast.walk(node) if isinstance(each, ast.stmt) and not isinstance(each, (ast.If, ast.Try))]
    return isinstance(node, (ast.If, ast.Try)) and all(isinstance(each, (*IMPORTS, ast.Pass)) for each in simple)


def _binds(node: ast.stmt, name: str) -> bool:
    return getattr(node, "name", None) == name or any(
        isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(node)
    )


def _is_main_guard(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and any(
        isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test)
    )


def _bound_names(
    node: ast.stmt, module: ModuleSource, imports: dict[str, list[Import]], stars: list[str]
) -> Iterator[str]:
    """The top-level names that a statement makes or fills; imports inside `if` and `try` are noted on the way."""
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        yield node.name
        return
    for each in _walk_outside_functions(node):
        if isinstance(each, IMPORTS):
            bind_import(module.absolute, each, imports, stars)
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
