"""What pooled dispatch lets through, as plain data: importing it loads no jax.

Every size is worked out from a capacity factor exactly, as a fraction of integers: the number of rows that a pool or an expert
takes does not hang on how a product of floats is rounded.
"""

from dataclasses import dataclass
from fractions import Fraction

from marin_exec import ConfigError
from steps.config_checks import check_number


@dataclass(frozen=True, kw_only=True)
class PooledDispatch:
    """Rows travel from source shards to expert shards in pools of fixed size; what finds its pool or its expert full is dropped.

    A batch is cut into `num_groups x num_shards` source shards of equal numbers of whole sequences. Within a group, each
    source shard has one pool for each of `num_shards` expert shards, and each expert takes rows of its own group up to a limit.
    The shards are virtual: what is dropped depends on them and never on the devices that they are laid over.

    The rule and its defaults are those of the 535B run (issue 8435 of marin-community/marin: 64 shards in each of 11 groups, both
    factors 1.15, three waves), and its transport is Levanter's `fixed_pooled_wave_all_to_all`.
    """

    num_shards: int
    """Source shards of a group, and shards that the experts are divided into."""
    num_groups: int = 1
    """Groups that exchange no rows (racks of the run); each has a copy of every expert."""
    sender_capacity: float = 1.15
    """Rows of a pool, as a multiple of the even share: a shard's assignments / num_shards."""
    receiver_capacity: float = 1.15
    """Rows of an expert from its group, as a multiple of the even share: the group's assignments / experts."""
    num_waves: int = 1
    """Equal parts that each pool is dealt into in turn; both limits then hold for each wave by itself."""

    def __post_init__(self) -> None:
        check_number(self, "num_shards", "num_groups", "num_waves", low=1)
        check_number(self, "sender_capacity", "receiver_capacity", above=0)

    @property
    def source_shards(self) -> int:
        """Source shards of all groups."""
        return self.num_groups * self.num_shards

    def check_batch(self, batch_sequences: int, where: str) -> None:
        """Checks that a batch can be cut into shards of whole sequences.

        Raises:
            ConfigError: it can't; `where` says whose batch it is.
        """
        if batch_sequences % self.source_shards:
            raise ConfigError(
                f"{where}: batches of {batch_sequences} sequences; {self.num_groups} groups of {self.num_shards} shards need a "
                f"multiple of {self.source_shards}"
            )

    def sender_share(self) -> Fraction:
        """Returns a pool's rows, before rounding up, for each assignment of its source shard; of one wave."""
        return Fraction(str(self.sender_capacity)) / (self.num_shards * self.num_waves)

    def receiver_share(self, num_experts: int) -> Fraction:
        """Returns an expert's rows, before rounding up, for each assignment of its group; of one wave."""
        return Fraction(str(self.receiver_capacity)) / (num_experts * self.num_waves)
