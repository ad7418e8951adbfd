"""Where a run's experts and sequences lie: expert parallelism inside a rack, data parallelism over racks."""

from dataclasses import dataclass

from steps.recipe.checks import check_at_least
from steps.recipe.geometry import Geometry


@dataclass(frozen=True, kw_only=True)
class Rack:
    """One rack, the group of devices that the experts of a layer are shared out over."""

    devices: int
    """That train; the expert axis of the mesh."""
    devices_installed: int
    """In the rack, spares included."""
    sequences: int
    """Of an update, whatever the number of racks: load and drops in a rack then stay the same over the ladder."""

    def __post_init__(self) -> None:
        check_at_least(self, 1, "devices", "sequences")
        check_at_least(self, self.devices, "devices_installed")


@dataclass(frozen=True, kw_only=True)
class Mesh:
    """The mesh of one run: racks (data parallel) x devices in a rack (expert parallel)."""

    rack: Rack
    racks: int

    @property
    def axes(self) -> dict[str, int]:
        """Mesh axes and their sizes, the slower network first."""
        return {"rack": self.racks, "expert": self.rack.devices}

    @property
    def devices(self) -> int:
        """That train."""
        return self.racks * self.rack.devices

    @property
    def devices_installed(self) -> int:
        """In the racks of the run."""
        return self.racks * self.rack.devices_installed

    def experts_per_device(self, geometry: Geometry) -> int:
        """Returns the routed experts of each layer that a device holds.

        Raises:
            ValueError: the experts do not divide over the devices of a rack.
        """
        each, rest = divmod(geometry.shape.num_experts, self.rack.devices)
        if rest:
            raise ValueError(
                f"mesh: {geometry.shape.num_experts} experts over {self.rack.devices} devices of a rack leaves {rest} over; "
                f"the number of devices must divide the number of experts"
            )
        return each

    def rows_per_expert(self, geometry: Geometry, tokens_per_step: int) -> float:
        """Returns the rows that one expert gets from one device on average in an update: tokens x K / E."""
        return tokens_per_step / self.devices * geometry.shape.experts_per_token / geometry.shape.num_experts
