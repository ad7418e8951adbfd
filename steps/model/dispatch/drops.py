"""What was dropped in one batch, as fractions and totals under the names that the 535B run logs them by.

All fractions but one have the same denominator, all assignments of the batch (padding included): tokens x choices x layers.
Counts are summed in 64 bits: a batch of that run has 1.8e10 assignments over its layers, too many for 32.
"""

import numpy as np


def drop_metrics(sender_L: np.ndarray, receiver_L: np.ndarray, assignments_per_layer: int) -> dict[str, float]:
    """Returns totals over the layers (whole numbers) and fractions, by their public names.

    Args:
        sender_L: int[layers] assignments that found their pool full.
        receiver_L: int[layers] assignments that arrived and found their expert full.
        assignments_per_layer: tokens of the batch x experts per token.
    """
    sender, receiver = (int(np.asarray(each).astype(np.int64).sum()) for each in (sender_L, receiver_L))
    total = assignments_per_layer * len(np.asarray(sender_L))
    return {
        "moe/dropped_assignments": sender + receiver,
        "moe/sender_dropped_assignments": sender,
        "moe/receiver_dropped_assignments": receiver,
        "moe/drop_fraction": (sender + receiver) / total,
        "moe/sender_drop_fraction": sender / total,
        "moe/receiver_drop_fraction": receiver / total,
        "moe/receiver_drop_fraction_of_received": receiver / (total - sender) if total > sender else 0.0,
    }
