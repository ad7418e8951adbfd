"""One run of normalized_chain.py through the engine, shared by the tests that look at its page."""

import functools
import tempfile
from pathlib import Path

from tests.marin_exec.engine import Engine

CHAIN = Path(__file__).parent / "normalized_chain.py"


@functools.cache
def normalized_page() -> Path:
    """Returns the page's folder."""
    keep = tempfile.TemporaryDirectory(prefix="normalized-")
    normalized_page.keep = keep  # type: ignore[attr-defined]  # deleted when the process ends
    engine = Engine(Path(keep.name), CHAIN)
    done = engine.run()
    assert done.returncode == 0, done.stderr[-3000:]
    return next(engine.store.glob("report/normalized-*/a*"))
