"""Which code counts as a step's source, through every way that Python has to refer to it."""

import functools
import importlib.util
import itertools
import linecache
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from marin_exec.errors import ConfigError
from marin_exec.source import SourceInfo, changed_functions, source_of

_ROOT = Path(__file__).parents[2]
_serial = itertools.count()


class Project:
    """A folder of Python files with one step function `step` in one of them."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch):
        self.root = root
        self.package = f"project_{next(_serial)}"
        monkeypatch.syspath_prepend(str(root))
        self.write("__init__.py", "")

    def write(self, name: str, text: str) -> Path:
        path = self.root / self.package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).replace("PKG", self.package), encoding="utf-8")
        stamp = 1_700_000_000 + next(_serial)  # each version of a file has a time of its own, without waiting for it
        os.utime(path, (stamp, stamp))
        return path

    def load(self, name: str = "main.py") -> ModuleType:
        """Loads one file as if it were the only one that was imported; what it imports inside functions stays unloaded."""
        dotted = f"{self.package}.{name.removesuffix('.py').replace('/', '.')}"
        for known in [each for each in sys.modules if each.split(".")[0] == self.package]:
            del sys.modules[known]
        importlib.invalidate_caches()
        return importlib.import_module(dotted)

    def source(self, name: str = "main.py", **options: Any) -> SourceInfo:
        info = source_of(self.load(name).step, **options)
        return SourceInfo(
            info.digest, {key.removeprefix(self.package + "."): value for key, value in info.functions.items()}
        )


@pytest.fixture
def project(tmp_path, monkeypatch):
    made = Project(tmp_path, monkeypatch)
    yield made
    for known in [each for each in sys.modules if each.split(".")[0] == made.package]:
        del sys.modules[known]


PLAIN = """
    LIMIT = 3

    def helper(x):
        return x + LIMIT

    def unrelated(x):
        return x

    def step(config, out):
        return helper(1)
"""


# --- what does not count ----------------------------------------------------------------------------------------------


def test_parts_are_named_by_module_and_function(project):
    project.write("main.py", PLAIN)
    info = project.source()
    assert list(info.functions) == ["main.LIMIT", "main.helper", "main.step"]
    assert len(info.digest) == 64
    assert all(len(each) == 16 for each in info.functions.values())


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.replace("return helper(1)", "# a comment\n        return helper(1)  # another"),
        PLAIN.replace("return helper(1)", '"""A doc string."""\n        return (helper(\n            1,\n        ))'),
        '"""A module doc string."""\nimport os\n' + textwrap.dedent(PLAIN),
        PLAIN.replace("return x\n", "return x * 2\n"),
        PLAIN.replace("    def unrelated(x):\n        return x\n", ""),
        PLAIN + "\n    if __name__ == '__main__':\n        print(step(1, 2))\n",
    ],
    ids=["comment", "formatting", "unused import", "unreached code", "unreached removed", "main guard"],
)
def test_edit_without_effect_on_the_step_changes_nothing(project, text):
    project.write("main.py", PLAIN)
    before = project.source()
    project.write("main.py", text)
    assert project.source() == before


def test_docs_below_fields_do_not_count_and_fields_do(project):
    text = """
        class Config:
            a: int = 1
            "the first"

        def step(config: Config, out):
            return 1
    """
    project.write("main.py", text)
    before = project.source()
    project.write("main.py", text.replace("the first", "described at length"))
    assert project.source() == before
    project.write("main.py", text.replace("= 1", "= 2"))
    assert changed_functions(before.functions, project.source().functions) == ["main.Config"]


def test_decorators_of_the_step_do_not_count_and_those_of_others_do(project):
    text = """
        import functools
        from marin_exec import kind

        @functools.lru_cache(maxsize=1)
        def helper(x):
            return x

        @kind("test-source/PKG", version=1)
        def step(config, out):
            return helper(1)
    """
    project.write("main.py", text)
    before = project.source()
    project.write("main.py", text.replace("version=1", "version=2, content_digest=None"))
    assert project.source() == before
    project.write("main.py", text.replace("maxsize=1", "maxsize=2"))
    assert changed_functions(before.functions, project.source().functions) == ["main.helper"]


# --- what counts, and under which name --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (("LIMIT = 3", "LIMIT = 4"), ["main.LIMIT"]),
        (("x + LIMIT", "x - LIMIT"), ["main.helper"]),
        (("helper(1)", "helper(2)"), ["main.step"]),
        (("helper(1)", "helper(1.0)"), ["main.step"]),
        (("helper(1)", "helper('1')"), ["main.step"]),
        (("helper(1)", "helper(1, '')"), ["main.step"]),
        (("helper(1)", "helper(1, None)"), ["main.step"]),
        (("return helper(1)", "return helper(1) or None"), ["main.step"]),
        (("helper(1)", "unrelated(1)"), ["main.LIMIT", "main.helper", "main.step", "main.unrelated"]),
        (("LIMIT = 3", "LIMIT = 3\n    LIMIT += 1"), ["main.LIMIT"]),
        (("helper(x):", "helper(x, *, y=None):"), ["main.helper"]),
    ],
)
def test_edit_of_reached_code_is_noticed_and_named(project, edit, changed):
    project.write("main.py", PLAIN)
    before = project.source()
    project.write("main.py", PLAIN.replace(*edit))
    after = project.source()
    assert after.digest != before.digest
    assert changed_functions(before.functions, after.functions) == changed


HELPERS = """
    def first(x):
        return second(x)

    def second(x):
        return x

    def third(x):
        return x
