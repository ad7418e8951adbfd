"""What all tests share."""

import sys
from pathlib import Path

# Helper modules of the tests (directory_out, marin_exec/engine) are imported by name from their folders.
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent / "marin_exec")]
