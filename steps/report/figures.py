"""The charts of an experiment's page, drawn from the report's values alone."""

import math
from collections.abc import Callable
from typing import Any

from markupsafe import Markup

from steps.report import formats
from steps.report.charts import Axis, Series, line_chart

_PROGRESS = Axis(label="share of the run", format=formats.whole_percent, low=0.0, high=1.0)
_SCALING_POINTS = 60


def _tick(digits: int) -> Callable[[float], str]:
    return lambda value: f"{value:.{digits}f}".replace("-", formats.MINUS)


def _style(run: dict[str, Any], runs: list[dict[str, Any]]) -> str:
    """The hero stands out; rungs get darker with size, in four steps."""
    if run["role"] == "hero":
        return "hero"
    rungs = [each for each in runs if each["role"] == "rung"]
    place = next(index for index, each in enumerate(rungs) if each is run)
    return f"rung-{round(3 * place / max(1, len(rungs) - 1))}"


def ladder_curves(runs: list[dict[str, Any]], by: str) -> Markup:
    """Returns held-out macro loss of every run, over "progress" or over "tokens"."""
    series = [
        Series(
            name=run["name"],
            style=_style(run, runs),
            points=[(row[by], row["macro_loss"]) for row in run["evaluations"]],
            marks=run["role"] == "hero",
            label=f"{run['name']} {formats.loss(run['evaluations'][-1]['macro_loss'])}",
        )
        for run in runs
    ]
    tokens = Axis(label="tokens trained on", format=formats.tokens, low=0.0)
    return line_chart(
        series,
        title=f"Held-out macro loss of each rung and the hero by {by}",
        x=_PROGRESS if by == "progress" else tokens,
        y=Axis(label="macro loss (nats a token)", format=_tick(2)),
    )


def set_curves(hero: dict[str, Any]) -> Markup:
    """Returns one run's held-out loss on each set over its course."""
    rows = hero["evaluations"]
    names = sorted(rows[-1]["sets"], key=lambda name: rows[-1]["sets"][name]["loss"])
    series = [
        Series(
            name=name,
            style=f"rung-{index % 4}",
            points=[(row["progress"], row["sets"][name]["loss"]) for row in rows],
            label=f"{name} {rows[-1]['sets'][name]['loss']:.2f}",
        )
        for index, name in enumerate(names)
    ]
    loss = Axis(label="loss (nats a token)", format=_tick(2))
    return line_chart(series, title=f"Held-out loss of {hero['name']} by set", x=_PROGRESS, y=loss)


def forecast_curve(forecast: dict[str, Any]) -> Markup:
    """Returns the forecast with its range and the run's actual losses at each mark."""
    score = forecast["score"]
    marks = score["marks"]
    outside = frozenset(index for index, row in enumerate(marks) if not row["within_range"])
    return line_chart(
        [
            Series(
                name="forecast",
                style="forecast",
                points=[(row["progress"], row["predicted"]) for row in marks],
                band=[(row["progress"], row["low"], row["high"]) for row in marks],
            ),
            Series(
                name="actual",
                style="hero",
                points=[(row["progress"], row["actual"]) for row in marks],
                marks=True,
                hollow=outside,
                line=False,
                label=f"actual {formats.loss(marks[-1]['actual'])}",
            ),
        ],
        title=f"Forecast of {score['target']} with its range, and its actual held-out macro loss",
        x=_PROGRESS,
        y=Axis(label="macro loss (nats a token)", format=_tick(2)),
    )


def residuals(forecast: dict[str, Any]) -> Markup:
    """Returns actual less predicted at each mark, with the forecast's range and the seed noise about 0."""
    marks, noise = forecast["score"]["marks"], forecast["noise"]["range"]
    outside = frozenset(index for index, row in enumerate(marks) if not row["within_range"])
    ends = [(marks[0]["progress"]), (marks[-1]["progress"])]
    return line_chart(
        [
            Series(
                name="forecast's range",
                style="forecast",
                points=[],
                band=[(r["progress"], r["low"] - r["predicted"], r["high"] - r["predicted"]) for r in marks],
            ),
            Series(name="seed noise", style="quiet", points=[], band=[(end, -noise, noise) for end in ends]),
            Series(
                name="actual less predicted",
                style="hero",
                points=[(row["progress"], row["actual"] - row["predicted"]) for row in marks],
                marks=True,
                hollow=outside,
                label=formats.signed(marks[-1]["actual"] - marks[-1]["predicted"]),
            ),
        ],
        title="Actual less predicted macro loss at each evaluation",
        x=_PROGRESS,
        y=Axis(label="actual less predicted (nats)", format=_tick(3)),
        references=[(0.0, "")],
    )


