"""The search for mixture weights on the quickstart's data: what the surrogate knows, what it promised, what came of it.

Runs experiments/mixture_search.py in a store of its own, ~/.cache/marin-exec/mixture-search: some 15 CPU minutes the first
time, the quickstart's data among them; what is done is reused.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.figures import Figures

EXPERIMENT = Path(__file__).resolve().parents[2] / "experiments/mixture_search.py"
STORE = Path.home() / ".cache/marin-exec/mixture-search"
PROGRAM = str(Path(sys.executable).parent / "marin-exec")


def result(step: str) -> dict[str, Any]:
    """Returns a step's typed result, what was measured with it."""
    command = [PROGRAM, "show", step, "--prefix", str(STORE), "--json"]
    record = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)["record"]
    return record["result"] | record["measured"]


def main() -> int:
    STORE.mkdir(parents=True, exist_ok=True)
    command = [PROGRAM, "run", str(EXPERIMENT), "--backend", "local", "--prefix", str(STORE)]
    subprocess.run(command, stdout=sys.stderr, check=True)
    figures = Figures()
    surrogate, candidate, gain = (result(f"search/{name}") for name in ("surrogate", "candidate", "gain"))
    figures.add("proxy runs", surrogate["runs"], "runs")
    figures.add("processor time of a proxy run", result("search/run/design-001")["cpu_seconds"], "s")
    figures.add(f"surrogate ({surrogate['kernel']}), held-out error", surrogate["rmse"], "nats a token")
    share = surrogate["rmse"] / surrogate["rmse_of_mean"]
    figures.add("of that of predicting the mean", share, "ratio", at_most=0.9)
    figures.add("held-out rank correlation", surrogate["spearman"], "Spearman", at_least=0.5)
    figures.add("runs in their 95 % interval, as fitted", surrogate["coverage_95"], "share")
    figures.add("the same, calibrated", surrogate["coverage_95_calibrated"], "share", at_least=0.8)
    figures.add("predicted gain of the candidate over proportional", gain["predicted_gain"], "nats a token")
    figures.add("deviation of that", gain["predicted_gain_deviation"], "nats a token")
    figures.add(f"measured gain, {len(gain['seeds'])} pairs of new seeds", gain["gain"], "nats a token", at_least=0)
    figures.add("standard error of that", gain["gain_error"], "nats a token")
    figures.add("measured gain within 1.96 deviations of the predicted", float(gain["within_prediction"]), "yes = 1")
    for name, value in gain["gain_by_set"].items():
        figures.add(f"measured gain on {name}", value, "nats a token")
    figures.add("most epochs of a component in the candidate", candidate["largest_exposure"], "epochs", at_most=8)
    return figures.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
