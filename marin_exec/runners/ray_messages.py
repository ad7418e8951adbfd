"""What Ray says on the driver's stdout, put where it belongs: stdout is for results."""

import io
import re
import sys

COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# About workers that died: the scheduler reports those itself, by step and shard.
_SAID_ANYWAY = ("A worker died or was killed", "retries remaining", "The node with node id")


class RayMessages(io.TextIOBase):
    """A stdout that passes lines on to stderr, without colours, prefixed; what the scheduler says anyway is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            said = COLOUR.sub("", line).removeprefix("(raylet)").strip()
            if said and not any(noise in said for noise in _SAID_ANYWAY):
                print(f"ray: {said}", file=sys.stderr, flush=True)
        return len(text)
