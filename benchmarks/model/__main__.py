"""Runs every benchmark of this package in name order, each in a process of its own; exit 1 if any fails. --long: more kills."""

import sys

from benchmarks.whole_package import run_all

if __name__ == "__main__":
    raise SystemExit(run_all("model", sys.argv[1:]))