def scaling(forecast: dict[str, Any]) -> Markup:
    """Returns final losses against compute with the fitted law, the prediction and the outcome."""
    score, law, target = forecast["score"], forecast["law"], forecast["target"]
    rungs = [(rung["flops"], rung["losses"][-1][1]) for rung in forecast["rungs"]]
    low, high = rungs[0][0] * 0.8, target["flops"] * 1.25
    steps = [low * (high / low) ** (index / _SCALING_POINTS) for index in range(_SCALING_POINTS + 1)]
    fitted = [(flops, law["asymptote"] + law["amplitude"] * flops ** -law["exponent"]) for flops in steps]
    last = score["marks"][-1]
    return line_chart(
        [
            Series(name="fitted law", style="forecast", points=fitted),
            Series(
                name="rungs",
                style="rung-3",
                points=rungs,
                marks=True,
                line=False,
            ),
            Series(
                name="forecast's range",
                style="forecast",
                points=[(target["flops"], last["predicted"])],
                band=[(target["flops"] * f, last["low"], last["high"]) for f in (0.985, 1.015)],
                line=False,
            ),
            Series(
                name=f"{target['name']}, actual",
                style="hero",
                points=[(target["flops"], last["actual"])],
                marks=True,
                line=False,
                hollow=frozenset() if last["within_range"] else frozenset({0}),
                label=f"{target['name']} {formats.loss(last['actual'])}",
            ),
        ],
        title="Final held-out macro loss against training compute, with the fitted law",
        x=Axis(label="training compute", format=formats.flops, log=True, low=low, high=high),
        y=Axis(label="final macro loss (nats a token)", format=_tick(2)),
    )


def metric_chart(
    runs: list[dict[str, Any]],
    metric: str,
    *,
    title: str,
    label: str,
    format: Callable[[float], str],
    log: bool = False,
    low: float | None = None,
    high: float | None = None,
    references: tuple[tuple[float, str], ...] = (),
) -> Markup:
    """Returns one training metric of all runs over progress: rungs thin, the hero with the range within each bin."""
    series = []
    for run in runs:
        rows = [row for row in run["metrics"].get(metric, []) if not log or row[3] > 0]
        if not rows:
            continue
        hero = run["role"] == "hero"
        series.append(
            Series(
                name=run["name"],
                style="hero" if hero else "thin",
                points=[(row[1], row[2]) for row in rows],
                band=[(row[1], row[3], row[4]) for row in rows] if hero else (),
                label=f"{run['name']} {format(rows[-1][2])}" if hero else None,
            )
        )
    if not series:
        return Markup("")
    return line_chart(
        series, title=title, x=_PROGRESS, y=Axis(label=label, format=format, log=log, low=low, high=high),
        references=references,
    )  # fmt: skip


def training_charts(runs: list[dict[str, Any]]) -> dict[str, Markup]:
    """Returns the monitor's charts by metric."""
    experts = next(run["num_experts"] for run in runs if run["role"] == "hero")
    uniform = math.log(experts)
    return {
        "cross_entropy": metric_chart(
            runs, "cross_entropy", title="Training cross-entropy", label="cross-entropy (nats a token)", format=_tick(2)
        ),
        "router_entropy": metric_chart(
            runs, "router_entropy", title="Router entropy, mean over layers", label="router entropy (nats)",
            format=_tick(2), references=((uniform, f"even use of {experts} experts: ln {experts} = {uniform:.3f}"),),
        ),
        "drop_fraction": metric_chart(
            runs, "drop_fraction", title="Assignments dropped for want of capacity", label="assignments dropped",
            format=formats.percent, low=0.0,
        ),
        "grad_norm": metric_chart(runs, "grad_norm", title="Gradient norm", label="gradient norm", format=formats.short, log=True),
        "learning_rate": metric_chart(
            runs, "learning_rate", title="Learning rate of the hyperball groups", label="learning rate (radians a step)",
            format=formats.short, low=0.0,
        ),
    }  # fmt: skip
