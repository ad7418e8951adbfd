"""Trains a small mixture-of-experts language model, as a step that a later attempt resumes bit for bit.

Output: `metrics.jsonl` (a line an update) and `evals.jsonl` (a line an evaluation), both of deterministic values only;
`run.json` (the config, parameter counts, FLOPs); `checkpoints/step-N/` (published as they are written; N updates are in
it); `timings.jsonl` (measured); `wandb/` (the tracker's files, unless it is elsewhere or off). This module holds what an
experiment file needs and loads no jax; the work is in `steps.train.loop`.
"""

from dataclasses import dataclass, field
from typing import Annotated

from marin_exec import ConfigError, InputPath, Out, added_default, kind, measured, runtime
from steps.config_checks import check_choice, check_number
from steps.mix.simulated_epochs import check_simulated_epochs
from steps.model.config import ModelConfig
from steps.train.cadence import checkpoint_name, due_steps
from steps.train.content import content_digest
from steps.train.watch_config import SpikeConfig, WatchConfig


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """MuonH, AdamH and Adam groups under one schedule."""

    learning_rate: float
    """Peak of the hyperball groups: the angle of one update, in radians for small values."""
    adam_learning_rate: float
    """Peak of the Adam group."""
    warmup_fraction: float = 0.01
    """Share of the updates over which the rates rise."""
    final_share: float = 0.05
    """Rates at the last update, as a share of their peaks."""
    momentum: float = 0.95
    """Muon's momentum (Nesterov)."""
    newton_schulz_iterations: int = 5
    """Orthogonalisation iterations."""
    beta1: float = 0.9
    """Adam's and AdamH's decay of the mean."""
    beta2: float = 0.95
    """Adam's and AdamH's decay of the square."""
    epsilon: float = 1e-15
    """Added to Adam's and AdamH's root mean square."""
    newton_schulz_coefficients: Annotated[str, added_default("quintic")] = "quintic"
    """Polynomials of the orthogonalisation: "quintic", five that differ from iteration to iteration (the hero run's), or
    "simple", Keller Jordan's one (3.4445, -4.7750, 2.0315) each time."""
    norm_over: Annotated[str, added_default("matrix")] = "matrix"
    """What MuonH keeps the norm of: "matrix", each expert's own; or "layer", all experts of a layer together, as the hero run did
    (marin-community/marin, experiments/grug/moe_hero_ep/optimizer.py; commit 186618b there takes each matrix)."""
    gate_router_decay: Annotated[float, added_default(0.0)] = 0.0
    """Decoupled weight decay of router and head gates at the first update, falling in a straight line to zero at the end; the
    hero run's is 0.02."""

    def __post_init__(self) -> None:
        check_choice(self, "newton_schulz_coefficients", ("quintic", "simple"))
        check_choice(self, "norm_over", ("matrix", "layer"))
        check_number(self, "gate_router_decay", low=0, below=1)


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """One training run."""

    model: ModelConfig
    """The shape."""
    optimizer: OptimizerConfig
    """Groups and schedule."""
    tokens: InputPath
    """Token store of the training cells (kind tokenize/cache)."""
    mixture: InputPath
    """Mixture over the cells (kind mix/weights)."""
    evaluation: InputPath
    """Token store of the held-out sets (kind tokenize/cache)."""
    batch_sequences: int
    """Sequences in one update."""
    num_steps: int
    """Updates."""
    seed: int = 0
    """Of the initial parameters and of the data order."""
    z_loss: float = 1e-4
    """Weight of the squared logsumexp of the logits in what is optimised."""
    evaluate_every: float = 0.05
    """Share of the run between evaluations; the end is always evaluated."""
    checkpoint_every: float = 0.25
    """Share of the run between checkpoints; the end is always kept."""
    evaluation_sequences: int | None = None
    """Sequences taken from the front of each held-out set; None takes all."""
    simulated_budget_tokens: Annotated[int | None, added_default(None)] = None
    """Simulated epoching, for experiments: the tokens of the larger run that this one stands for. Of each component only
    the share own tokens / these is used, so that data repeats as often as there. None for a run that is meant itself."""
    subset_seed: Annotated[int | None, added_default(None)] = None
    """With a simulated budget: which sequences are used; None goes by `seed`."""
    spikes: Annotated[SpikeConfig | None, added_default(None)] = None
    """Which updates are left out because their loss or gradient stands out; None leaves out none."""
    watch: Annotated[WatchConfig | None, added_default(None)] = None
    """What is looked at besides losses: norms, routers by layer, what the experts specialise in; None for nothing."""
    peak_flops: Annotated[float | None, runtime] = None
    """FLOPs a second that the devices in use can do at most, all together: what `throughput/mfu` is a share of."""
    real: Annotated[bool, runtime] = False
    """Marks a run that is meant itself and stands for no other: a simulated budget is refused."""
    racks: Annotated[int, runtime] = 1
    """Rows that the devices stand in: each has a copy of the experts, and batches are divided over all (`steps.model.mesh`)."""
    wandb_mode: Annotated[str, runtime] = "auto"
    """"auto" is online when WANDB_API_KEY is set and offline otherwise; or "online", "offline", "disabled"."""
    wandb_project: Annotated[str, runtime] = "marin-exec"
    """Project that the tracker files the run under."""
    wandb_directory: Annotated[str | None, runtime] = None
    """Folder that the tracker keeps its files in, when the run has ended if it is not local; None: the output (`wandb/`)."""
    wandb_timeout_seconds: Annotated[float, runtime] = 20.0
    """How long the tracker may take to go online before the run goes on without."""
    log_every: Annotated[int, runtime] = 20
    """Updates between progress lines."""

    def __post_init__(self) -> None:
        for name in ("batch_sequences", "num_steps", "racks", "log_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"train: {name} is {getattr(self, name)}; at least 1 is needed")
        check_number(self, "evaluation_sequences", "simulated_budget_tokens", low=1)
        if self.model.dispatch is not None:
            self.model.dispatch.check_batch(self.batch_sequences, "train")
        check_number(self, "peak_flops", above=0)
        check_simulated_epochs(self.run_tokens, self.simulated_budget_tokens, self.subset_seed, real=self.real)
        for name in ("evaluate_every", "checkpoint_every"):
            if not 0 < getattr(self, name) <= 1:
                raise ConfigError(
                    f"train: {name} is {getattr(self, name)}; a share of the run in (0, 1] is needed, e.g. 0.05"
                )
        if not self.wandb_timeout_seconds > 0:
            raise ConfigError(
                f"train: wandb_timeout_seconds is {self.wandb_timeout_seconds}; a time above 0 is needed, e.g. 20"
            )
        if self.wandb_mode not in ("auto", "online", "offline", "disabled"):
            raise ConfigError(
                f'train: wandb_mode is "{self.wandb_mode}"; "auto", "online", "offline" and "disabled" are allowed'
            )

    @property
    def run_tokens(self) -> int:
        """Tokens predicted in the whole run."""
        return self.num_steps * self.batch_sequences * self.model.sequence_length

    @property
    def checkpoints(self) -> list[str]:
        """Names of the milestones that the run publishes, in order, e.g. "checkpoints/step-100"."""
        return [checkpoint_name(step) for step in due_steps(self.num_steps, self.checkpoint_every)]


@dataclass(frozen=True)
class TrainResult:
    """What a run came to."""

    num_steps: int
    """Updates."""
    tokens: int
    """Positions predicted in training, padding included."""
    active_parameters: int
    """Met by one token in the blocks (`steps.model.counts`)."""
    total_parameters: int
    """Trained in all, embedding and output head included."""
    flops: int
    """Training FLOPs without the output head."""
    flops_with_lm_head: int
    """Training FLOPs with it."""
    final_loss: float
    """Mean cross-entropy of the last 5 % of updates, nats a token, with drops."""
    macro_loss: float
    """Held-out, dropless: mean over the sets, at the end."""
    micro_loss: float
    """Held-out, dropless: mean over all targets, at the end, nats a token."""
    macro_bpb: float
    """Held-out, dropless: mean of the sets' bits a byte, at the end."""
    drop_fraction: float
    """Dropped assignments over all assignments of the run."""
    router_entropy: float
    """Mean over layers at the last update, nats."""
    final_checkpoint: str
    """Below the output, e.g. "checkpoints/step-400"."""
    resumed_from_step: Annotated[int, measured] = 0
    """Updates taken over from earlier attempts; 0 for a run in one go."""
    reproducible_products: Annotated[bool, measured] = False
    """Whether matrix products had a fixed order of sums, whatever the number of threads (`steps.train.threads`)."""
    num_devices: Annotated[int, measured] = 1
    """Over which this attempt divided its batches, those of all ranks together."""
    seconds: Annotated[float, measured] = 0.0
    """Of this attempt."""
    cpu_seconds: Annotated[float, measured] = 0.0
    """Processor time of this attempt."""
    tokens_per_second: Annotated[float, measured] = 0.0
    """Of the median update of this attempt, evaluations and checkpoints apart."""
    first_update_seconds: Annotated[float, measured] = 0.0
    """Of this attempt's first update, in which everything is compiled."""
    seconds_by_part: Annotated[dict[str, float], measured] = field(default_factory=dict)
    """Of this attempt: data, update, evaluation, checkpoint, hooks (`steps.train.timing`)."""


@kind("train/language_model", version=1, content_digest=content_digest, gang=True)
def train_language_model(config: TrainConfig, out: Out) -> TrainResult | None:
    """Trains the model, evaluating and checkpointing on the way, from the latest published checkpoint if there is one.

    As a gang step it trains over the devices of all its ranks; rank 0 returns the result.

    Raises:
        ConfigError: the run does not fit the mixture (sequence length, budget), or its batches the number of devices.
        StepFailed: a value of an update is not finite, a checkpoint to go on from is damaged, or a held-out set can't be scored.
    """
    from steps.train.loop import train

    return train(config, out)
