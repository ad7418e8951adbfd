"""Figures as a benchmark prints them: one JSON line each, with the bar that it has to meet, if there is one."""

import json


class Figures:
    """Prints figures, and remembers whether every bar held."""

    def __init__(self) -> None:
        self.all_hold = True

    def add(
        self, figure: str, value: float, unit: str, *, at_most: float | None = None, at_least: float | None = None
    ) -> None:
        """Prints one figure.

        Args:
            figure: what was measured, in words.
            value: in `unit`.
            unit: e.g. "documents/s", "MB", "ratio".
            at_most: bar from above; None if there is none.
            at_least: bar from below.
        """
        holds = (at_most is None or value <= at_most) and (at_least is None or value >= at_least)
        self.all_hold &= holds
        line = {"figure": figure, "value": round(value, 4), "unit": unit}
        line |= {key: bar for key, bar in (("at_most", at_most), ("at_least", at_least)) if bar is not None}
        print(json.dumps(line | {"holds": holds}), flush=True)

    @property
    def exit_code(self) -> int:
        return 0 if self.all_hold else 1