"""

_WAYS = {
    "from import": "from PKG.sub.helpers import first\ndef step(config, out):\n    return first(1)",
    "from import as": "from PKG.sub.helpers import first as f\ndef step(config, out):\n    return f(1)",
    "import": "import PKG.sub.helpers\ndef step(config, out):\n    return PKG.sub.helpers.first(1)",
    "import as": "import PKG.sub.helpers as h\ndef step(config, out):\n    return h.first(1)",
    "from package import module": "from PKG.sub import helpers\ndef step(config, out):\n    return helpers.first(1)",
    "relative": "from .sub.helpers import first\ndef step(config, out):\n    return first(1)",
    "relative module": "from .sub import helpers\ndef step(config, out):\n    return helpers.first(1)",
    "inside the function": "def step(config, out):\n    from PKG.sub.helpers import first\n    return first(1)",
    "module inside the function": "def step(config, out):\n    import PKG.sub.helpers as h\n    return h.first(1)",
    "star": "from PKG.sub.helpers import *\ndef step(config, out):\n    return first(1)",
    "in try": (
        "try:\n    from PKG.sub.helpers import first\nexcept ImportError:\n    first = None\n"
        "def step(config, out):\n    return first(1)"
    ),
    "re-exported": "from PKG.sub.facade import first\ndef step(config, out):\n    return first(1)",
    "as a value": "from PKG.sub.helpers import first\ndef step(config, out):\n    return list(map(first, [1]))",
    "in a table": (
        "from PKG.sub.helpers import first\nTABLE = {}\nTABLE['a'] = first\ndef step(config, out):\n    return TABLE['a'](1)"
    ),
    "in a class": (
        "from PKG.sub import helpers\nclass Work:\n    def go(self):\n        return helpers.first(1)\n"
        "def step(config, out):\n    return Work().go()"
    ),
    "as a default": "from PKG.sub.helpers import first\ndef step(config, out, f=first):\n    return f(1)",
    "in a nested function": (
        "from PKG.sub.helpers import first\ndef step(config, out):\n    def inner():\n        return first(1)\n    return inner()"
    ),
}


@pytest.mark.parametrize("way", _WAYS)
def test_code_of_another_module_is_reached(project, way):
    project.write("sub/__init__.py", "")
    project.write("sub/facade.py", "from PKG.sub.helpers import first\n")
    project.write("sub/helpers.py", HELPERS)
    project.write("main.py", _WAYS[way])
    before = project.source()
    assert {"sub.helpers.first", "sub.helpers.second"} <= before.functions.keys()
    assert "sub.helpers.third" not in before.functions
    project.write("sub/helpers.py", HELPERS.replace("return x\n\n    def third", "return x + 1\n\n    def third"))
    after = project.source()
    assert changed_functions(before.functions, after.functions) == ["sub.helpers.second"]
    assert after.digest != before.digest


@pytest.mark.parametrize(
    ("function", "reached"),
    [
        ("def step(first, out):\n    return first", False),
        ("def step(config, out):\n    first = 1\n    return first", False),
        ("def step(config, out):\n    for first in config:\n        return first", False),
        ("def step(config, out):\n    def inner(first):\n        return first\n    return inner", False),
        ("def step(config, out):\n    return lambda first: first", False),
        ("class Config:\n    first: int\ndef step(config: Config, out):\n    return config.first", False),
        ("def step(config, out, first=first):\n    return first", True),
        ("def step(config, out, *, first=first):\n    return first", True),
        ("def step(config, out):\n    def inner(first):\n        return first\n    return inner(first)", True),
        ("def step(config, out):\n    return (lambda first=first: first)()", True),
        ("def step(config, out):\n    [first for first in config]\n    return first(1)", True),
        ("def step(config, out):\n    def inner():\n        first = 1\n    return first(1)", True),
        (
            "def step(first, out):\n    def inner():\n        global first\n        return first(1)\n    return inner",
            True,
        ),
        ("class Work:\n    first = first\ndef step(config, out):\n    return Work", True),
    ],
)
def test_local_names_are_told_from_those_of_the_module(project, function, reached):
    project.write("helpers.py", HELPERS)
    project.write("main.py", f"from PKG.helpers import first\n{function}\n")
    assert ("helpers.first" in project.source().functions) == reached


def test_module_that_is_handed_on_counts_whole(project):
    project.write("helpers.py", HELPERS)
    project.write(
        "main.py", "from PKG import helpers\ndef step(config, out):\n    return getattr(helpers, config.name)"
    )
    assert {"helpers.first", "helpers.second", "helpers.third"} <= project.source().functions.keys()


def test_base_class_in_another_module_is_reached(project):
    project.write("base.py", "class Base:\n    size = 1\n")
    project.write(
        "main.py", "from .base import Base\nclass Work(Base):\n    pass\ndef step(config, out):\n    return Work()"
    )
    before = project.source()
    project.write("base.py", "class Base:\n    size = 2\n")
    assert changed_functions(before.functions, project.source().functions) == ["base.Base"]


def test_calls_on_import_of_a_reached_module_count(project):
    project.write("helpers.py", "import os\ndef first(x):\n    return x\n")
    project.write("main.py", "from .helpers import first\ndef step(config, out):\n    return first(1)")
    before = project.source()
    project.write("helpers.py", "import os\nos.environ.setdefault('A', 'b')\ndef first(x):\n    return x\n")
    assert changed_functions(before.functions, project.source().functions) == ["helpers.<body>"]


def test_mutual_recursion_ends(project):
    project.write("main.py", "def a(n):\n    return step(n, 0)\ndef step(config, out):\n    return a(config)")
    assert list(project.source().functions) == ["main.a", "main.step"]


def test_nothing_is_imported(project):
    project.write("sub/__init__.py", "raise RuntimeError('imported')")
    project.write("sub/helpers.py", "raise RuntimeError('imported')\ndef first(x):\n    return x\n")
    project.write("main.py", _WAYS["inside the function"])
    module = project.load()
    loaded = set(sys.modules)
    assert f"{project.package}.sub.helpers.first" in source_of(module.step).functions
    assert set(sys.modules) == loaded


def test_installed_code_the_standard_library_and_the_engine_are_left_out(project):
    project.write(
        "main.py",
        """
        import json
        import numpy as np
        from marin_exec import ConfigError
        from marin_exec.encoding import encode

        def step(config, out):
            return json.dumps(encode(np.zeros(1), "x")), ConfigError
        """,
    )
    assert list(project.source().functions) == ["main.step"]


def test_project_roots_limit_what_counts(project, tmp_path):
    project.write("sub/__init__.py", "")
    project.write("sub/helpers.py", HELPERS)
    project.write("main.py", _WAYS["from import"])
    whole, part = project.source(project_roots=[tmp_path]), project.source(project_roots=[tmp_path / "elsewhere"])
    assert "sub.helpers.first" in whole.functions
    assert list(part.functions) == ["main.step"]


# --- functions of other forms -----------------------------------------------------------------------------------------


def test_closure_counts_captured_values_and_functions(project):
    project.write(
        "main.py",
        """
        def first(x):
            return x

        def make(n, f):
            def step(config, out):
                return f(n)
            return step
        """,
    )
    module = project.load()
    one, two = source_of(module.make(1, module.first)), source_of(module.make(2, module.first))
    assert [name.removeprefix(project.package + ".main.") for name in one.functions] == [
        "first",
        "make.step",
        "make.step.n",
    ]
    assert changed_functions(one.functions, two.functions) == [f"{project.package}.main.make.step.n"]
    with pytest.raises(ConfigError, match=r"'make\.step\.n' from around it"):
        source_of(module.make(object(), module.first))


def test_wrapped_function_is_reached_through_its_wrapper(project):
    text = """
        import functools

        def logged(fn):
            @functools.wraps(fn)
            def wrapper(config, out):
                return fn(config, out)
            return wrapper

        @logged
        def step(config, out):
            return 1
    """
    project.write("main.py", text)
    before = project.source()
    assert list(before.functions) == ["main.logged.wrapper", "main.step"]
    project.write("main.py", text.replace("return 1", "return 2"))
    assert changed_functions(before.functions, project.source().functions) == ["main.step"]


def test_lambda_in_a_file_is_known_by_its_text(project):
    project.write("main.py", "LIMIT = 1\nstep = lambda config, out: LIMIT\n")
    before = project.source()
    assert list(before.functions) == ["main.<lambda>", "main.LIMIT"]
    project.write("main.py", "LIMIT = 1\nstep = lambda config, out: LIMIT + 1\n")
    assert changed_functions(before.functions, project.source().functions) == ["main.<lambda>"]


def test_two_lambdas_in_one_line_are_refused(project):
    project.write("main.py", "other, step = lambda config, out: 1, lambda config, out: 2\n")
    with pytest.raises(ConfigError, match=r"main\.py:1: two lambdas in one line"):
        project.source()


def test_function_typed_at_a_prompt_needs_a_file():
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile("def step(config, out):\n    return 1\n", "<stdin>", "exec"), scope)
    with pytest.raises(ConfigError, match=r"__main__\.step is not to be had .*put the step function in a Python file"):
        source_of(scope["step"])


def _in_a_notebook(cell: str, text: str) -> dict[str, Any]:
    """What a notebook does: the text of a cell is known to `linecache`, and is in no file."""
    linecache.cache[cell] = (len(text), None, text.splitlines(keepends=True), cell)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, cell, "exec"), scope)
    return scope


def test_notebook_functions_of_one_name_are_told_apart_by_what_they_use():
    text = "LIMIT = 1\ndef helper(x):\n    return x + LIMIT\ndef step(config, out):\n    return helper(1)\n"
    infos = [
        source_of(_in_a_notebook(f"<cell {n}>", each)["step"])
        for n, each in enumerate(
            [text, text + "# a comment\n", text.replace("LIMIT = 1", "LIMIT = 2"), text.replace("x +", "x -")]
        )
    ]
    assert [list(info.functions) for info in infos] == [["__main__.LIMIT", "__main__.helper", "__main__.step"]] * 4
    assert infos[0] == infos[1]
    assert len({info.digest for info in infos}) == 3
    assert changed_functions(infos[0].functions, infos[2].functions) == ["__main__.LIMIT"]


@pytest.mark.parametrize("fn", [len, functools.partial(print, 1), Project])
def test_what_is_no_function_is_refused(fn):
    with pytest.raises(ConfigError, match="a plain function in a file is needed"):
        source_of(fn)


def test_function_is_found_after_lines_moved_and_refused_when_it_left_its_file(project):
    project.write("main.py", PLAIN)
    step = project.load().step
    before = source_of(step)
    project.write("main.py", "import os\n\n\n" + textwrap.dedent(PLAIN))
    assert source_of(step) == before
    project.write("main.py", "x = 1\n")
    with pytest.raises(ConfigError, match=r"step is not in .*main\.py any more"):
        source_of(step)


# --- scripts ----------------------------------------------------------------------------------------------------------

_SCRIPT = """
    import sys
    from marin_exec.source import source_of
    from beside import helper

    def step(config, out):
        return helper(1)

    if __name__ == "__main__":
        info = source_of(step)
        print(info.digest, *info.functions)
