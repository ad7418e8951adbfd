"""The working state of `make_plan`: judges each step by what the store holds, then settles what is needed of them."""

import dataclasses
from collections.abc import Collection
from functools import cache

from marin_exec.errors import ConfigError
from marin_exec.explain import Explainer, replaced
from marin_exec.half_done import half_done
from marin_exec.identity import Identity
from marin_exec.planned import Action, OnCodeChange, PlannedStep, PlanOptions
from marin_exec.records import Record
from marin_exec.source import changed_functions, source_of
from marin_exec.step import Step, StepPath
from marin_exec.store import Store
from marin_exec.store.content import SAME_CONTENT, content_key, known_keys, link_broken, link_to, made_from
from marin_exec.store.manifest import piece_digest
from marin_exec.store.pieces import Piece, piece_named
from marin_exec.stored_steps import StoredStep

LINKED_IF = "linked if its inputs come out as before"


def _reused(draft: PlannedStep) -> str:
    assert draft.record is not None
    reason = f"made by run {draft.record.run_id}"
    if draft.record.name not in draft.names:
        reason += f" under the name {draft.record.name}"
    if draft.record.kind != draft.step.kind.name:
        reason += f", as kind {draft.record.kind}"
    if draft.record.link is not None:
        reason = f"{draft.record.link.phrase} (run {draft.record.run_id})"
    if draft.step.pinned:
        reason = f"pinned to {draft.digest[:16]}, {reason}"
    if draft.code_changed:
        reason += f"; code changed in {', '.join(draft.code_changed)} (reused)"
    return reason


