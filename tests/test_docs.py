"""The documentation is held to what the program does.

Pages hold generated parts: docs/cli.md, and every console block, whose commands are run for real on the files that the
page (or docs/writing-an-experiment.md) shows. `PYTHONPATH=. python tests/test_docs.py --write` writes them anew; the tests compare.
Fences: `console` is run and compared, `python` under `<!-- file: NAME -->` is put into the page's folder, `sh` is only
parsed where a line calls marin-exec.
"""

import ast
import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

import marin_exec
from marin_exec.cli import cli

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
CLI_PAGE = DOCS / "cli.md"
EXAMPLES_PAGE = DOCS / "writing-an-experiment.md"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
HOME = "/home/ada/words"

_FENCE = re.compile(r"^(?:<!-- file: (\S+) -->\n)?```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
_GENERATED = re.compile(r"(<!-- generated: [^\n]*-->\n).*", re.DOTALL)
# What differs between two runs of one command; each is shown as one fixed value. Digests do not differ, and are compared.
_VARYING = (
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\+00:00", "2026-12-01T08:07:01.083874+00:00"),
    (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "2026-12-01T08:07:01"),
    (r"last run \d{4}-\d\d-\d\d", "last run 2026-12-01"),
    (r"(?m)^\d\d:\d\d:\d\d ", "08:07:01 "),
    (r"\b\d{8}T\d{6}-[0-9a-f]{6,9}\b", "20261201T080701-9da6dc"),
    (r"/a(\d+)-[0-9a-f]{8}\b", r"/a\1-c18e4a3b"),
    (r"\bby \S+ on (?=20\d\d-)", "by ada on "),
    (r"\bof \S+ on \S+(?=: )", "of ada on vm"),
    (r"\bon \S+ \(pid \d+\)", "on vm (pid 4711)"),
    (r"commit [0-9a-f]{40}", "commit edc96610a80b7638e809ac4fef67640f44da9df1"),
    (r"\b\d+\.\d s\b", "0.1 s"),
    (r"finished in \d+ s", "finished in 0 s"),
    (r"(?m)^(  seconds  )[\d.e-]+$", r"\g<1>0.016008233999855292"),
    (r"attempts/(\d+)-\d+\.jsonl", r"attempts/\1-1.jsonl"),
)


def blocks(page: Path, language: str) -> list[tuple[str | None, str]]:
    """Returns (file name or None, text) of a page's fenced blocks of a language, in order."""
    return [(name, text) for name, found, text in _FENCE.findall(page.read_text()) if found == language]


def files_of(page: Path) -> dict[str, str]:
    return {name: text for name, text in blocks(page, "python") if name}


def prepare(folder: Path, page: Path) -> None:
    """Makes the folder in which a page's commands are run: its files and those of the examples' page, in a git checkout."""
    for name, text in {**files_of(EXAMPLES_PAGE), **files_of(page)}.items():
        (folder / name).write_text(text)
    (folder / ".gitignore").write_text("store/\n")
    git = ["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-C", str(folder)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Examples"]):
        subprocess.run([*git, *arguments], check=True)


def output_of(command: str, folder: Path) -> str:
    """Runs one line of a console block in a folder; returns what it prints, with what varies made fixed."""
    programs = str(Path(sys.executable).parent)
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MARIN_", "RAY_", "COLUMNS"))}
    environment |= {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    text = done.stdout.replace(str(folder), HOME).replace(f"{programs}/", "").replace(str(ROOT), "/home/ada/marin-exec")
    for pattern, fixed in _VARYING:
        text = re.sub(pattern, fixed, text)
    shown = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    return shown + (f"[exit {done.returncode}]\n" if done.returncode else "")


def transcript(block: str, folder: Path) -> str:
    """Returns a console block with the output of its commands as they are now."""
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{output_of(command[2:], folder)}" for command in commands)


def with_transcripts(page: Path) -> str:
    """Returns a page's text with every console block run anew, in one folder and in order."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        prepare(folder, page)

        def again(match: re.Match[str]) -> str:
            if match[2] != "console":
                return match[0]
            return f"```console\n{transcript(match[3], folder)}```"

        return _FENCE.sub(again, page.read_text())


def verbs() -> Iterator[tuple[str, click.Command]]:
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        assert command is not None
        yield name, command


def cli_reference() -> str:
    """Returns the generated part of docs/cli.md: the help text of the program and of every verb."""
    parts = [f"\n```text\n{_help(cli, 'marin-exec')}\n```\n"]
    parts += [f"\n## {name}\n\n```text\n{_help(command, f'marin-exec {name}')}\n```\n" for name, command in verbs()]
    return "".join(parts)


def _help(command: click.Command, name: str) -> str:
    # With the command's own settings: click keeps the help option that it first made, whoever asked for it.
    settings = {"terminal_width": 100, "max_content_width": 100, **command.context_settings}
    text = command.get_help(click.Context(command, info_name=name, **settings))
    return "\n".join(line.rstrip() for line in text.splitlines())


def console_pages() -> list[Path]:
    return [page for page in PAGES if blocks(page, "console")]


def write_generated() -> None:
    CLI_PAGE.write_text(_GENERATED.sub(lambda match: match[1] + cli_reference(), CLI_PAGE.read_text()))
    for page in console_pages():
        page.write_text(with_transcripts(page))


def relative(page: Path) -> str:
    return str(page.relative_to(ROOT))


@cache
def all_text() -> str:
    return "\n".join(page.read_text() for page in PAGES)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_links_resolve(page: Path) -> None:
    targets = [link.partition("#") for link in _LINK.findall(re.sub(r"`[^`\n]*`", "", page.read_text()))]
    for path, _, anchor in targets:
        if path.startswith(("http:", "https:")):
            continue
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{relative(page)} links to {path}, which is not there"
        if anchor:
            assert anchor in anchors(target), f"{relative(page)} links to {path}#{anchor}; no such heading"


def anchors(page: Path) -> set[str]:
    """Returns the anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_cli_page_is_current() -> None:
    generated = _GENERATED.search(CLI_PAGE.read_text())
    assert generated is not None
    assert generated[0] == generated[1] + cli_reference(), "run `PYTHONPATH=. python tests/test_docs.py --write`"


def test_cli_page_names_every_verb_and_option() -> None:
    page = CLI_PAGE.read_text()
    for name, command in verbs():
        for parameter in command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else ():
                assert option in page, f"option {option} of {name} is not in docs/cli.md"
        assert f"`marin-exec {name}`" in all_text() or f"marin-exec {name} " in all_text()


def test_exit_codes_are_those_of_the_program() -> None:
    module = importlib.import_module("marin_exec.cli")
    codes = {value for name, value in vars(module).items() if name.startswith("EXIT_")} | {0}
    for page in (CLI_PAGE, ROOT / "README.md"):
        table = {int(code) for code in re.findall(r"^\| (\d+) \|", page.read_text(), re.MULTILINE)}
        assert table == codes, f"{relative(page)} lists exit codes {sorted(table)}, the program has {sorted(codes)}"


@pytest.mark.parametrize("name", marin_exec.__all__)
def test_public_name_is_documented(name: str) -> None:
    pages = [page for page in PAGES if page.name != "CHANGELOG.md"]
    assert any(re.search(rf"`[^`\n]*\b{name}\b", page.read_text()) for page in pages), f"{name} is in no page"


def kinds() -> set[str]:
    sources = [path.read_text() for path in (ROOT / "steps").rglob("*.py")]
    return {name for text in sources for name in re.findall(r'^@kind\("([^"]+)"', text, re.MULTILINE)}


def test_data_page_has_every_kind() -> None:
    page = (DOCS / "data.md").read_text()
    missing = sorted(name for name in kinds() if f"`{name}`" not in page)
    assert not missing, f"docs/data.md says nothing of {missing}"


def test_data_page_names_fields_that_exist() -> None:
    """A row of a table of fields is "| `kind` | `field` = default | ..."; field and default are the config class's."""
    sources = "\n".join(path.read_text() for path in (ROOT / "steps").rglob("*.py"))
    rows = re.findall(r"^\| `(\w+)` = `([^`]*)` \|", (DOCS / "data.md").read_text(), re.MULTILINE)
    assert len(rows) > 20
    for field, default in rows:
        declared = re.findall(rf"^    {field}: [^=\n]+(?: = (.*?))?(?:  #.*)?$", sources, re.MULTILINE)
        assert default in [each or "required" for each in declared], f"{field} = {default}: the code has {declared}"


def test_dependencies_are_all_explained() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "decisions" / "0001-dependencies.md").read_text()
    for requirement in project["dependencies"]:
        name = re.split(r"[\[<>=~!;]", requirement)[0]
        assert f"**{name}**" in page, f"{name} has no paragraph in decisions/0001-dependencies.md"


def test_environment_variables_exist_in_code() -> None:
    table = re.findall(r"^\| `([A-Z_]+)` \|", (DOCS / "running-on-ray.md").read_text(), re.MULTILINE)
    assert len(table) >= 5
    code = "\n".join(path.read_text() for folder in ("marin_exec", "steps") for path in (ROOT / folder).rglob("*.py"))
    for name in table:
        assert name in code, f"docs/running-on-ray.md documents {name}, which nothing reads"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_shell_lines_parse(page: Path) -> None:
    for _, text in [*blocks(page, "sh"), *blocks(page, "console")]:
        for line in text.splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True) if "marin-exec " in line else []
            if "marin-exec" not in words[:3] or "[" in line or "|" in words:
                continue
            verb, *arguments = words[words.index("marin-exec") + 1 :]
            command = dict(verbs())[verb]
            command.make_context(verb, [each for each in arguments if each != "2>&1"])


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_page_names_nothing_of_where_it_was_written(page: Path) -> None:
    text = page.read_text()
    # In pieces, so that this file is not itself a match.
    for forbidden in (
        "sha" + "red/",
        "/wo" + "rk",
        "farm" + "-studio",
        "{{",
        "TO" + "DO",
        "pypi" + ".org",
        "index" + "-url ",
    ):
        assert forbidden not in text, f"{relative(page)} holds {forbidden!r}"
    assert not re.search(r"/tmp/(?!store\b)", text)


def test_decisions_are_numbered_and_short() -> None:
    pages = sorted((DOCS / "decisions").glob("*.md"))
    numbers = [int(page.name[:4]) for page in pages]
    assert numbers == list(range(1, len(pages) + 1))
    for page in pages:
        lines = page.read_text().splitlines()
        assert len(lines) <= 40, f"{page.name} has {len(lines)} lines"
        assert {"## Context", "## Choice", "## Consequences"} <= set(lines), f"{page.name} lacks a heading"


@pytest.mark.parametrize(("page", "at_least"), [("testing.md", 80), ("testing-data.md", 0)])
def test_testing_pages_name_a_test_that_exists_for_each_report(page: str, at_least: int) -> None:
    _, _, reports = (DOCS / page).read_text().partition("## Public reports")
    rows = [
        row for row in re.findall(r"^\| .* \|$", reports, re.MULTILINE) if not row.startswith(("| ---", "| report |"))
    ]
    assert len(rows) >= at_least
    for row in rows:
        _, report, what, tests, _ = (cell.strip() for cell in row.split("|"))
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", tests)
        assert report and what and named and len(named) == tests.count("`") / 2, f"a row without tests: {row}"
        for path, name in named:
            assert f"\ndef {name}(" in (ROOT / path).read_text(), (
                f"docs/{page} names {path}::{name}, which is not there"
            )


def test_readme_experiment_runs(tmp_path: Path) -> None:
    (name, text), *_ = [block for block in blocks(ROOT / "README.md", "python") if block[0]]
    assert len([line for line in text.splitlines() if line.strip()]) <= 16
    (tmp_path / name).write_text(text)
    assert "2 done" in output_of(f"marin-exec run {name} --backend local", tmp_path)
    result = json.loads(output_of("marin-exec show first/count --json", tmp_path))["record"]["result"]
    assert result == {"times": 2}


def test_hello_experiment_is_the_one_in_the_repository() -> None:
    assert files_of(EXAMPLES_PAGE)["hello.py"] == (ROOT / "experiments" / "hello.py").read_text()


@pytest.mark.skipif(shutil.which("git") is None, reason="the transcripts name a commit")
@pytest.mark.parametrize("page", console_pages(), ids=relative)
def test_transcripts_are_current(page: Path) -> None:
    assert page.read_text() == with_transcripts(page), "run `PYTHONPATH=. python tests/test_docs.py --write`"


def test_json_keys_are_documented(tmp_path: Path) -> None:
    prepare(tmp_path, EXAMPLES_PAGE)
    output_of("marin-exec run words.py --backend local", tmp_path)
    page = (DOCS / "reading-lineage.md").read_text()
    for command in ("plan words.py", "status words.py", "why words.py words/top", "show words/top", "lineage words/top",
                    "diff words/top words/counts", "ls"):  # fmt: skip
        value = json.loads(output_of(f"marin-exec {command} --json", tmp_path))
        keys = {*value, *(value["steps"][0] if "steps" in value else ()), *value.get("record", ())}
        keys |= {key for part in ("nodes", "edges") if part in value for key in value[part][0]}
        missing = sorted(key for key in keys if f"`{key}`" not in page)
        assert not missing, f"docs/reading-lineage.md does not say what {missing} of `{command} --json` are"


def test_log_events_are_documented(tmp_path: Path) -> None:
    prepare(tmp_path, EXAMPLES_PAGE)
    output_of("marin-exec run climb.py --backend local --fail_at 25", tmp_path)
    lines = [line for log in tmp_path.glob("store/.marin/steps/*/attempts/*.jsonl") for line in log.open()]
    met = {event["type"]: event for event in map(json.loads, lines)}
    _, _, section = (DOCS / "reading-lineage.md").read_text().partition("## What happened in an attempt?")
    table = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", section.partition("## JSON")[0], re.MULTILINE))
    assert met.keys() == {"started", "published", "ended"} <= table.keys()
    for name, event in met.items():
        missing = sorted(key for key in event.keys() - {"time", "type"} if f"`{key}`" not in table[name])
        assert not missing, f"docs/reading-lineage.md does not say that {name!r} holds {missing}"
    assert table.keys() == logged_types()


def logged_types() -> set[str]:
    """Returns the event types that the engine's code writes to logs: the argument of each call that logs one."""
    place = {"event": 0, "_event": 0, "_give_back": 2}
    found = set()
    for path in (ROOT / "marin_exec" / "runners").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in place:
                argument = node.args[place[node.func.attr]]
                found |= {argument.value} if isinstance(argument, ast.Constant) else set()
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        sys.exit("usage: PYTHONPATH=. python tests/test_docs.py --write")
    write_generated()
