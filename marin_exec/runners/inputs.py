"""Whether the inputs that an attempt was given still are results, asked once it has said which ones it reads.

In this order, because whoever cleans up withdraws a result first and looks then at what running attempts read: one of the
two sees the other, so no step ever reads a directory that is being removed.
"""

from collections.abc import Mapping

from marin_exec.errors import StepFailed
from marin_exec.records import DependencyRecord
from marin_exec.runners.state import StepStatus
from marin_exec.store import Store
from marin_exec.store.content import current_or_none, link_broken


def superseded(store: Store, bound: tuple[DependencyRecord, ...], statuses: Mapping[str, StepStatus]) -> str:
    """Returns the name of an input that another run has made again since it was bound; "" if there is none.

    The status of such a step gets the record of its newer result, so that what is bound next is that.

    Raises:
        StepFailed: an input has no result any more.
    """
    whole = [each for each in bound if each.milestone is None]
    heads = store.look_up_all(lambda each: store.head(each.digest), whole)
    newer = ""
    for each, head in zip(whole, heads, strict=True):
        record = statuses[each.digest].record
        assert record is not None, f"{each.name} was bound before it was there"
        broken = link_broken(record.link, current_or_none(store, record.link.digest)) if record.link is not None else ""
        if head is None or head.data.current is None or broken:
            why = broken or (head.data.note if head is not None else "nothing is recorded of it")
            raise StepFailed(f"its input {each.name} has no result any more ({why}); run again, which makes it anew")
        if head.data.current != record.attempt:
            statuses[each.digest].record = store.record(each.digest, head.data.current)
            newer = each.name
    return newer
