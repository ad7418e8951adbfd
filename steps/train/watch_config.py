"""What a training run looks at besides its losses, and which updates it leaves out. Loads no jax."""

from dataclasses import dataclass

from steps.config_checks import check_number


@dataclass(frozen=True, kw_only=True)
class SpikeConfig:
    """Leaves out updates whose loss or gradient norm stands out from those before.

    The rule is Levanter's `SkipStepConfig`, which is OLMo-core's: above the mean of the window by so many standard deviations.
    """

    window: int = 128
    """Updates before this one that it is compared with, those left out included. None is left out before half of the window
    has been seen."""
    deviations: float = 6.0
    """Standard deviations above the window's mean from which on an update is left out."""

    def __post_init__(self) -> None:
        check_number(self, "window", low=4)
        check_number(self, "deviations", above=0)


@dataclass(frozen=True, kw_only=True)
class WatchConfig:
    """What is written to `watch.jsonl` and `expert_loads.jsonl`, and what evaluations add."""

    every: int = 10
    """Updates between rows of `watch.jsonl`: norms by parameter, the router layer by layer."""
    by_layer: bool = False
    """Whether norms of stacked parameters are also given layer by layer."""
    load_sequences: int = 16
    """Sequences of each held-out set, from its front, whose experts are counted at every evaluation; 0 counts none."""
    seen_sequences: int = 32
    """Sequences that were trained on, spread over the run so far, whose loss is taken at every evaluation; 0 takes none."""
    with_drops_until: float = 0.0
    """Share of the run up to which evaluations are also made as trained, with what training would drop."""

    def __post_init__(self) -> None:
        check_number(self, "every", low=1)
        check_number(self, "load_sequences", "seen_sequences", low=0)
        check_number(self, "with_drops_until", low=0, high=1)
