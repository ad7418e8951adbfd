"""The collectives of a compiled program, read from its text: what the compiler really does, on devices that may be simulated.

The program is the training loss with its gradient, whose text is made without any array. A process simulates devices when it is
started with `XLA_FLAGS=--xla_force_host_platform_device_count=N`; 704 of them compile as 8 do.
"""

import math
import re
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from steps.model.config import ModelConfig
from steps.model.mesh import P, device_mesh, over_devices
from steps.model.parameters import parameter_shapes, parameter_tree
from steps.train.step import state_spec, training_loss

_COLLECTIVE = re.compile(
    r"= (?P<result>.*?) (?P<kind>all-to-all|all-gather|all-reduce|reduce-scatter|collective-permute)(?:-start)?\("
)
_SHAPE = re.compile(r"(?P<dtype>pred|[suf]\d+|bf16)\[(?P<sizes>[\d,]*)\]")


@dataclass(frozen=True)
class Collective:
    """One collective in a program's text; one inside the loop over layers stands there once."""

    kind: str
    """As XLA names it."""
    result_bytes: int
    """Of its result on one device: for an all-gather, all that was gathered."""
    in_loop: bool
    """Whether it is of a layer."""


def loss_collectives(model: ModelConfig, *, racks: int, batch_sequences: int) -> list[Collective]:
    """Compiles loss and gradient over the devices of this process, in so many racks, and returns the collectives in it."""
    with jax.set_mesh(device_mesh(racks)):
        mesh = jax.sharding.get_mesh()

        def abstract(shape: tuple[int, ...], dtype: jnp.dtype, spec: P) -> jax.ShapeDtypeStruct:
            return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

        shapes = parameter_tree(
            {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in parameter_shapes(model).items()}
        )
        parameters = jax.tree_util.tree_map_with_path(
            lambda path, leaf: abstract(leaf.shape, leaf.dtype, state_spec(path, leaf)), shapes
        )
        betas = abstract((model.num_layers, model.num_experts), jnp.dtype("float32"), P())
        rows = abstract((batch_sequences, model.sequence_length + 1), jnp.dtype("int32"), over_devices(batch_sequences))
        program = jax.jit(jax.value_and_grad(training_loss, has_aux=True), static_argnums=(4, 5))
        text = program.lower(parameters, betas, rows, rows, model, 1e-4).compile().as_text()
        assert text, "the backend has a text of what it compiled"
        return collectives(text)


def collectives(text: str) -> list[Collective]:
    """Returns the collectives in a compiled program's text."""
    found = []
    for line in text.splitlines():
        match = _COLLECTIVE.search(line)
        if match:
            in_loop = "/while/body" in line
            found.append(Collective(match["kind"], _bytes(match["result"]), in_loop))
    return found


def _bytes(shapes: str) -> int:
    """Bytes of a shape, or of all shapes of a tuple, as XLA writes them."""
    return sum(
        _width(each["dtype"]) * math.prod(int(size) for size in each["sizes"].split(",") if size)
        for each in _SHAPE.finditer(shapes)
    )


def _width(dtype: str) -> int:
    return 1 if dtype == "pred" else int(dtype.lstrip("bsuf")) // 8
