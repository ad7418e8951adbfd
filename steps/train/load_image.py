"""The expert loads as a grey-scale PNG: what a run's experts have come to take, at a glance.

A row of squares for each expert, layer under layer with a line between; a column for each held-out set. White is nothing,
middle grey an even share of the set's assignments, black two even shares or more.
"""

import struct
import zlib

import numpy as np

_SQUARE = 12


def load_image(counts_LES: np.ndarray) -> bytes:
    """Returns the image of assignments, int[layers, experts, sets]."""
    num_layers, num_experts, _ = counts_LES.shape
    totals = np.maximum(counts_LES.sum(axis=1, keepdims=True), 1)
    shares = counts_LES / totals * num_experts / 2
    grey = (255 * (1 - np.clip(shares, 0, 1))).round().astype(np.uint8)
    squares = grey.repeat(_SQUARE, axis=1).repeat(_SQUARE, axis=2)
    rows = [squares[0]]
    for layer in range(1, num_layers):
        rows += [np.zeros((2, squares.shape[2]), np.uint8), squares[layer]]
    return _png(np.concatenate(rows))


def _png(grey_HW: np.ndarray) -> bytes:
    """A picture of 8-bit greys as a PNG file (ISO/IEC 15948): header, one stream of unfiltered rows, end."""
    height, width = grey_HW.shape
    unfiltered = np.concatenate([np.zeros((height, 1), np.uint8), grey_HW], axis=1).tobytes()
    parts = {
        b"IHDR": struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0),
        b"IDAT": zlib.compress(unfiltered),
        b"IEND": b"",
    }
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts.items()
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
