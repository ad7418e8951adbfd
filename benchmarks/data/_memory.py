"""The most memory that this process has had resident."""

from pathlib import Path


def peak_megabytes() -> float:
    """Returns the peak of this program in MB.

    Not `ru_maxrss`: that keeps the peak of the process that started this one, if it was higher.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6
