"""Drops grow as the documents of a shard become fewer and longer, and what drops cost: `python -m benchmarks.model.drops`.

A model is trained on rows of 4 documents, then reads held-out rows of 256 tokens that hold 16 documents of 16 tokens, 8 of
32, and so on to one of 256: as many tokens a shard each time, less and less mixed. One row is one source shard. Its loss on
one document a shard is then compared with that of the same weights without any limit. A minute or two on a quiet core.
"""

from benchmarks.figures import Figures
from benchmarks.model._tiny import measured, on_mesh, tiny_model, trained
from steps.model.dispatch.drops import drop_metrics

STEPS = 150
DOCUMENT_LENGTHS = (16, 32, 64, 128, 256)


def main() -> int:
    figures = Figures()
    model = tiny_model()
    with on_mesh():
        state = trained(model, num_steps=STEPS)
        fractions: list[float] = []
        for length in DOCUMENT_LENGTHS:
            held = measured(state, model, document_length=length, dropless=False)
            drops = drop_metrics(held.sender_L, held.receiver_L, held.assignments_per_layer)
            per_shard = model.sequence_length // length
            for part in ("sender", "receiver"):
                figures.add(
                    f"{part} drops, {per_shard} documents a shard", drops[f"moe/{part}_drop_fraction"], "fraction"
                )
            lowest = fractions[-1] if fractions else None
            figures.add(
                f"drops, {per_shard} documents a shard", drops["moe/drop_fraction"], "fraction", at_least=lowest
            )
            fractions.append(drops["moe/drop_fraction"])
        figures.add("drops, 1 document a shard over 16", fractions[-1] / fractions[0], "ratio", at_least=1.5)
        figures.add("drops in the comparison of losses", fractions[-1], "fraction", at_least=0.05)
        limited, free = (
            measured(state, model, document_length=DOCUMENT_LENGTHS[-1], dropless=dropless)
            for dropless in (False, True)
        )
        figures.add("held-out loss with drops", limited.loss, "nats a byte")
        figures.add("held-out loss, dropless", free.loss, "nats a byte")
        figures.add("what drops cost", limited.loss - free.loss, "nats a byte", at_least=1e-4)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
