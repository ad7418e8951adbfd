"""One run of stage_chain.py through the engine, shared by the tests that look at its pages."""

import functools
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.marin_exec.engine import Engine

CHAIN = Path(__file__).parent / "stage_chain.py"


@dataclass(frozen=True)
class ChainPages:
    store: Path

    def folder(self, name: str) -> Path:
        """Returns the output of a step, e.g. "report/topics"."""
        return next(self.store.glob(f"{name}-*/a*"))

    def page(self, name: str) -> str:
        return (self.folder(f"report/{name}") / "index.html").read_text("utf-8")

    def twin(self, name: str) -> dict[str, Any]:
        return json.loads((self.folder(f"report/{name}") / "report.json").read_text("utf-8"))

    def result(self, name: str) -> dict[str, Any]:
        from marin_exec.lineage import record_at

        return record_at(str(self.folder(name))).result


@functools.cache
def chain_pages() -> ChainPages:
    """Returns the pages of a fresh run, the same ones for all that ask in this process."""
    keep = tempfile.TemporaryDirectory(prefix="stages-")
    chain_pages.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    engine = Engine(Path(keep.name), CHAIN)
    done = engine.run()
    assert done.returncode == 0, done.stderr[-3000:]
    return ChainPages(engine.store)
