"""All devices of a run, of one process or of several, as one mesh, and which part of an array lies where.

Two axes are divided over the devices, `rack` and `expert`: devices stand in racks, by default all in one. A batch's rows lie
along both. The experts, with their optimiser state, lie along `expert` if their number divides, and each rack has a copy of
them; all else is whole on every device. Which rows are dropped, and each expert's products, are those of the whole batch, so
the number and order of devices changes no more than the order of sums over a batch.

The other axes have one device. They are there because Levanter's parts look for them: its router reshards along an explicit axis
(`batch`), its Newton-Schulz iteration constrains along automatic ones (`data`, `model`), cutting each matrix in parts.
"""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from marin_exec import ConfigError

AXIS = "expert"
RACKS = "rack"
_AXES = {
    "batch": AxisType.Explicit,
    "data": AxisType.Auto,
    "model": AxisType.Auto,
    RACKS: AxisType.Auto,
    AXIS: AxisType.Auto,
}


def device_mesh(racks: int = 1) -> Mesh:
    """Returns a mesh of all devices of all processes, in order of process, in so many racks.

    Raises:
        ConfigError: the racks do not divide the devices.
    """
    found = jax.devices()
    if racks < 1 or len(found) % racks:
        raise ConfigError(f"mesh: {len(found)} devices in {racks} racks; a number that divides the devices is needed")
    devices = np.array(found).reshape((1,) * (len(_AXES) - 2) + (racks, -1))
    return Mesh(devices, tuple(_AXES), axis_types=tuple(_AXES.values()))


def abstract_mesh(racks: int, columns: int) -> jax.sharding.AbstractMesh:
    """Returns a mesh of racks x columns devices that need not be there, to work out layouts under `use_abstract_mesh`."""
    sizes = (1,) * (len(_AXES) - 2) + (racks, columns)
    return jax.sharding.AbstractMesh(sizes, tuple(_AXES), axis_types=tuple(_AXES.values()))


def mesh_shape() -> tuple[int, int]:
    """Returns the racks of the mesh in use, and the devices in each; 1 and 1 where none is set."""
    shape = jax.sharding.get_abstract_mesh().shape
    return shape.get(RACKS, 1), shape.get(AXIS, 1)


def num_devices() -> int:
    """Returns over how many devices the mesh in use divides rows; 1 where none is set."""
    racks, columns = mesh_shape()
    return racks * columns


def over_devices(size: int, axis: int = 0) -> P:
    """Returns how an array lies whose `axis` has so many members: divided if their number divides, else whole everywhere."""
    return P(*[None] * axis, (RACKS, AXIS)) if size % num_devices() == 0 else P()


def over_experts(size: int, axis: int = 0) -> P:
    """Returns how an array of experts lies: divided within a rack if their number divides, the same in each rack."""
    return P(*[None] * axis, AXIS) if size % mesh_shape()[1] == 0 else P()


def constrained(array: jax.Array, spec: P) -> jax.Array:
    """Returns the array, inside a compiled function, lying as `spec` says."""
    return jax.lax.with_sharding_constraint(array, spec) if num_devices() > 1 else array


def on_own_rows[T](function: Callable[..., T], whole: Any, *rows: jax.Array) -> T:
    """Returns function(whole, *rows), each device working on its own rows; what the function returns must be rows likewise.

    Left to itself the compiler gathers all rows on every device for some operations: to sort them, or to add up the gradient of
    an indexed read.

    Args:
        function: of `whole` and of any equal share of the rows.
        whole: arrays that every device has all of.
        rows: arrays divided along their first axis; where their number does not divide, they are whole too.
    """
    if num_devices() == 1 or any(each.shape[0] % num_devices() for each in rows):
        return function(whole, *rows)
    spec = P((RACKS, AXIS))
    in_specs = (P(), *(spec for _ in rows))
    return jax.shard_map(function, in_specs=in_specs, out_specs=spec, axis_names={RACKS, AXIS}, check_vma=False)(
        whole, *rows
    )


def added_over_devices(function: Callable[..., jax.Array], whole: Any, *rows: jax.Array) -> jax.Array:
    """Returns the sum over devices of function(whole, *its own rows), for a function that is a sum over rows."""
    if num_devices() == 1 or any(each.shape[0] % num_devices() for each in rows):
        return function(whole, *rows)
    in_specs = (P(), *(P((RACKS, AXIS)) for _ in rows))
    return jax.shard_map(
        lambda *own: jax.lax.psum(function(*own), (RACKS, AXIS)),
        in_specs=in_specs,
        out_specs=P(),
        axis_names={RACKS, AXIS},
        check_vma=False,
    )(whole, *rows)


def global_array(spec: P, values: np.ndarray) -> jax.Array:
    """Returns an array over the mesh in use, of whose values every process has all."""
    sharding = NamedSharding(jax.sharding.get_mesh(), spec)
    return jax.make_array_from_callback(values.shape, sharding, lambda index: values[index])


def local_rows(num_rows: int) -> slice:
    """Returns which of an array's rows lie on this process's devices; all where they can't be divided over the devices."""
    sharding = NamedSharding(jax.sharding.get_mesh(), over_devices(num_rows))
    indices = sharding.addressable_devices_indices_map((num_rows,)).values()
    bounds = [index[0].indices(num_rows) for index in indices if index is not None]
    return slice(min(start for start, _, _ in bounds), max(stop for _, stop, _ in bounds))


def array_of_rows(rows: np.ndarray, num_rows: int) -> jax.Array:
    """Returns an array over the mesh in use whose first axis has `num_rows` members, given this process's `local_rows`."""
    sharding = NamedSharding(jax.sharding.get_mesh(), over_devices(num_rows))
    return jax.make_array_from_process_local_data(sharding, rows, (num_rows, *rows.shape[1:]))


def host_array(array: Any) -> np.ndarray:
    """Returns the whole of an array as NumPy. Of an array that several processes hold parts of, all of them must ask."""
    if isinstance(array, jax.Array) and not array.is_fully_addressable and not array.is_fully_replicated:
        from jax.experimental.multihost_utils import process_allgather

        return np.ascontiguousarray(process_allgather(array, tiled=True))
    return np.ascontiguousarray(array)
