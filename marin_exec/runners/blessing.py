"""A person's word that a finished output serves for a step as it is declared now.

The step gets a link to that output, under its own lease, with the person and the reason in the record. Its inputs are bound
as they are now, so the blessing ends when one of them comes to hold something else; an input that is not there now is
left open, and holds whatever it may come to be.
"""

import os
import socket
from dataclasses import replace

from marin_exec.errors import ConfigError, StoreError
from marin_exec.explain import Explainer
from marin_exec.pins import record_of
from marin_exec.plan import Action, Plan, PlannedStep
from marin_exec.provenance import RunContext
from marin_exec.records import Record
from marin_exec.runners.bindings import Bindings
from marin_exec.runners.recording import begun_record, first_after, linked_record
from marin_exec.runners.state import State, StepStatus
from marin_exec.store import Store, claim
from marin_exec.store.content import link_to, note_content


def blessing_target(plan: Plan, planned: PlannedStep, store: Store, chosen: str | None) -> Record:
    """Returns the record whose output is to serve: the chosen one, or the latest finished run of that name and kind.

    Args:
        chosen: a digest, or a path of an output.

    Raises:
        ConfigError: there is none, it is of another kind, its data is gone, or the step needs no blessing.
    """
    name, kind = planned.step.name, planned.step.kind
    if planned.step.pinned:
        raise ConfigError(f"bless {name}: is pinned to {planned.step.pinned} and never run; there is nothing to bless")
    if planned.action is Action.REUSE and not planned.code_changed:
        raise ConfigError(f"bless {name}: is done already ({planned.reason}); there is nothing to bless")
    if chosen is None:
        record = Explainer(store, {}).nearest(name, kind.digested_name)
        if record is None:
            raise ConfigError(
                f"bless {name}: no finished run of that name and kind is in {store.prefix}; give one with --as, "
                "`marin-exec ls` lists them"
            )
    else:
        try:
            record = record_of(store, chosen)
        except StoreError as error:
            raise ConfigError(f"bless {name} --as {chosen}: {error}") from error
        if record is None:
            raise ConfigError(
                f"bless {name} --as {chosen}: has no result in {store.prefix}; `marin-exec ls` lists what has"
            )
    if record.identity["kind"] != kind.digested_name:
        raise ConfigError(
            f"bless {name} --as {chosen}: a step of kind {record.kind}; one of kind {kind.name} is needed"
        )
    missing = store.missing_files(record)
    if missing:
        path, why = missing[0]
        raise ConfigError(
            f"bless {name}: the output {store.url(record.output_path)} is damaged: {path} ({why}); choose another with --as"
        )
    return record


def bless(plan: Plan, planned: PlannedStep, store: Store, target: Record, why: str, context: RunContext) -> Record:
    """Makes an output the step's result, and returns the record.

    Raises:
        ConfigError: somebody holds the step.
        StoreError, OSError: the store could not be written.
    """
    name = planned.step.name
    versioned = store.head(planned.digest)
    if versioned is not None and versioned.data.state == "held":
        raise ConfigError(f"bless {name}: is {versioned.data.held_by}; wait for it, or stop it")
    lease = claim(store, planned.digest, versioned, new_chain=True, host=socket.gethostname(), pid=os.getpid())
    if lease is None:
        raise ConfigError(f"bless {name}: another driver took the step just now; look at it with status")
    status = StepStatus(planned, State.PENDING, lease=lease)
    statuses = {digest: StepStatus(each, State.REUSED, each.record) for digest, each in plan.steps.items()}
    not_there = frozenset(digest for digest, each in plan.steps.items() if each.action is not Action.REUSE)
    bindings = Bindings(store, statuses, left_open=not_there)
    try:
        bound, after = bindings.of_config(status), bindings.of_after(status)
        first = first_after(store, planned.digest, lease, after)
        begun = begun_record(status, lease, target.output_path, context, {}, bound, after, first)
        link = link_to(target, "blessed", why, str(context.provenance["user"]))
        source = {"digest": planned.source.digest, "functions": planned.source.functions}
        record = replace(linked_record(begun, target, link), source=source)
        note_content(store, record)
        lease.commit(record)
    except BaseException:
        lease.release("blessing failed")
        raise
    return record
