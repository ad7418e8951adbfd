"""What one device holds of a training state, by abstract evaluation: the real state's shapes and its real layout, no arrays.

The shapes are those of `steps.train.step`, parameters and what its optimiser keeps for them; where each lies is what
`state_spec` says under an abstract mesh of the devices asked for.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from steps.model.config import ModelConfig
from steps.model.mesh import abstract_mesh
from steps.model.parameters import parameter_shapes, parameter_tree
from steps.train.language_model import OptimizerConfig
from steps.train.optimizer import optimizer, path_name
from steps.train.step import state_spec

_BYTES = 4
"""Of an f32: parameters and the optimiser's state are kept in it."""
_COMPUTE_BYTES = 2
"""Of a bf16."""


@dataclass(frozen=True)
class ArrayShare:
    """One array of the state."""

    path: str
    """Within its tree, e.g. "layers/expert_gate"."""
    members: int
    """Of the whole array."""
    members_here: int
    """Of the part on one device; every device has as many."""
    devices_with_the_same: int
    """Devices that hold the same part as one of them does."""


@dataclass(frozen=True)
class StateLayout:
    """A state over a mesh of racks x devices."""

    parameters: tuple[ArrayShare, ...]
    optimizer: tuple[ArrayShare, ...]

    @property
    def total_parameters(self) -> int:
        """Parameters of the model."""
        return sum(each.members for each in self.parameters)

    @property
    def parameters_per_device(self) -> int:
        """Parameters that one device holds."""
        return sum(each.members_here for each in self.parameters)

    @property
    def expert_parameters_per_device(self) -> int:
        """Those of them that are routed experts'."""
        return sum(each.members_here for each in self.parameters if _of_experts(each.path))

    @property
    def bytes_per_device(self) -> dict[str, int]:
        """Bytes by what they are: parameters, their gradients and the optimiser's state in f32, and a copy to compute with."""
        parameters = _BYTES * self.parameters_per_device
        return {
            "parameters": parameters,
            "gradients": parameters,
            "optimizer": _BYTES * sum(each.members_here for each in self.optimizer),
            "compute_copy_bf16": _COMPUTE_BYTES * self.parameters_per_device,
        }

    @property
    def whole_bytes(self) -> int:
        """Bytes of parameters, gradients and optimiser, each member once."""
        parameters = sum(each.members for each in self.parameters)
        return _BYTES * (2 * parameters + sum(each.members for each in self.optimizer))


def state_layout(model: ModelConfig, groups: OptimizerConfig, *, racks: int, columns: int) -> StateLayout:
    """Returns what each of racks x columns devices holds. Nothing is allocated, and no device of that kind is needed."""
    shapes = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in parameter_shapes(model).items()}
    parameters = parameter_tree(shapes)
    mesh = abstract_mesh(racks, columns)
    with jax.sharding.use_abstract_mesh(mesh):
        kept = jax.eval_shape(optimizer(groups, 0.0, 0.0).init, parameters)
        return StateLayout(tuple(_shares(parameters, mesh)), tuple(_shares(kept, mesh)))


def _shares(tree: Any, mesh: jax.sharding.AbstractMesh) -> Iterator[ArrayShare]:
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        spec = state_spec(path, leaf)
        here = NamedSharding(mesh, spec).shard_shape(leaf.shape)
        parts = 1
        for axis in jax.tree.leaves(tuple(spec)):
            parts *= mesh.shape[axis]
        yield ArrayShare(path_name(path), leaf.size, math.prod(here), mesh.size // parts)


def _of_experts(path: str) -> bool:
    return path.rsplit("/", 1)[-1].startswith("expert_")
