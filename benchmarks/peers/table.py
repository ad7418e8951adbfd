"""The figures as a Markdown table: what `compare.py` prints, and what stands in the README."""

from collections.abc import Sequence
from typing import Any

from benchmarks.peers.engines import OURS

HEADER = (
    *("engine", "start, s", "cold, ms/step", "CPU", "warm, ms/step", "CPU", "warm run, s", "files"),
    "what a warm run looks at",
)


def ratio(theirs: float, ours: float) -> str:
    """Returns how many times ours theirs is, as it stands in the table; "" where ours is too small to divide by."""
    if ours <= 0:
        return ""
    times = theirs / ours
    return f" (x{times:.0f})" if times >= 10 else f" (x{times:.2g})"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Returns the table of rows as `measure.Row` has them; ratios are to this engine's own row."""
    ours = next(row for row in rows if row["engine"] == OURS)
    lines: list[tuple[str, ...]] = [HEADER, ("---",) + ("---:",) * 7 + ("---",)]
    for row in rows:
        of_ours = row["engine"] == OURS
        cells = [
            f"**{OURS}**" if of_ours else row["engine"],
            f"{row['start_seconds']:.2f}",
            f"{row['cold_ms']:.2f}" + ("" if of_ours else ratio(row["cold_ms"], ours["cold_ms"])),
            f"{row['cold_cpu_ms']:.2f}",
            f"{row['warm_ms']:.2f}" + ("" if of_ours else ratio(row["warm_ms"], ours["warm_ms"])),
            f"{row['warm_cpu_ms']:.2f}",
            f"{row['warm_seconds']:.2f}",
            f"{row['files']}",
            row["checks"] + ("" if row["rests_on"] == "recipe" else f" ({row['rests_on']} only)"),
        ]
        lines.append(tuple(cells))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


BEGIN, END = "<!-- bench-engine -->", "<!-- /bench-engine -->"


def section(measured: dict[str, Any]) -> str:
    """Returns what stands between the marks in the README."""
    words = f"{measured['date']}, {measured['machine']}."
    return f"{BEGIN}\n{table(measured['rows'])}\n\n{words}\n{END}"


def with_table(readme: str, measured: dict[str, Any]) -> str:
    """Returns the README's text with its table made anew.

    Raises:
        ValueError: the marks that the table stands between are not there.
    """
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"README.md: {BEGIN} and {END} are needed, and the table goes between them")
    return before + section(measured) + after
