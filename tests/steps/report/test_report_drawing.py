"""Charts, heat tables and number formats, by themselves."""

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steps.report import formats
from steps.report.charts import Axis, Series, line_chart, linear_ticks, log_ticks
from steps.report.elements import element
from steps.report.gather_training import MAX_POINTS, binned
from steps.report.heat import SHADES, heat_tables

PLAIN = Axis(label="x", format=lambda value: f"{value:g}")


@settings(max_examples=200)
@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6))
def test_linear_ticks_are_few_even_and_inside(low, span):
    ticks = linear_ticks(low, low + span)
    assert 2 <= len(ticks) <= 7
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0], rtol=1e-6)


@settings(max_examples=200)
@given(st.floats(1e-3, 1e20), st.floats(2, 1e6))
def test_log_ticks_are_round_and_inside(low, ratio):
    ticks = log_ticks(low, low * ratio)
    assert all(low * (1 - 1e-6) <= tick <= low * ratio * (1 + 1e-6) for tick in ticks)
    assert 2 <= len(ticks) <= 8
    if ratio > 10:  # any ten-fold range holds three of 1, 2 and 5
        assert all(f"{tick:.6e}"[0] in "125" and f"{tick:.6e}"[2:8] == "000000" for tick in ticks)


def test_chart_puts_points_where_the_axes_say():
    series = Series(name="a", style="hero", points=[(0, 0), (5, 5), (10, 10)], marks=True, hollow=frozenset({2}))
    svg = line_chart([series], title="t", x=PLAIN, y=Axis(label="y", format=PLAIN.format, low=0, high=10))
    points = re.search(r'class="line" points="([^"]*)"', svg)[1]
    (x0, y0), (x1, y1), (x2, y2) = [tuple(map(float, pair.split(","))) for pair in points.split()]
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1) and y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert x0 < x2 and y0 > y2  # larger is higher up
    assert svg.count('class="mark"') == 2 and svg.count('class="hollow"') == 1


def test_log_axis_spaces_ratios_evenly():
    series = Series(name="a", style="hero", points=[(1e3, 1), (1e4, 2), (1e5, 3)])
    svg = line_chart([series], title="t", x=Axis(label="x", format=PLAIN.format, log=True), y=PLAIN)
    xs = [float(pair.split(",")[0]) for pair in re.search(r'class="line" points="([^"]*)"', svg)[1].split()]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)


def test_labels_of_ticks_do_not_run_into_each_other():
    series = Series(name="a", style="hero", points=[(1e9, 1), (9e10, 3)])
    axis = Axis(label="compute", format=formats.flops, log=True)
    svg = line_chart([series], title="t", x=axis, y=PLAIN)
    labels = re.findall(r'<text class="tick" x="([^"]*)" y="293" text-anchor="middle">([^<]*)', svg)
    assert len(labels) >= 3
    for (x, text), (other, _) in itertools.pairwise(labels):
        assert float(other) - float(x) > 6 * len(text)


def test_chart_of_one_constant_value_is_drawn():
    svg = line_chart([Series(name="a", style="hero", points=[(1, 0.0), (1, 0.0)])], title="t", x=PLAIN, y=PLAIN)
    assert "nan" not in svg and "inf" not in svg


def test_labels_of_lines_that_end_together_are_pushed_apart():
    series = [Series(name=f"s{i}", style="hero", points=[(0, i), (1, 5 + i / 100)], label=f"s{i}") for i in range(5)]
    svg = line_chart(series, title="t", x=PLAIN, y=PLAIN)
    heights = [float(y) for y in re.findall(r'class="label hero" x="[^"]*" y="([^"]*)"', svg)]
    assert len(heights) == 5 and np.all(np.abs(np.diff(sorted(heights))) >= 14.9)


def test_element_escapes_text_and_attributes():
    assert (
        element("text", '<&"', class_='a"b', data_x=1.25) == '<text class="a&#34;b" data-x="1.2">&lt;&amp;&#34;</text>'
    )
    assert element("g", element("b", "x"), None, hidden=None) == "<g><b>x</b></g>"


