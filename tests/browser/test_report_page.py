"""The report page in a real browser: no error, nothing wider than the window, both themes, nothing asked of the network."""

import functools
import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.steps.report.built_report import built_report

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=4000"),
    *("--enable-logging=stderr", "--v=0"),
)
# Sends what a person would see to the page around it, which is how another frame's layout can be known from file://.
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
FRAME = """<!doctype html><body style="margin:0"><iframe src="page.html" style="border:0;width:%dpx;height:900px"></iframe>
<script>addEventListener("message", (e) => { document.body.innerHTML = "<pre id=seen></pre>";
  document.querySelector("pre").textContent = JSON.stringify(e.data); })</script>"""


@pytest.fixture(scope="module")
def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        message = "no chromium on this machine (apt-get install chromium): the report page is not looked at"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


def browse(chromium: str, folder: Path, file: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, f"file://{folder / file}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@functools.cache
def seen(chromium: str, width: int, dark: bool = False) -> dict:
    with tempfile.TemporaryDirectory(prefix="page-", ignore_cleanup_errors=True) as folder:
        return _seen(chromium, Path(folder), width, dark)


def _seen(chromium: str, folder: Path, width: int, dark: bool) -> dict:
    (folder / "page.html").write_text(built_report().page.replace("</body>", PROBE + "</body>"))
    (folder / "frame.html").write_text(FRAME % width)
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    done = browse(chromium, folder, "frame.html", "--dump-dom", "--window-size=1400,1000", scheme)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"the page did not load or its scripts failed: {done.stderr[-2000:]}"
    assert "CONSOLE" not in done.stderr, done.stderr
    return json.loads(html.unescape(found[1]))


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
    assert found == [("rgb(255, 255, 255)", "rgb(22, 25, 29)"), ("rgb(20, 23, 27)", "rgb(233, 236, 239)")]


def test_page_prints(chromium, tmp_path):
    (tmp_path / "page.html").write_text(built_report().page)
    target = tmp_path / "page.pdf"
    browse(chromium, tmp_path, "page.html", f"--print-to-pdf={target}")
    assert target.read_bytes().startswith(b"%PDF") and target.stat().st_size > 50_000