"""


def _run_script(path: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(
        [sys.executable, path.name],
        cwd=path.parent,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def test_script_and_its_import_agree_and_two_scripts_do_not(tmp_path, monkeypatch):
    outputs = []
    for folder, limit in (("one", 1), ("two", 2)):
        path = tmp_path / folder / "exp.py"
        path.parent.mkdir()
        path.write_text(textwrap.dedent(_SCRIPT))
        (path.parent / "beside.py").write_text(f"def helper(x):\n    return {limit}\n")
        outputs.append(_run_script(path))
        specification = importlib.util.spec_from_file_location("loaded_by_path", path)
        module = importlib.util.module_from_spec(specification)
        monkeypatch.setitem(sys.modules, "loaded_by_path", module)
        monkeypatch.syspath_prepend(str(path.parent))
        sys.modules.pop("beside", None)
        specification.loader.exec_module(module)
        info = source_of(module.step)
        assert outputs[-1] == [info.digest, "beside.helper", "exp.step"]
    sys.modules.pop("beside", None)
    assert outputs[0][0] != outputs[1][0]


_EVERY_SYNTAX = """
import dataclasses as d

TABLE: dict[str, list[int]] = {"a": [1, *range(2)], **{"b": []}}

def deco(*names, flag=None):
    return lambda f: f

