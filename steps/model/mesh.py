"""All devices of a run, of one process or of several, as one mesh, and which part of an array lies where.

One axis is divided over the devices: `expert`. A batch's rows lie along it, and so do the experts, with their optimiser state,
if their number divides; all else is whole on every device. Which rows are dropped, and each expert's products, are those of the
whole batch, so the number of devices changes no more than the order of sums over a batch.

The other axes have one device. They are there because Levanter's parts look for them: its router reshards along an explicit axis
(`batch`), its Newton-Schulz iteration constrains along automatic ones (`data`, `model`), cutting each matrix in parts.
"""

from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

AXIS = "expert"
_AXES = {"batch": AxisType.Explicit, "data": AxisType.Auto, "model": AxisType.Auto, AXIS: AxisType.Auto}


def device_mesh() -> Mesh:
    """Returns a mesh of all devices of all processes, in order of process."""
    devices = np.array(jax.devices()).reshape((1,) * (len(_AXES) - 1) + (-1,))
    return Mesh(devices, tuple(_AXES), axis_types=tuple(_AXES.values()))


def num_devices() -> int:
    """Returns over how many devices the mesh in use divides rows and experts; 1 where none is set."""
    return jax.sharding.get_abstract_mesh().shape.get(AXIS, 1)


def over_devices(size: int, axis: int = 0) -> P:
    """Returns how an array lies whose `axis` has so many members: divided if their number divides, else whole everywhere."""
    return P(*[None] * axis, AXIS) if size % num_devices() == 0 else P()


def constrained(array: jax.Array, spec: P) -> jax.Array:
    """Returns the array, inside a compiled function, lying as `spec` says."""
    return jax.lax.with_sharding_constraint(array, spec) if num_devices() > 1 else array


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
