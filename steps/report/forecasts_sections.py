"""Lays registered forecasts out in sections: one over all of them, then one for each."""

from typing import Any

from markupsafe import Markup

from steps.forecast.score_points import REGISTERED
from steps.report import formats
from steps.report.blocks import Block, Chart, Column, Facts, Section, Table
from steps.report.charts import Axis, Series, line_chart

_PROGRESS = Axis(label="share of the run", format=formats.whole_percent, low=0.0, high=1.0)
_LOSS = Column("nats a token", "loss")


def sections(values: dict[str, Any]) -> list[Section]:
    """Returns the whole page."""
    return [_overview(values["forecasts"]), *(_forecast(each) for each in values["forecasts"])]


def _overview(forecasts: list[dict[str, Any]]) -> Section:
    rows = []
    for each in forecasts:
        final = each["forecast"]["predictions"][-1]
        rows.append(
            [each["forecast"]["method"], final["loss"], final["low"], final["high"], *_summary(_registered(each["score"])),
             *_summary(each["holdout"]["score"] if each["holdout"] else None)]
        )  # fmt: skip
    scored = ("points", "bias", "mean error", "in the range")
    columns = [Column("method"), Column("at 100 %", "loss"), Column("low", "loss"), Column("high", "loss")]
    for what in ("", "held out: "):
        for name, format in zip(scored, ("count", "signed", "loss", "percent"), strict=True):
            columns.append(Column(what + name, format))
    lead = (
        "Errors are predicted less actual, in nats a token: above 0 the run is better than forecast. Only losses that a forecast "
        "was registered for count here."
    )
    return Section("overview", "Methods beside each other", lead, [Table("One row a method.", columns, rows)])


