"""One run of report_chain.py through the engine, shared by the tests that look at what it wrote."""

import functools
import json
import subprocess
import tempfile
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.marin_exec.engine import Engine

CHAIN = Path(__file__).parent / "report_chain.py"


@dataclass(frozen=True)
class Built:
    """The newest report in a store."""

    engine: Engine

    @property
    def folder(self) -> Path:
        return max(self.engine.store.glob("report-*/a*"), key=lambda path: path.stat().st_mtime_ns)

    @property
    def page(self) -> str:
        return (self.folder / "index.html").read_text("utf-8")

    @property
    def twin(self) -> dict[str, Any]:
        return json.loads((self.folder / "report.json").read_text("utf-8"))

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        done = self.engine.run(*arguments)
        assert done.returncode == 0, done.stderr[-3000:]
        return done


@functools.cache
def built_report() -> Built:
    """Returns a report of a fresh run, the same one for all that ask in this process."""
    keep = tempfile.TemporaryDirectory(prefix="report-")
    built_report.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    built = Built(Engine(Path(keep.name), CHAIN))
    built.run()
    return built


class Page(HTMLParser):
    """A page as a browser's parser sees it."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        {"style": self.styles, "script": self.scripts}.get(self._inside, self.texts).append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())
