"""How long a run trains: tokens in proportion to its active parameters, a batch in proportion to its racks."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Horizon:
    """Length and batch of one run."""

    num_steps: int
    """Updates."""
    batch_sequences: int
    """Sequences in an update."""
    sequence_length: int
    """Tokens that a sequence predicts, at the start of the run."""

    @property
    def tokens_per_step(self) -> int:
        """Tokens in an update."""
        return self.batch_sequences * self.sequence_length

    @property
    def tokens(self) -> int:
        """Tokens of the whole run."""
        return self.num_steps * self.tokens_per_step


def rule_steps(active_parameters: int, tokens_per_active: int, tokens_per_step: int) -> int:
    """Returns the updates whose tokens are nearest to `tokens_per_active` for each active parameter; at least 1."""
    return max(1, round(tokens_per_active * active_parameters / tokens_per_step))