def _registered(score: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns the summary over the losses that the forecast applies to, of either kind of score."""
    if score is None:
        return None
    return score["over_marks"] if "over_marks" in score else score["registered"]


def _summary(found: dict[str, Any] | None) -> list[Any]:
    if found is None:
        return [None] * 4
    return [found["num_points"], found["bias"], found["mean_absolute_error"], found["coverage"]["range"]]


def _rows(score: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"regime": REGISTERED, **row} for row in score["marks" if "marks" in score else "points"]]


def _forecast(each: dict[str, Any]) -> Section:
    forecast, score = each["forecast"], each["score"]
    rows = _rows(score) if score else []
    blocks: list[Block] = [
        Facts(_facts(forecast)),
        Chart("Forecast and outcome", _course(forecast, rows), _caption(forecast)),
    ]
    if rows:
        blocks.append(
            Chart(
                "Predicted less actual",
                _errors(rows),
                "Below 0 the run is worse than forecast. Hollow: outside the range.",
            )
        )
        blocks.append(_coverage(score, rows))
    if "deviation_at_the_end" in forecast["details"]:
        parts = [[name.replace("_", " "), value] for name, value in forecast["details"]["deviation_at_the_end"].items()]
        caption = "Deviation of the final loss by where it is from; squares of the parts add up to the total's."
        blocks.append(Table(caption, [Column("from"), _LOSS], parts))
    if forecast["details"].get("noise", {}).get("sets"):
        blocks.append(_set_noise(forecast["details"]["noise"]))
    if forecast["details"]["unfinished"]:
        ended = [[row["rung"], row["last_mark"], row["final_loss"]] for row in forecast["details"]["unfinished"]]
        columns = [Column("rung"), Column("last evaluation at", "whole_percent"), Column("taken to end at", "loss")]
        blocks.append(Table("Rungs that stopped early.", columns, ended))
    blocks += [_inputs(forecast), _declared(forecast)]
    return Section(forecast["method"], forecast["method"], _applies(forecast), blocks)


def _applies(forecast: dict[str, Any]) -> str:
    scope, conditions = forecast["applicability"], forecast["applicability"]["conditions"]
    return (
        f"Registered for {scope['run']} over {scope['num_steps']:,} updates, from {scope['first_mark']:.0%} of them on: "
        f"context {conditions['context_length']:,}, mixture {conditions['mixture']}, {conditions['metric']}. Other losses are not "
        f"its to be scored by."
    )


def _facts(forecast: dict[str, Any]) -> list[tuple[str, str, str]]:
    final = forecast["predictions"][-1]
    drop = forecast["last_rung_loss"] - final["loss"]
    facts = [
        ("final loss", formats.loss(final["loss"]), f"{formats.loss(drop)} below the largest rung"),
        ("widest range", f"{formats.loss(final['low'])} to {formats.loss(final['high'])}", "nats a token"),
        (
            "compute",
            formats.flops(forecast["target"]["flops"]),
            f"{forecast['compute']}, {_times(forecast)} times the largest rung's",
        ),
    ]
    for band in final["bands"][:-1]:
        facts.insert(
            2,
            (
                f"{band['level']:.0%} interval",
                f"{formats.loss(band['low'])} to {formats.loss(band['high'])}",
                "nats a token",
            ),
        )
    return facts


def _times(forecast: dict[str, Any]) -> str:
    return formats.short(forecast["target"]["flops"] / forecast["rungs"][-1]["flops"])


def _caption(forecast: dict[str, Any]) -> str:
    levels = [f"{band['level']:.0%}" for band in forecast["predictions"][-1]["bands"]]
    shaded = (
        f"intervals of {' and '.join(levels)}" if levels else "the range that the method states, of no stated coverage"
    )
    return f"Dashed: forecast; shaded: {shaded}. Filled: losses inside the widest; hollow diamonds: outside; grey: other regimes."


def _course(forecast: dict[str, Any], rows: list[dict[str, Any]]) -> Markup:
    marks = forecast["predictions"]
    widest = [(mark["progress"], mark["low"], mark["high"]) for mark in marks]
    series = [Series(name="widest range", style="forecast", points=[], band=widest)]
    for index, band in enumerate(marks[0]["bands"][:-1]):
        inner = [(mark["progress"], mark["bands"][index]["low"], mark["bands"][index]["high"]) for mark in marks]
        series.append(Series(name=f"{band['level']:.0%} interval", style="forecast", points=[], band=inner))
    ends = [(mark["progress"], mark["loss"]) for mark in marks]
    label = formats.loss(marks[-1]["loss"])
    series.append(Series(name="forecast", style="forecast", points=ends, label=label))
    return line_chart(
        [*series, *_points(rows, "actual", "actual")],
        title=f"Forecast of {forecast['target']['name']} by {forecast['method']}, and its losses",
        x=_PROGRESS,
        y=Axis(label="macro loss (nats a token)", format=lambda value: f"{value:.2f}"),
    )


def _points(rows: list[dict[str, Any]], key: str, name: str) -> list[Series]:
    """Returns a series a regime: the registered one stands out, the others are quiet."""
    found = []
    for regime in dict.fromkeys(row["regime"] for row in rows):
        chosen = [row for row in rows if row["regime"] == regime]
        found.append(
            Series(
                name=name if regime == REGISTERED else f"{name}, {regime}",
                style="hero" if regime == REGISTERED else "quiet",
                points=[(row["progress"], row[key]) for row in chosen],
                marks=True,
                hollow=frozenset(index for index, row in enumerate(chosen) if not row["within_range"]),
                line=False,
            )
        )
    return found


def _errors(rows: list[dict[str, Any]]) -> Markup:
    band = [(row["progress"], row["predicted"] - row["high"], row["predicted"] - row["low"]) for row in rows]
    return line_chart(
        [
            Series(name="widest range", style="forecast", points=[], band=band),
            *_points(rows, "error", "predicted less actual"),
        ],
        title="Predicted less actual macro loss",
        x=_PROGRESS,
        y=Axis(label="predicted less actual (nats)", format=lambda value: f"{value:.3f}".replace("-", formats.MINUS)),
        references=[(0.0, "")],
    )


def _coverage(score: dict[str, Any], rows: list[dict[str, Any]]) -> Table:
    by_regime = {REGISTERED: _registered(score), **score.get("regimes", {})}
    found = {name: summary for name, summary in by_regime.items() if summary is not None}
    levels = next(iter(found.values()))["coverage"]
    columns = [Column("regime"), Column("points", "count"), Column("bias", "signed"), Column("mean error", "loss")]
    columns += [Column(f"in {'the range' if level == 'range' else level}", "percent") for level in levels]
    listed = [
        [name, each["num_points"], each["bias"], each["mean_absolute_error"], *each["coverage"].values()]
        for name, each in found.items()
    ]
    last = rows[-1]
    return Table(
        f"Scores; the last loss, at {last['progress']:.1%}, is {last['actual']:.4f}, forecast {last['predicted']:.4f}.",
        columns,
        listed,
    )


def _set_noise(noise: dict[str, Any]) -> Table:
    rows = [[name, each["deviation"], each["share_of_macro_variance"]] for name, each in noise["sets"].items()]
    rows.sort(key=lambda row: -row[2])
    return Table(
        f"Noise of an evaluation at the peak learning rate by held-out set; of their mean {noise['deviation']:.4f} nats, "
        f"{noise['deviation_if_independent']:.4f} if the sets swung apart.",
        [Column("held-out set"), _LOSS, Column("of the mean's variance", "percent")],
        rows,
    )


def _inputs(forecast: dict[str, Any]) -> Table:
    rows = [
        [rung["name"], rung["flops"], len(rung["losses"]), rung["losses"][-1][1], rung["sha256"][:16]]
        for rung in forecast["rungs"]
    ]
    columns = [
        Column("rung"),
        Column("compute", "flops"),
        Column("evaluations", "count"),
        Column("last loss", "loss"),
        Column("SHA-256"),
    ]
    return Table(f"Made from curves {forecast['curves_digest'][:16]}.", columns, rows)


def _declared(forecast: dict[str, Any]) -> Table:
    rows = [[name, _written(value)] for name, value in forecast["parameters"].items()]
    return Table("Declared by the method.", [Column("parameter"), Column("value", "figure")], rows)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_written(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_written, value))
    return formats.NONE if value is None else str(value)
