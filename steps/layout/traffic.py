"""What travels between devices in one update, by rule from shapes: how often, how many bytes, between which devices.

Bytes are those that one device gives to the collective: the pools that it sends, the partial sums that it adds up. What a
compiled program really holds is read by `steps.layout.compiled`, and the two are compared. Statistics of a few numbers an
expert are left out. Activations and gradients are f32 here; in bf16 the rows are half.

Collectives are between the devices of a rack ("expert"), between those that have the same place in each rack ("rack"), or all.
"""

from dataclasses import dataclass

from steps.layout.state import StateLayout
from steps.model.balancing import NUM_BINS
from steps.model.config import ModelConfig
from steps.model.dispatch.placement import Placement

_BYTES = 4
"""Of an f32 or an i32."""


@dataclass(frozen=True)
class Transfer:
    """One kind of collective."""

    what: str
    """In words."""
    kind: str
    """As XLA names it: "all-to-all", "all-gather", "all-reduce"."""
    between: str
    """"expert", "rack" or "all"."""
    forward: int
    """Times in a layer's forward pass, or in the whole update for what is not of a layer."""
    backward: int
    """Times in the backward pass."""
    bytes_per_device: int
    """That one device gives each time."""

    @property
    def total_bytes(self) -> int:
        """Bytes that one device gives in a forward and a backward pass."""
        return (self.forward + self.backward) * self.bytes_per_device


def layer_traffic(model: ModelConfig, placement: Placement) -> tuple[Transfer, ...]:
    """Returns the collectives of one layer with pooled dispatch."""
    devices = placement.racks * placement.columns
    found = []
    if placement.columns > 1:
        rows = placement.send_rows * model.routed_width * _BYTES
        found += [
            Transfer("pools of rows, out and back", "all-to-all", "expert", 2, 2, rows),
            Transfer("headers of pools", "all-to-all", "expert", 1, 0, placement.send_rows * _BYTES),
            Transfer("assignments of source shards", "all-gather", "expert", 1, 0, placement.shards_here * _BYTES),
        ]
    if placement.racks_per_group > 1:
        found.append(Transfer("headers over racks", "all-gather", "rack", 1, 0, placement.send_rows * _BYTES))
    if devices > 1 and model.balancing == "histogram":
        counts = model.num_experts * NUM_BINS * _BYTES
        found.append(Transfer("counts of the balancing histogram", "all-reduce", "all", 1, 0, counts))
    return tuple(found)


def update_traffic(state: StateLayout, *, racks: int, columns: int) -> tuple[Transfer, ...]:
    """Returns the collectives of one update that are not of one layer: gradients, summed over the devices with the same part."""
    experts = state.expert_parameters_per_device
    found = []
    if racks > 1:
        found.append(Transfer("gradients of experts", "all-reduce", "rack", 0, 1, experts * _BYTES))
    if racks * columns > 1:
        rest = (state.parameters_per_device - experts) * _BYTES
        found.append(Transfer("gradients of all else", "all-reduce", "all", 0, 1, rest))
    return tuple(found)
