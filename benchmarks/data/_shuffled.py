"""The command line, with the shards of every step done in a shuffled order: `python -m benchmarks.data._shuffled SEED run ...`."""

import random
import sys
from collections.abc import Generator

from marin_exec.cli import main
from marin_exec.runners import local
from marin_exec.runners.shards import Piece, ShardLost, ShardTask, map_in_process
from marin_exec.runners.task import Failure


def shuffle_shards(seed: int) -> None:
    """Has the local backend take the shards of each `map_shards` in an order of the seed's."""
    order = random.Random(seed)

    def map_shuffled(shards: list[ShardTask], cpus: float) -> Generator[Piece | Failure | ShardLost]:
        return map_in_process(order.sample(shards, len(shards)), cpus)

    local.map_in_process = map_shuffled


if __name__ == "__main__":
    shuffle_shards(int(sys.argv.pop(1)))
    main()
