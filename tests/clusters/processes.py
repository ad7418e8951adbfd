"""What tests on clusters ask of processes."""

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and is yet to be noticed does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def places(folder: Path, what: str) -> list[tuple[str, int]]:
    """Returns host and process of everything of that name that said where it runs; see experiments/clustered.py."""
    names = [path.name.partition("@")[2] for path in folder.glob(f"{what}@*")]
    return [(host, int(pid)) for host, _, pid in (name.rpartition("-") for name in names)]