class Draft:
    """See `marin_exec.plan.make_plan`, which calls `judge` upwards from the sources and then `choose`."""

    def __init__(
        self,
        store: Store,
        options: PlanOptions,
        forced: Collection[str],
        names: Collection[str],
        identities: dict[int, Identity],
        references: dict[int, list[StepPath]],
        found: dict[str, StoredStep],
    ):
        self._store = store
        self._options = options
        self._forced = forced
        self._identities = identities
        self._references = references
        self._found = found
        self._source_of = cache(source_of)
        self._content_keys = cache(lambda: known_keys(store))
        self.steps: dict[str, PlannedStep] = {}
        self._beneath: dict[str, bool] = {}
        current = {digest: each.record for digest, each in found.items()}
        self._explainer = Explainer(store, current, names, options.experiment)

    def judge(self, step: Step, names: tuple[str, ...]) -> None:
        """First pass: notes whether the step's current record is valid, as action REUSE or RUN with the reason."""
        identity = self._identities[id(step)]
        if identity.digest in self.steps:
            return  # the same work, written twice in the experiment
        found = self._found[identity.digest]
        record = found.record
        source = self._source_of(step.fn)
        may_change = record is not None and not step.pinned
        changed = tuple(changed_functions(record.source["functions"], source.functions)) if may_change else ()
        self._explainer.note(step.name, identity.digest, identity.tree, source.functions)
        draft = PlannedStep(
            step=step,
            digest=identity.digest,
            names=names,
            identity=identity.tree,
            references=tuple((self._identities[id(ref.step)].digest, ref) for ref in self._references[id(step)]),
            after=tuple(self._identities[id(each)].digest for each in step.after),
            see=tuple((each.name, self._identities[id(each)].digest) for each in step.see),
            action=Action.RUN,
            reason="",
            causes=(),
            record=record,
            last_attempt=found.head.attempt if found.head else 0,
            source=source,
            code_changed=changed,
            forced=any(name in self._forced for name in names),
        )
        if changed and self._options.on_code_change is OnCodeChange.REFUSE:
            raise ConfigError(
                f"step {step.name}: the code that made its output differs in {', '.join(changed)}, and "
                f"--on-code-change is 'refuse'. Take 'say' to reuse the output, or 'rerun' to make it again"
            )
        reason, causes = self._invalid_because(draft, found)
        if not reason:
            settled = draft.reused(_reused(draft))
        else:
            settled = self._linked(dataclasses.replace(draft, reason=reason, causes=causes))
        self.steps[identity.digest] = settled

    def _invalid_because(self, draft: PlannedStep, found: StoredStep) -> tuple[str, tuple[str, ...]]:
        """Returns why a step's current record does not serve, and the root causes; "" if it does."""
        name = draft.step.name
        if draft.step.pinned:
            if draft.forced:
                raise ConfigError(f"step {name}: is pinned, and so never run; take the pin away to make it again")
            return "", ()
        if draft.forced:
            return "forced", (f"{name}: forced",)
        if found.problem:
            return found.problem, (f"{name}: {found.problem}",)
        if found.withdrawn:
            return found.withdrawn, (f"{name}: {found.withdrawn}",)
        if draft.record is None:
            return self._explainer.never_run(name, draft.step.kind.digested_name, draft.digest, draft.identity)
        if draft.code_changed and self._options.on_code_change is OnCodeChange.RERUN:
            what = f"code changed in {', '.join(draft.code_changed)}"
            return what, (f"{name}: {what}",)
        left_open = {bound.digest for bound in draft.record.dependencies if not bound.output_digest}
        for digest in draft.dependency_digests:
            upstream = self.steps[digest]
            if digest in left_open:
                continue  # a person blessed the output whatever that input holds
            counts = upstream.record is not None or self._found[digest].invalidated or self._stale_beneath(digest)
            if counts and upstream.action is Action.RUN:
                reason = f"upstream {upstream.step.name} will run ({upstream.reason}); reused if its output is the same"
                return reason, upstream.causes
        if draft.record.link is not None:
            original = self._found[draft.record.link.digest]
            broken = link_broken(draft.record.link, original.record, original.problem)
            if broken:
                return broken, (f"{name}: {broken}",)
        return self._stale_because(draft.record)

    def _stale_beneath(self, digest: str) -> bool:
        """Whether a finished step whose record is lost would have to be made again even if it were there.

        Judged by what its attempt's log says it was made from; with that lost too nobody can know, and it is taken for good.
        """
        found = self._found[digest]
        if not found.problem or found.head is None or found.head.current is None:
            return False
        if digest not in self._beneath:
            begun = self._store.begun_record(digest, found.head.current)
            draft = dataclasses.replace(self.steps[digest], record=begun)
            known = StoredStep(found.head, begun)
            self._beneath[digest] = begun is not None and bool(self._invalid_because(draft, known)[0])
        return self._beneath[digest]

    def _linked(self, draft: PlannedStep) -> PlannedStep:
        """Returns a step that would run as a LINK, if its inputs are known and something was made from the same content."""
        if draft.forced or draft.step.kind.reads_lineage or not draft.references:
            return draft
        if self._found[draft.digest].invalidated:
            return draft  # nothing may bring back by content what a person declared to be no result
        held = {(digest, ref.milestone): self._will_hold(digest, ref.milestone) for digest, ref in draft.references}
        known = {key: output for key, output in held.items() if output is not None}
        if len(known) < len(held):
            if (
                draft.record is None
                and self._explainer.nearest(draft.step.name, draft.step.kind.digested_name) is not None
            ):
                return dataclasses.replace(draft, outlook=LINKED_IF)
            return draft
        key = content_key(draft.identity, known)
        if key not in self._content_keys():
            return draft
        made = made_from(self._store, key, lambda record: draft.serves(record, self._options.on_code_change))
        if made is None:
            return draft
        changed = tuple(changed_functions(made.source["functions"], draft.source.functions))
        link = link_to(made, "content", SAME_CONTENT)
        reason = f"{draft.reason}; {link.phrase}" + (f"; code changed in {', '.join(changed)}" if changed else "")
        return dataclasses.replace(draft, action=Action.LINK, reason=reason, link=link, code_changed=changed)

    def _will_hold(self, digest: str, milestone: str | None) -> str | None:
        """Returns the output digest that an input has when a dependant's turn comes; None if that is not known yet."""
        known = self.steps[digest].action in (Action.REUSE, Action.LINK)
        return self._produced(digest, milestone) if known else None

    def _stale_because(self, record: Record) -> tuple[str, tuple[str, ...]]:
        for bound in record.dependencies:
            now = self._produced(bound.digest, bound.milestone)
            if now is not None and bound.output_digest not in ("", now):
                upstream = self.steps[bound.digest]
                what, by = replaced(self._store, record, bound, upstream.record)
                change = f"{bound.output_digest[:16]} -> {now[:16]}{what}"
                reason = f"upstream {upstream.step.name} now holds other content ({change}) than this was made from"
                return reason, (f"{upstream.step.name}: output replaced{by}",)
        return "", ()

    def _produced(self, digest: str, milestone: str | None) -> str | None:
        """Returns the output digest of a step's current record (of a LINK: of what it points at), or of a milestone of it;
        None if it has none now."""
        if milestone is not None:
            piece = self._milestone(digest, milestone)
            return piece_digest(piece) if piece is not None else None
        link, record = self.steps[digest].link, self._found[digest].record
        return link.output_digest if link else record.output_digest if record else None

    def _milestone(self, digest: str, name: str) -> Piece | None:
        """Returns a milestone of a step's current record, or of its last attempts if it was never done."""
        found, link = self._found[digest], self.steps[digest].link
        if link is not None:
            owner, chain = link.digest, link.chain
        elif found.head is not None:
            owner, chain = found.record.pieces_at if found.record else (digest, found.head.chain)
        else:
            return None
        return piece_named(self._store, owner, chain, "milestone", name)

    def choose(self, targets: Collection[str]) -> None:
        """Second pass, backwards: settles the action of each step by whether it is wanted."""
        wanted = {*targets, *(digest for digest, each in self.steps.items() if each.forced)}
        missing = self._missing_data()
        for digest in reversed(self.steps):
            draft = self.steps[digest]
            if draft.action is Action.REUSE:
                draft = _data_gone(draft, missing[digest], digest in wanted)
            elif digest not in wanted:
                why = f"not needed ({draft.reason})"
                draft = dataclasses.replace(draft, action=Action.GONE, reason=why, causes=(), outlook="")
            head = self._found[digest].head
            may_wait = draft.action in (Action.RUN, Action.LINK) and not draft.forced
            if may_wait and head is not None and head.state == "held":
                why = f"{draft.reason}; {head.held_by}: reuse its output, or take over if it died"
                draft = dataclasses.replace(draft, action=Action.WAIT, reason=why)
            elif draft.action is Action.RUN and not draft.forced:
                left = half_done(self._store, digest, head, draft.source, self._options.on_code_change)
                draft = dataclasses.replace(draft, resumption=left.note)
            if draft.action in (Action.RUN, Action.WAIT):
                wanted.update(other for other, ref in draft.references if not self._serves_alone(other, ref))
                wanted.update(draft.after)
            elif draft.action is Action.LINK:  # needs to know what its inputs held, and not their data
                wanted.update(other for other in draft.dependency_digests if self.steps[other].action is Action.LINK)
            self.steps[digest] = draft
        for digest, draft in self.steps.items():
            if draft.action is Action.REUSE and (moving := self._remade(draft)):
                outlook = f"made again if {moving} comes out different"
                self.steps[digest] = dataclasses.replace(draft, outlook=outlook)

    def _remade(self, draft: PlannedStep) -> str:
        """Returns the name of an input of a finished step that this run makes again; "" if there is none."""
        remade = (self.steps[digest] for digest, ref in draft.references if ref.milestone is None)
        return next((each.step.name for each in remade if each.action in (Action.RUN, Action.WAIT)), "")

    def _missing_data(self) -> dict[str, list[tuple[str, str]]]:
        """Returns what is wrong with the output of each step that would be reused, as (path, reason)."""
        records = [(d, each.record) for d, each in self.steps.items() if each.record and each.action is Action.REUSE]
        found = self._store.look_up_all(lambda item: self._store.missing_files(item[1]), records)
        return {digest: missing for (digest, _), missing in zip(records, found, strict=True)}

    def _serves_alone(self, digest: str, ref: StepPath) -> bool:
        """Whether a milestone is there already, of a step that was never done: the step itself is not needed for it."""
        upstream = self.steps[digest]
        if ref.milestone is None or upstream.record is not None or upstream.forced:
            return False
        piece = self._milestone(digest, ref.milestone)
        if piece is None or self._store.missing_piece_files(piece):
            return False
        return piece.source_digest == upstream.source.digest or self._options.on_code_change is not OnCodeChange.RERUN


def _data_gone(draft: PlannedStep, missing: list[tuple[str, str]], wanted: bool) -> PlannedStep:
    if not missing:
        return draft
    path, why = missing[0]
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    what = f"data gone or damaged: {path} ({why}){more}"
    action, causes = (Action.RUN, (f"{draft.step.name}: {what}",)) if wanted else (Action.GONE, ())
    return dataclasses.replace(draft, action=action, reason=what, causes=causes)
