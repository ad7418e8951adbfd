"""The report page in a real browser: no error, nothing wider than the window, both themes, nothing asked of the network."""

import functools
import re
import tempfile
from pathlib import Path

import pytest

from tests.browser.browsing import BLACK, WHITE, look, prints
from tests.steps.report.built_report import built_report

PROBE = """<script>addEventListener("load", () => {
  const style = (element) => getComputedStyle(element);
  const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && !e.closest(".scroll, nav ul, pre, .skip")).map((e) => e.tagName + "." + e.className);
  const chart = document.querySelector("svg.chart"), bounds = chart.getBoundingClientRect();
  chart.dispatchEvent(new PointerEvent("pointermove", {clientX: bounds.left + bounds.width / 2, clientY: bounds.top + 20}));
  const radio = document.querySelector("[name=heat-axis][value=b]");
  const shown = () => [...radio.closest(".views").querySelectorAll(".scroll")].map((e) => style(e).display !== "none");
  const before = shown();
  radio.click();
  parent.postMessage({
    scroll: document.documentElement.scrollWidth, inner: innerWidth, wide, before, after: shown(),
    ground: style(document.body).backgroundColor, ink: style(document.body).color, title: document.title,
    readout: document.querySelector(".readout").textContent, images: document.images.length,
    requests: performance.getEntriesByType("resource").map((e) => e.name),
  }, "*");
})</script>"""


@functools.cache
def seen(chromium: str, width: int, dark: bool = False) -> dict:
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as folder:
        found = look(chromium, Path(folder), {"report": built_report().folder}, PROBE, widths=[width], dark=dark)
        return found["report", width]


@pytest.mark.parametrize("width", [1280, 400])
def test_page_is_no_wider_than_the_window_and_has_no_error(chromium, width):
    page = seen(chromium, width)
    assert page["inner"] == width and page["scroll"] <= width and page["wide"] == []
    assert "A small <chain> & its report" in page["title"]
    assert page["requests"] == [] and page["images"] == 0


def test_pointer_reads_values_and_rows_switch(chromium):
    page = seen(chromium, 1280)
    assert re.search(r"forecast: 3\.\d\d at \d+\s%.*actual: 3\.\d\d at", page["readout"])
    assert page["before"] == [True, False] and page["after"] == [False, True]


def test_page_is_light_or_dark_as_people_want_it(chromium):
    found = [(page["ground"], page["ink"]) for page in (seen(chromium, 1280), seen(chromium, 1280, True))]
    assert found == [(WHITE, "rgb(22, 25, 29)"), (BLACK, "rgb(233, 236, 239)")]


def test_page_prints(chromium, tmp_path):
    printed = prints(chromium, tmp_path, built_report().folder)
    assert printed.startswith(b"%PDF") and len(printed) > 50_000
