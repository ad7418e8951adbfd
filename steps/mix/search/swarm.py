"""A whole weight search as steps: designs, a proxy run of each, a surrogate, a candidate, and runs that check its gain.

designs -> mixture and run of each -> surrogate -> candidate -> pairs of runs with new seeds -> gain
"""

from collections.abc import Callable
from dataclasses import dataclass

from marin_exec import Resources, Step
from steps.mix.search.candidate import WEIGHTS_FILE, CandidateConfig, mixture_candidate
from steps.mix.search.designs import DesignsConfig, design_file, mixture_designs
from steps.mix.search.gain import GainConfig, mixture_gain
from steps.mix.search.surrogate import ProxyRun, SurrogateConfig, mixture_surrogate
from steps.mix.weights import Phase, StoredWeights, WeightsConfig, mixture_weights
from steps.train.language_model import TrainConfig, train_language_model


@dataclass(frozen=True, kw_only=True)
class SearchSize:
    """How much a search tries."""

    num_designs: int = 24
    """Proxy runs, that of the proportional mixture among them."""
    check_seeds: tuple[int, ...] = (1, 2)
    """Of the pairs of runs that check the candidate."""
    phase_starts: tuple[float, ...] = (0.0, 0.8)
    """Fraction of a run at which each phase starts."""
    block_sequences: int = 256
    """Sequences in a mixture block; weights are multiples of its inverse."""
    min_sequences: int = 16
    """Cells with fewer sequences join the tail."""
    max_epochs: float = 8.0
    """Most often that anything may be seen in the run that is simulated."""
    num_folds: int = 8
    """Of the surrogate's cross-fitting."""
    num_samples: int = 2_000
    """Mixtures that the candidate's search draws in a round."""
    seed: int = 0
    """Of designs, folds and candidates, and of the proxy runs, which all have the same."""


@dataclass(frozen=True, kw_only=True)
class WeightSearch:
    """The steps of a search."""

    designs: Step
    proxies: tuple[ProxyRun, ...]
    surrogate: Step
    candidate: Step
    mixture: Step
    """The candidate as mix/weights lays it out for the target's tokens."""
    gain: Step

    def phases(self, phase_starts: tuple[float, ...]) -> tuple[Phase, ...]:
        """Returns the candidate as phases for a mix/weights step of any other run on the same token store."""
        return _phases(self.candidate, WEIGHTS_FILE, phase_starts)


def weight_search(
    name: str,
    *,
    tokens: Step,
    sequence_length: int,
    target_tokens: int,
    proxy: Callable[[Step, int], TrainConfig],
    size: SearchSize,
    resources: Resources,
) -> WeightSearch:
    """Returns the steps of a search for the weights of a run of `target_tokens`.

    Args:
        name: before the names of all its steps, e.g. "search".
        tokens: token store of the training cells.
        sequence_length: tokens that a training sequence predicts.
        target_tokens: budget of the run that the weights are for; proxies simulate its epochs.
        proxy: given the mixture and a seed, the config of a proxy run; `simulated_budget_tokens` should be `target_tokens`
            and `subset_seed` one number, so that the runs differ in their mixture alone.
        size: how much is tried.
        resources: of a proxy run.
    """
    designs = Step(
        f"{name}/designs",
        mixture_designs,
        DesignsConfig(tokens=tokens, num_designs=size.num_designs, phase_starts=size.phase_starts, seed=size.seed),
    )

    def mixture(label: str, weights: Step, file: str) -> Step:
        config = WeightsConfig(
            tokens=tokens,
            sequence_length=sequence_length,
            budgets_tokens=(target_tokens,),
            phases=_phases(weights, file, size.phase_starts),
            block_sequences=size.block_sequences,
            min_sequences=size.min_sequences,
            max_epochs=size.max_epochs,
            over_cap="water_fill",
        )
        return Step(f"{name}/mixture/{label}", mixture_weights, config)

    def run(label: str, mixed: Step, seed: int) -> Step:
        return Step(f"{name}/run/{label}", train_language_model, proxy(mixed, seed), resources=resources)

    proxies = []
    for number in range(size.num_designs):
        label = f"design-{number:03d}"
        mixed = mixture(label, designs, design_file(number))
        proxies.append(ProxyRun(name=label, mixture=mixed, run=run(label, mixed, size.seed)))
    learnt = SurrogateConfig(tokens=tokens, runs=tuple(proxies), num_folds=size.num_folds, seed=size.seed)
    surrogate = Step(f"{name}/surrogate", mixture_surrogate, learnt)
    wanted = CandidateConfig(
        tokens=tokens,
        surrogate=surrogate,
        sequence_length=sequence_length,
        budgets_tokens=(target_tokens,),
        phase_starts=size.phase_starts,
        block_sequences=size.block_sequences,
        min_sequences=size.min_sequences,
        max_epochs=size.max_epochs,
        num_samples=size.num_samples,
        seed=size.seed,
    )
    candidate = Step(f"{name}/candidate", mixture_candidate, wanted)
    chosen = mixture("candidate", candidate, WEIGHTS_FILE)
    pairs = GainConfig(
        predictions=candidate,
        candidate_runs=tuple(run(f"candidate-seed{seed}", chosen, seed) for seed in size.check_seeds),
        proportional_runs=tuple(run(f"proportional-seed{seed}", proxies[0].mixture, seed) for seed in size.check_seeds),
        proxy_seed=size.seed,
    )
    gain = Step(f"{name}/gain", mixture_gain, pairs)
    return WeightSearch(
        designs=designs, proxies=tuple(proxies), surrogate=surrogate, candidate=candidate, mixture=chosen, gain=gain
    )


def _phases(weights: Step, file: str, starts: tuple[float, ...]) -> tuple[Phase, ...]:
    return tuple(
        Phase(rule=StoredWeights(weights=weights / file, phase=phase), start_fraction=start)
        for phase, start in enumerate(starts)
    )
