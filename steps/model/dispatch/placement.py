"""How the virtual shards of a dispatch lie over the devices of a mesh, and how large the buffers on one device are.

All of it is known before anything is compiled. Devices stand in `racks` rows of `columns`: source shards lie in order along the
rows, expert shards in order along the columns, each rack with a copy of all experts.
"""

from dataclasses import dataclass
from fractions import Fraction

from marin_exec import ConfigError
from steps.model.dispatch.limits import PooledDispatch

_LARGEST = 2**31 - 1  # of an i32


@dataclass(frozen=True)
class Placement:
    """The part of one device, the same on each."""

    dispatch: PooledDispatch
    """The virtual shards and their limits."""
    num_experts: int
    """Of the layer, over all expert shards."""
    tokens_per_shard: int
    """Of one source shard, padding included."""
    choices: int
    """Experts that one token is sent to."""
    racks: int
    """Rows of the device mesh."""
    columns: int
    """Devices in a row, over which the experts are divided."""

    @property
    def shards_here(self) -> int:
        """Source shards on one device."""
        return self.dispatch.source_shards // (self.racks * self.columns)

    @property
    def expert_shards_here(self) -> int:
        """Expert shards on one device."""
        return self.dispatch.num_shards // self.columns

    @property
    def experts_per_shard(self) -> int:
        """Experts of one expert shard."""
        return self.num_experts // self.dispatch.num_shards

    @property
    def racks_per_group(self) -> int:
        """Rows of devices that one group lies over; 1 where a row holds whole groups."""
        return max(1, self.racks // self.dispatch.num_groups)

    @property
    def groups_here(self) -> int:
        """Groups whose rows reach one row of devices."""
        return max(1, self.dispatch.num_groups // self.racks)

    @property
    def pool_rows(self) -> int:
        """Rows of one pool's buffer: its limit for a shard without padding, but no more than could ever come."""
        assignments = self.tokens_per_shard * self.choices
        most = self.tokens_per_shard * min(self.choices, self.experts_per_shard)
        limit = _ceil(self.dispatch.sender_share() * assignments)
        return max(1, min(limit, -(-most // self.dispatch.num_waves)))

    @property
    def expert_rows(self) -> int:
        """Rows of one expert's buffer for one group and wave, in the same way."""
        assignments = self.dispatch.num_shards * self.tokens_per_shard * self.choices
        limit = _ceil(self.dispatch.receiver_share(self.num_experts) * assignments)
        return max(1, min(limit, self.dispatch.num_shards * min(self.pool_rows, self.tokens_per_shard)))

    @property
    def send_rows(self) -> int:
        """Rows that one device sends, which is as many as it gets: its shards' pools, full or not."""
        return self.shards_here * self.dispatch.num_shards * self.dispatch.num_waves * self.pool_rows

    @property
    def rows_of_experts(self) -> int:
        """Rows that one device's experts have room for, in all groups and waves."""
        rows = self.groups_here * self.dispatch.num_waves * self.expert_rows
        return self.expert_shards_here * self.experts_per_shard * rows


def placed(
    dispatch: PooledDispatch, *, num_experts: int, num_tokens: int, choices: int, racks: int, columns: int
) -> Placement:
    """Returns the placement of a batch of `num_tokens` tokens.

    Raises:
        ConfigError: the experts can't be divided over the shards, the tokens over the shards, or the shards over the devices, or
            a capacity factor has too many digits.
    """
    shards, groups = dispatch.num_shards, dispatch.num_groups
    if num_experts % shards:
        raise ConfigError(f"dispatch: {num_experts} experts over {shards} shards; num_shards must divide the experts")
    if num_tokens % dispatch.source_shards:
        raise ConfigError(
            f"dispatch: a batch of {num_tokens} tokens over {groups} groups of {shards} shards; their number, "
            f"{dispatch.source_shards}, must divide it. Choose batch_sequences as a multiple of it"
        )
    together = groups % racks == 0 or racks % groups == 0
    if shards % columns or not together or dispatch.source_shards % (racks * columns):
        raise ConfigError(
            f"dispatch: {groups} groups of {shards} shards over {racks} x {columns} devices; the columns must divide the "
            "shards, the racks must divide the groups or be a multiple of them, and each device needs as many shards as any other"
        )
    shares = {"sender_capacity": dispatch.sender_share(), "receiver_capacity": dispatch.receiver_share(num_experts)}
    for name, share in shares.items():
        if share.numerator * share.denominator > _LARGEST:
            raise ConfigError(
                f"dispatch: {name} is {getattr(dispatch, name)}, which as a share of {num_experts} experts and {shards} shards is "
                f"{share}; such a limit can't be worked out in 32 bits. Choose a factor of fewer digits, e.g. 1.15"
            )
    return Placement(dispatch, num_experts, num_tokens // dispatch.source_shards, choices, racks, columns)


def _ceil(value: Fraction) -> int:
    return -(-value.numerator // value.denominator)
