"""What an unfinished step left behind, and whether the next attempt may go on from there.

Shards and milestones of a chain of attempts may be taken up only if the code, the inputs and the files that they were
made from are still the same. The plan says what would be taken up or lost; the scheduler decides by the same rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from marin_exec.planned import OnCodeChange
from marin_exec.records import DependencyRecord, Head
from marin_exec.source import SourceInfo, changed_functions
from marin_exec.store import Piece, Store, pieces

MAX_NAMED = 3


@dataclass(frozen=True)
class HalfDone:
    """The pieces of a step's last chain of attempts."""

    num_pieces: int
    afresh: str
    """Why a next attempt may not take them up; "" if it may."""

    @property
    def note(self) -> str:
        """One line for a person; "" if there is nothing to say."""
        if not self.num_pieces:
            return ""
        made = f"{self.num_pieces} shards or milestones of earlier attempts"
        return f"starts afresh, without {made}: {self.afresh}" if self.afresh else f"goes on from {made}"


def half_done(
    store: Store,
    digest: str,
    head: Head | None,
    source: SourceInfo,
    on_code_change: OnCodeChange,
    inputs: Iterable[DependencyRecord] | None = None,
) -> HalfDone:
    """Looks at what a step's last chain of attempts committed.

    Args:
        head: the step's head; None or a finished chain leaves nothing to take up.
        source: the code that would run now.
        inputs: what the step would read now; None where that is not known yet.
    """
    if head is None or head.current == head.attempt:
        return HalfDone(0, "")
    made = [
        *pieces(store, digest, head.chain, "shard").values(),
        *pieces(store, digest, head.chain, "milestone").values(),
    ]
    return HalfDone(len(made), _afresh(store, digest, head, source, on_code_change, inputs, made) if made else "")


def _afresh(
    store: Store,
    digest: str,
    head: Head,
    source: SourceInfo,
    on_code_change: OnCodeChange,
    inputs: Iterable[DependencyRecord] | None,
    made: list[Piece],
) -> str:
    damaged = next((piece for piece in made if store.missing_piece_files(piece)), None)
    if damaged is not None:
        return f"files of {damaged.name} are gone or damaged"
    earlier = [begun for n in range(head.chain, head.attempt + 1) if (begun := store.begun_record(digest, n))]
    if inputs is not None:
        now = {(each.digest, each.milestone): each for each in inputs}
        for begun in earlier:
            for bound in begun.dependencies:
                other = now.get((bound.digest, bound.milestone))
                if other is None or other.output_digest != bound.output_digest:
                    return f"{bound.name} holds other content than they were made from"
    if on_code_change is not OnCodeChange.REUSE and any(piece.source_digest != source.digest for piece in made):
        names = changed_functions(earlier[-1].source["functions"], source.functions) if earlier else []
        shown = ", ".join(names[:MAX_NAMED]) + (f" and {len(names) - MAX_NAMED} more" if len(names) > MAX_NAMED else "")
        return f"other code made them{f' ({shown})' if shown else ''}; --on-code-change reuse goes on from them"
    return ""
