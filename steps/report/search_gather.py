"""What the page of mixture and tokens shows of a weight search: the candidate, what it moves, and its gain."""

from typing import Any

import numpy as np

from steps.mix.mixture import Mixture
from steps.mix.search.candidate import WEIGHTS_FILE
from steps.mix.search.features import cell_shares
from steps.mix.weights_file import read_weights
from steps.report.outputs import read_json, recorded_result
from steps.tokenize.store import TokenIndex

_MOST_MOVED = 10


def candidate(path: str, mixture: Mixture, index: TokenIndex) -> dict[str, Any]:
    """Returns the predicted gain, the cells that move most, and how far this mixture is from the candidate.

    Shares are of the whole run, over its phases. `distance_to_mixture` is the share of the run that the two do not have in
    common (mean over phases), None where their phases differ.

    Raises:
        StepFailed: the candidate was made for another token store.
    """
    weights = read_weights(f"{path}/{WEIGHTS_FILE}", index)
    starts = read_json(f"{path}/{WEIGHTS_FILE}")["phase_starts"]
    page = read_json(f"{path}/candidates.json")
    lengths = np.diff([*starts, 1.0])
    proportional = lengths @ np.array(page["proportional"])
    chosen = lengths @ np.array(page["candidates"][0]["shares"])
    order = np.argsort(proportional - chosen, kind="stable").tolist()
    kept = [
        place
        for place in [*order[:_MOST_MOVED], *order[::-1][:_MOST_MOVED][::-1]]
        if chosen[place] != proportional[place]
    ]
    distance = None
    if list(mixture.phase_starts) == list(starts):
        distance = round(float(np.abs(cell_shares(mixture, index) - weights).sum() / 2 / len(starts)), 6)
    return {
        "predicted_gain": page["predicted_gain"],
        "predicted_gain_deviation": page["predicted_gain_deviation"],
        "result": recorded_result(path),
        "moved": [
            {
                "cell": page["cells"][place],
                "proportional": float(proportional[place]),
                "candidate": float(chosen[place]),
            }
            for place in dict.fromkeys(kept)
        ],
        "distance_to_mixture": distance,
    }


def gain(path: str) -> dict[str, Any]:
    """Returns what mix/gain measured."""
    return read_json(f"{path}/gain.json")