@settings(max_examples=50)
@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=700))
def test_binned_series_keeps_mean_and_extremes(values):
    rows = [{"tokens": i, "progress": i / len(values), "v": v} for i, v in enumerate(values, start=1)]
    points = np.array(binned(rows, "v"))
    assert len(points) <= MAX_POINTS and points[-1][0] == len(values)
    assert points[:, 3].min() == min(values) and points[:, 4].max() == max(values)
    size = -(-len(values) // MAX_POINTS)
    weights = [len(values[i : i + size]) for i in range(0, len(values), size)]
    assert np.average(points[:, 2], weights=weights) == pytest.approx(np.mean(values), abs=1e-6)


def cube_rows() -> list[dict]:
    random = np.random.default_rng(0)
    return [
        {"source": s, "topic": t, "bucket": q, "documents_in": 50, "bytes_in": 1, "documents_kept": int(random.integers(0, 50)),
         "bytes_kept": 1}
        for s in ("code", "docs") for t in range(3) for q in range(5)
    ]  # fmt: skip


def test_heat_tables_count_the_cube_along_both_axes():
    cube = cube_rows()
    topics = [{"topic": t, "name": f"name{t}", "terms": ["a"]} for t in (2, 0)]  # topic 1 has no name
    by_topic, by_source = heat_tables(cube, topics, ["code", "docs"])
    assert [row["label"] for row in by_topic["rows"]] == ["name2", "name0", "topic 1"]
    for number, topic in ((0, 2), (1, 0), (2, 1)):
        row = by_topic["rows"][number]
        for q, cell in enumerate(row["buckets"]):
            wanted = sum(r["documents_kept"] for r in cube if r["topic"] == topic and r["bucket"] == q)
            assert cell["documents"] == wanted
        for source, cell in zip(("code", "docs"), row["others"], strict=True):
            assert cell["counts"] == [
                r["documents_kept"] for r in cube if r["topic"] == topic and r["source"] == source
            ]
        assert by_source["rows"][0]["others"][number]["counts"] == row["others"][0]["counts"]
    assert (
        by_topic["total"]["documents_kept"]
        == by_source["total"]["documents_kept"]
        == sum(r["documents_kept"] for r in cube)
    )


def test_heat_shades_grow_with_counts_and_zero_has_none():
    cube = [{**row, "documents_kept": n} for n, row in zip([0, 1, 5, 100, 400], cube_rows(), strict=False)]
    cells = heat_tables(cube, [], ["code"])[0]["rows"][0]["buckets"]
    shades = [cell["shade"] for cell in cells]
    assert shades[0] == 0 and shades[1] >= 1 and shades == sorted(shades) and shades[-1] == SHADES


@pytest.mark.parametrize(
    ("written", "wanted"),
    [
        (formats.count(4296), "4,296"),
        (formats.size(0), "0 B"),
        (formats.size(6_834_000), "6.83 MB"),
        (formats.size(31_896), "31.9 kB"),
        (formats.tokens(1_228_800), "1.23 M"),
        (formats.flops(5e12), "5.00 TFLOP"),
        (formats.loss(-0.0456), "−0.046"),
        (formats.signed(0.02), "+0.020"),
        (formats.percent(0.1234), "12.3 %"),
        (formats.whole_percent(0.8), "80 %"),
        (formats.short(5_000_000_000_000), "5.00 T"),
        (formats.short(0.0123456), "0.01235"),
        (formats.short(True), "1"),
        (formats.seconds(0.04), "0.0 s"),
        (formats.seconds(125), "2 min 05 s"),
        (formats.seconds(4320), "1 h 12 min"),
        (formats.loss(None), "–"),
        (formats.percent("NaN"), "NaN"),
        (formats.count(float("inf")), "inf"),
    ],
)
def test_numbers_are_written_with_units_that_do_not_wrap(written, wanted):
    assert written == wanted.replace(" ", "\N{NO-BREAK SPACE}")
