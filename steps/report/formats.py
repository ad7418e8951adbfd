"""Numbers as people read them, with units. Every figure on a page goes through here."""

import math
from typing import Any

MINUS = "\N{MINUS SIGN}"
NONE = "\N{EN DASH}"
SPACE = "\N{NO-BREAK SPACE}"
"""Between a number and its unit, so that no line ends there."""


def _missing(value: Any) -> str | None:
    """A value without digits: none at all, or one that JSON has no number for."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return None if math.isfinite(value) else str(value)


def count(value: Any) -> str:
    """Returns e.g. "4,296"."""
    return _missing(value) or f"{value:,}".replace("-", MINUS)


def size(value: Any) -> str:
    """Returns bytes in decimal units, e.g. "6.83 MB"."""
    return _missing(value) or _scaled(value, (("B", 1), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)))


def tokens(value: Any) -> str:
    """Returns e.g. "1.24 M"."""
    return _missing(value) or _scaled(value, (("", 1), ("k", 1e3), ("M", 1e6), ("B", 1e9), ("T", 1e12)))


def flops(value: Any) -> str:
    """Returns e.g. "3.41 TFLOP"."""
    units = (("FLOP", 1), ("kFLOP", 1e3), ("MFLOP", 1e6), ("GFLOP", 1e9), ("TFLOP", 1e12), ("PFLOP", 1e15))
    return _missing(value) or _scaled(value, (*units, ("EFLOP", 1e18), ("ZFLOP", 1e21), ("YFLOP", 1e24)))


def _scaled(value: float, units: tuple[tuple[str, float], ...]) -> str:
    name, unit = next(((name, unit) for name, unit in reversed(units) if abs(value) >= unit), units[0])
    scaled = value / unit
    digits = 0 if unit == 1 else max(0, 2 - int(math.log10(max(1, abs(scaled)))))
    return f"{scaled:,.{digits}f}{SPACE}{name}".strip()


def loss(value: Any) -> str:
    """Returns nats or bits to three places, e.g. "3.894"."""
    return _missing(value) or f"{value:.3f}".replace("-", MINUS)


def signed(value: Any) -> str:
    """Returns e.g. "+0.043", with a real minus sign."""
    return _missing(value) or f"{value:+.3f}".replace("-", MINUS)


def percent(value: Any) -> str:
    """Returns a share as e.g. "12.3 %"."""
    return _missing(value) or f"{100 * value:.1f}{SPACE}%".replace("-", MINUS)


def whole_percent(value: Any) -> str:
    """Returns a share as e.g. "80 %"."""
    return _missing(value) or f"{100 * value:.0f}{SPACE}%".replace("-", MINUS)


def short(value: Any) -> str:
    """Returns any number in four significant digits at most, e.g. "0.0123", "4,296"."""
    missing = _missing(value)
    if missing:
        return missing
    if abs(value) >= 1e9:
        return tokens(value)
    if isinstance(value, int) or (abs(value) >= 1000 and value == int(value)):
        return f"{int(value):,}".replace("-", MINUS)
    return f"{value:.4g}".replace("-", MINUS)


def seconds(value: Any) -> str:
    """Returns e.g. "0.8 s", "2 min 05 s", "1 h 12 min"."""
    missing = _missing(value)
    if missing:
        return missing
    if value < 60:
        return f"{value:.1f}{SPACE}s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}{SPACE}min{SPACE}{whole % 60:02d}{SPACE}s"
    return f"{whole // 3600}{SPACE}h{SPACE}{whole % 3600 // 60:02d}{SPACE}min"


FILTERS = {
    each.__name__: each for each in (count, size, tokens, flops, loss, signed, percent, whole_percent, short, seconds)
}
