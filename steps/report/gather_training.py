"""The training half of the report: runs, forecast, score, seed noise, evaluations of checkpoints, and the headline."""

import statistics
from collections.abc import Sequence
from typing import Any

from marin_exec import StepFailed
from steps.documents import NamedInput
from steps.forecast.forecast import NamedRun
from steps.report.outputs import read_json, read_json_lines

SERIES = ("cross_entropy", "grad_norm", "router_entropy", "router_entropy_min", "drop_fraction", "learning_rate")
"""Metrics of each update that a page draws."""
MAX_POINTS = 120
"""Points of a drawn series; longer runs are binned, with each bin's mean, minimum and maximum."""


def gather_run(run: NamedRun, role: str) -> dict[str, Any]:
    """Returns one run: size, compute, evaluations, binned metrics and their extremes.

    Args:
        run: output of train/language_model, and its name.
        role: "rung" or "hero".
    """
    described = read_json(f"{run.run}/run.json")
    rows = read_json_lines(f"{run.run}/metrics.jsonl")
    keys = ("num_steps", "batch_sequences", "tokens", "active_parameters", "total_parameters", "flops")
    model = {key: described["model"][key] for key in ("width", "num_layers", "num_experts", "experts_per_token")}
    return {
        "name": run.name,
        "role": role,
        **model,
        **{key: described[key] for key in (*keys, "lm_head_parameters", "flops_with_lm_head", "seed")},
        "checkpoints": described["checkpoints"],
        "evaluations": read_json_lines(f"{run.run}/evals.jsonl"),
        "updates_a_point": -(-len(rows) // MAX_POINTS),
        "metrics": {name: binned(rows, name) for name in SERIES if rows and name in rows[0]},
        "extremes": _extremes(rows),
    }


def binned(rows: Sequence[dict[str, Any]], name: str) -> list[list[float]]:
    """Returns at most MAX_POINTS rows [tokens, progress, mean, minimum, maximum], each over equally many updates."""
    size = max(1, -(-len(rows) // MAX_POINTS))
    points = []
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        values = [row[name] for row in part]
        last = part[-1]
        points.append([last["tokens"], last["progress"], statistics.fmean(values), min(values), max(values)])
    return points


def _extremes(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Over all updates, not over what is drawn."""
    return {
        "updates": len(rows),
        "grad_norm_max": max(row["grad_norm"] for row in rows),
        "router_entropy_min": min(row.get("router_entropy_min", row["router_entropy"]) for row in rows),
        "router_bias_max": max(abs(row["router_bias_max"]) for row in rows),
        "drop_fraction_mean": statistics.fmean(row["drop_fraction"] for row in rows),
        "drop_fraction_max": max(row["drop_fraction"] for row in rows),
        "drop_fraction_last": rows[-1]["drop_fraction"],
    }


def gather_forecast(forecast: str, score: str, noise: str) -> dict[str, Any]:
    """Returns the forecast with the law at the end of the run, the score at each mark, and the seed noise.

    Raises:
        StepFailed: the forecast is a registered one.
    """
    page = read_json(f"{forecast}/forecast.json")
    if "applicability" in page:
        raise StepFailed(
            f"report: {forecast} is a registered forecast by {page['method']}; this page takes "
            f"forecast/matched_progress, and report/forecasts shows registered ones"
        )
    final = page["predictions"][-1]
    measured = read_json(f"{noise}/noise.json")
    return {
        **{key: page[key] for key in ("method", "compute", "asymptote", "asymptote_range", "target", "rungs")},
        "law": final["law"],
        "leave_one_out": final["leave_one_out"],
        "by_asymptote": final["by_asymptote"],
        "score": read_json(f"{score}/score.json"),
        "noise": {
            "seeds": measured["seeds"],
            "macro_loss": measured["macro_loss"][-1],
            "range": measured["range"][-1],
            "mean_range": statistics.fmean(measured["range"]),
        },
    }


def gather_evaluations(evaluations: tuple[NamedInput, ...]) -> list[dict[str, Any]]:
    """Returns the losses of checkpoints that were evaluated by themselves."""
    keys = ("step", "macro_loss", "micro_loss", "macro_bpb", "micro_bpb")
    rows = []
    for each in evaluations:
        page = read_json(f"{each.path}/evaluation.json")
        rows.append({"name": each.name, **{key: page[key] for key in keys}})
    return rows


def headline(forecast: dict[str, Any], tolerated_share: float) -> dict[str, Any]:
    """Returns the answer first: is the run on its forecast, by how much not, against the drop and the seed noise.

    Args:
        forecast: what `gather_forecast` returned.
        tolerated_share: an error outside the range is still near while it is under this share of the drop.
    """
    score, noise = forecast["score"], forecast["noise"]
    last = score["marks"][-1]
    side = "above" if score["error"] < 0 else "below"
    on = bool(score["within_range"])
    share = score["error_share_of_drop"]
    near = not on and share is not None and share < tolerated_share
    return {
        "on_forecast": on,
        "near_forecast": near,
        "verdict": "On its forecast" if on else "Near its forecast" if near else "Off its forecast",
        "sentence": (
            f"{score['target']} ended at a held-out macro loss of {score['actual_loss']:.3f} nats a token, "
            f"{abs(score['error']):.3f} {side} the {score['predicted_loss']:.3f} that was forecast before it was trained"
            f"; that is {'inside' if on else 'outside'} the forecast's range of {last['low']:.3f} to {last['high']:.3f}."
        ),
        "predicted_loss": score["predicted_loss"],
        "low": last["low"],
        "high": last["high"],
        "actual_loss": score["actual_loss"],
        "error": score["error"],
        "last_rung_loss": score["last_rung_loss"],
        "drop": score["drop"],
        "error_share_of_drop": score["error_share_of_drop"],
        "mean_absolute_error": score["mean_absolute_error"],
        "marks_within_range": score["marks_within_range"],
        "num_marks": score["num_marks"],
        "seed_noise": noise["range"],
        "seed_noise_runs": len(noise["seeds"]),
        "forecast_digest": score["forecast_digest"],
    }
