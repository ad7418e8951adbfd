"""Runs every benchmark of this package in name order, each in a process of its own; exit 1 if any fails."""

import pkgutil
import subprocess
import sys
from pathlib import Path


def main() -> int:
    names = [each.name for each in pkgutil.iter_modules([str(Path(__file__).parent)]) if not each.name.startswith("_")]
    failed = [name for name in names if subprocess.run([sys.executable, "-m", f"benchmarks.data.{name}"]).returncode]
    if failed:
        print(f"a bar does not hold, or could not be measured, in: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
