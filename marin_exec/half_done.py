"""What an unfinished step left behind, and whether the next attempt may go on from there.

Shards and milestones of a chain of attempts may be taken up only if the code, the inputs and the files that they were
made from are still the same. The plan says what would be taken up or lost; the scheduler decides by the same rule.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from marin_exec.errors import StoreError
from marin_exec.planned import OnCodeChange
from marin_exec.records import DependencyRecord, Head, Record
from marin_exec.source import SourceInfo, changed_functions
from marin_exec.store import Store, pieces
from marin_exec.wording import some_of

MAX_NAMED = 3


@dataclass(frozen=True)
class HalfDone:
    """The pieces of a step's last chain of attempts."""

    num_pieces: int
    afresh: str
    """Why a next attempt may not join that chain; "" if it may."""

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
    try:
        made = [
            *pieces(store, digest, head.chain, "shard").values(),
            *pieces(store, digest, head.chain, "milestone").values(),
        ]
        begun = [each for n in range(head.chain, head.attempt + 1) if (each := store.begun_record(digest, n))]
    except StoreError as error:
        return HalfDone(1, f"what they left cannot be read: {error}")
    damaged = next((piece.name for piece in made if store.missing_piece_files(piece)), None)
    if damaged is not None:
        return HalfDone(len(made), f"files of {damaged} are gone or damaged")
    # Attempts without a piece count too: one whose driver is dead may live on in a worker, and commit pieces yet.
    other_input = _other_input(begun, inputs) if inputs is not None else None
    if other_input is not None:
        return HalfDone(len(made), f"{other_input} holds other content than they were made from")
    sources = {piece.source_digest for piece in made} | {each.source["digest"] for each in begun}
    if on_code_change is not OnCodeChange.REUSE and sources - {source.digest}:
        return HalfDone(len(made), _other_code(begun, source))
    return HalfDone(len(made), "")


def _other_input(begun: list[Record], inputs: Iterable[DependencyRecord]) -> str | None:
    """Returns the name of an input that holds other content now than when one of these attempts began."""
    now = {(each.digest, each.milestone): each.output_digest for each in inputs}
    for attempt in begun:
        for bound in attempt.dependencies:
            if now.get((bound.digest, bound.milestone)) != bound.output_digest:
                return bound.name
    return None


def _other_code(begun: list[Record], source: SourceInfo) -> str:
    names = changed_functions(begun[-1].source["functions"], source.functions) if begun else []
    shown = some_of(names, MAX_NAMED)
    return f"other code made them{f' ({shown})' if shown else ''}; --on-code-change reuse goes on from them"
