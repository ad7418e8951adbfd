"""Drops grow as the documents of a shard become fewer and longer, and what drops cost: `python -m benchmarks.model.drops`.

A model is trained on rows of 4 documents, then reads held-out rows of 256 tokens that hold 16 documents of 16 tokens, 8 of
32, and so on to one of 256: as many tokens a shard each time, less and less mixed. One row is one source shard; thresholds are
estimated on training rows of the same kind, as training would. No bar is on 16 documents: the first tokens of documents are
routed alike, whatever the document, and rows of so short ones are full of them. The loss on one document a shard is then
compared with that of the same weights without any limit. A minute or two on a quiet core.
"""

from dataclasses import replace

import numpy as np

from benchmarks.figures import Figures
from benchmarks.model._tiny import SHARDS, measured, on_mesh, rebalanced, tiny_model, trained
from steps.model.dispatch.drops import drop_metrics
from steps.model.dispatch.limits import PooledDispatch

STEPS = 150
DOCUMENTS = (16, 8, 4, 2, 1)
"""In a shard."""


def main() -> int:
    figures = Figures()
    model = tiny_model()
    with on_mesh():
        state = trained(model, num_steps=STEPS)
        fractions = []
        for number in DOCUMENTS:
            length = model.sequence_length // number
            state = rebalanced(state, model, document_length=length)
            held = measured(state, model, document_length=length, dropless=False)
            drops = drop_metrics(held.sender_L, held.receiver_L, held.assignments_per_layer)
            for part in ("sender_drop", "receiver_drop", "drop"):
                figures.add(f"{part}_fraction, {number} documents a shard", drops[f"moe/{part}_fraction"], "fraction")
            fractions.append(drops["moe/drop_fraction"])
        for fewer, ratio in zip(DOCUMENTS[2:], np.divide(fractions[2:], fractions[1:-1]), strict=True):
            figures.add(f"drops, {fewer} documents a shard over {2 * fewer}", float(ratio), "ratio", at_least=1.0)
        figures.add("drops, 1 document a shard over 8", fractions[-1] / fractions[1], "ratio", at_least=1.5)
        free = measured(state, model, document_length=model.sequence_length, dropless=True)
        figures.add("held-out loss, dropless", free.loss, "nats a byte")
        for capacity, bars in ((1.15, (None, None)), (1.0, (0.05, 1e-4))):
            tight = replace(
                model, dispatch=PooledDispatch(num_shards=SHARDS, sender_capacity=capacity, receiver_capacity=capacity)
            )
            held = measured(state, tight, document_length=model.sequence_length, dropless=False)
            drops = drop_metrics(held.sender_L, held.receiver_L, held.assignments_per_layer)
            named = f"1 document a shard, capacities {capacity}"
            figures.add(f"{named}: drops", drops["moe/drop_fraction"], "fraction", at_least=bars[0])
            figures.add(
                f"{named}: held-out loss less the dropless one", held.loss - free.loss, "nats a byte", at_least=bars[1]
            )
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
