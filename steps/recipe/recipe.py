"""A recipe: what is chosen for a large run and its ladder; and a rung: everything that follows from that for one width.

Nothing in a `Rung` is chosen: every number is a function of the recipe and of one `RunChoice`.
"""

from dataclasses import dataclass

from steps.recipe.cadence import Cadence, parts
from steps.recipe.checks import check_at_least
from steps.recipe.context import ContextSchedule
from steps.recipe.flops import PUBLISHED_WITH_HEAD, FlopConvention, training_flops
from steps.recipe.geometry import Geometry, Shape, ladder_depth
from steps.recipe.horizon import Horizon, rule_steps
from steps.recipe.mesh import Mesh, Rack
from steps.recipe.mixture import MixtureChange, MixturePlan, Stage, stages
from steps.recipe.parameters import active_parameters, total_parameters
from steps.recipe.rates import FadingDecay, OptimizerRule, Rates, rates


@dataclass(frozen=True, kw_only=True)
class RunChoice:
    """What is chosen for one run."""

    width: int
    racks: int
    num_layers: int | None = None
    """None: `geometry.ladder_depth`."""
    num_steps: int | None = None
    """None: the recipe's tokens for each active parameter."""
    evaluate_every_steps: int | None = None
    """None: a share of the run, as often as the recipe says."""
    checkpoint_every_steps: int | None = None
    """None: only at the end."""
    changes: tuple[MixtureChange, ...] = ()
    """Of the mixture, decided on the way."""
    decay: FadingDecay | None = None
    """Put on on the way."""

    def __post_init__(self) -> None:
        counts = ("width", "racks", "num_layers", "num_steps", "evaluate_every_steps", "checkpoint_every_steps")
        check_at_least(self, 1, *counts)


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many rows more than the even share are taken in training; what is above is dropped."""

    sender: float
    """A source device's pool for one destination device, as a multiple of the even share."""
    receiver: float
    """An expert's rows, as a multiple of the even share."""
    waves: int
    """Parts that each pool is sent in."""


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A large run, the ladder of smaller runs that it is forecast from, and the rules that they share."""

    name: str
    shape: Shape
    target: RunChoice
    """The large run."""
    ladder: tuple[RunChoice, ...]
    """The smaller ones, smallest first."""
    tokens_per_active: int
    """Training tokens for each active parameter."""
    rack: Rack
    capacity: Capacity
    optimizer: OptimizerRule
    z_loss: float
    """Weight of the squared logsumexp of the logits in the loss."""
    mixture: MixturePlan
    context: ContextSchedule
    """Of the target."""
    ladder_evaluations: int
    """Evaluations of a rung: one every round(steps / this) updates."""
    seed: int
    storage_quota_bytes: int | None = None
    """For the checkpoints that stay; None: no limit is known."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "tokens_per_active", "ladder_evaluations")

    @property
    def rungs(self) -> tuple["Rung", ...]:
        """The ladder's runs."""
        return tuple(Rung(recipe=self, choice=choice) for choice in self.ladder)

    @property
    def target_run(self) -> "Rung":
        """The large run."""
        return Rung(recipe=self, choice=self.target)

    @property
    def runs(self) -> tuple["Rung", ...]:
        """The ladder's runs, then the large one."""
        return (*self.rungs, self.target_run)

    def ladder_share(self, convention: FlopConvention = PUBLISHED_WITH_HEAD) -> float:
        """Returns the FLOPs of all rungs over those of the large run."""
        return sum(rung.flops(convention) for rung in self.rungs) / self.target_run.flops(convention)

    def run(self, name: str) -> "Rung":
        """Returns a run by its name, such as "d768".

        Raises:
            ValueError: there is none of that name.
        """
        found = {run.name: run for run in self.runs}
        if name not in found:
            raise ValueError(f"recipe {self.name}: no run is named {name!r}; {', '.join(found)} are")
        return found[name]


@dataclass(frozen=True, kw_only=True)
class Rung:
    """All of one run."""

    recipe: Recipe
    choice: RunChoice

    @property
    def name(self) -> str:
        """By its width, e.g. "d768"."""
        return f"d{self.choice.width}"

    @property
    def is_target(self) -> bool:
        """Whether it is the large run."""
        return self.choice is self.recipe.target

    @property
    def geometry(self) -> Geometry:
        """Its shape."""
        depth = self.choice.num_layers or ladder_depth(self.choice.width)
        return Geometry(shape=self.recipe.shape, width=self.choice.width, num_layers=depth)

    @property
    def mesh(self) -> Mesh:
        """Where it runs."""
        return Mesh(rack=self.recipe.rack, racks=self.choice.racks)

    @property
    def active_parameters(self) -> int:
        """Met by one token in the blocks."""
        return active_parameters(self.geometry)

    @property
    def total_parameters(self) -> int:
        """In all."""
        return total_parameters(self.geometry)

    @property
    def horizon(self) -> Horizon:
        """Its length and batch."""
        batch, length = self.recipe.rack.sequences * self.choice.racks, self.recipe.shape.sequence_length
        by_rule = rule_steps(self.active_parameters, self.recipe.tokens_per_active, batch * length)
        return Horizon(num_steps=self.choice.num_steps or by_rule, batch_sequences=batch, sequence_length=length)

    @property
    def rates(self) -> Rates:
        """Its learning rates and Adam's constants."""
        horizon = self.horizon
        return rates(
            self.recipe.optimizer,
            width=self.choice.width,
            num_steps=horizon.num_steps,
            batch_sequences=horizon.batch_sequences,
            sequence_length=horizon.sequence_length,
        )

    @property
    def evaluations(self) -> Cadence:
        """When it is evaluated on the held-out sets, dropless."""
        if self.choice.evaluate_every_steps is None:
            return parts(self.horizon.num_steps, self.recipe.ladder_evaluations)
        return Cadence(every_steps=self.choice.evaluate_every_steps, at_start=True)

    @property
    def checkpoints(self) -> Cadence:
        """When a checkpoint is made that stays."""
        return Cadence(every_steps=self.choice.checkpoint_every_steps or self.horizon.num_steps)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Its data, at the batch that it starts with."""
        return self.stages_at(self.horizon.batch_sequences)

    @property
    def simulated_budget_tokens(self) -> int | None:
        """The tokens that it stands for, by whose budget its data repeats; None if it uses all data."""
        plan = self.recipe.mixture
        small = plan.simulate_below_flops is not None and self.flops() < plan.simulate_below_flops
        return plan.budget_tokens if small else None

    def stages_at(self, batch_sequences: int) -> tuple[Stage, ...]:
        """Returns its stages if an update had so many sequences, as after a change of context."""
        return stages(
            self.recipe.mixture,
            self.choice.changes,
            num_steps=self.horizon.num_steps,
            batch_sequences=batch_sequences,
        )

    def flops(self, convention: FlopConvention = PUBLISHED_WITH_HEAD) -> int:
        """Returns its training FLOPs in a convention, all at the sequence length that it starts with."""
        return training_flops(self.geometry, self.horizon.tokens, convention)