@deco("x", flag=True)
class Work:
    size = (1.5, -0.0, 1e300, 2j, b"x", u"y", None, ..., 10**20)

    async def go(self, a, /, b=1, *rest, c, d=None, **more):
        async with a as x, b:
            return [i async for i in x if i]

def step(config, out):
    global G
    G = f"{config!r:>{10}} {Work.size[0]:.2f} {'nested'}" "joined" rf"{out}\\d"
    match config:
        case {"k": [1, *others], **rest} | Work(size=rest, others=others) if others:
            return not rest
        case None | "x" | -1:
            pass
    try:
        del G
    except* (ValueError, TypeError) as group:
        raise RuntimeError from group
    while (n := len(TABLE)) < 3 <= n:
        yield (lambda *a, k=n: a[1:2, ::k])(*[n])
    return deco
"""


def test_source_digest_is_equal_on_other_pythons(tmp_path):
    file = tmp_path / "every_syntax.py"
    file.write_text(_EVERY_SYNTAX + "\nfrom marin_exec.source import source_of\nprint(source_of(step))\n")
    environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": str(tmp_path)}
    found = []
    for python in [sys.executable, *(Path.home().glob(".pyenv/versions/3.1[1-9].*/bin/python"))]:
        done = subprocess.run(
            [str(python), str(file)], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        found.append(done.stdout)
    assert "every_syntax.TABLE" in found[0]
    assert set(found) == {found[0]}


# --- cost -------------------------------------------------------------------------------------------------------------


def _step_functions() -> list[Callable[..., Any]]:
    """All kinds of the steps library whose modules import here; a broken one is another test's matter."""
    import pkgutil

    import steps

    found = []
    for each in pkgutil.walk_packages(steps.__path__, "steps."):
        text = Path(each.module_finder.path, each.name.rpartition(".")[2] + ".py")
        if not each.ispkg and text.is_file() and "\n@kind(" in text.read_text(encoding="utf-8"):
            found += [fn for fn in vars(importlib.import_module(each.name)).values() if hasattr(fn, "__marin_kind__")]
    return found


def test_whole_steps_library_is_read_quickly():
    program = (
        "import time, test_source\n"
        "fns = test_source._step_functions()\n"
        "from marin_exec.source import source_of\n"
        "started = time.process_time()\n"
        "for fn in fns: source_of(fn)\n"
        "print(len(fns), time.process_time() - started)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(_ROOT), str(Path(__file__).parent)])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    count, seconds = done.stdout.split()
    assert int(count) > 5
    assert float(seconds) < 0.1 * int(count)  # 0.02 s each seen; more where others use the cores


def test_source_of_a_function_seen_before_is_fast():
    from marin_exec.identity import identify

    source_of(identify)
    started = time.process_time()
    for _ in range(100):
        source_of(identify)
    assert time.process_time() - started < 0.5
