"""The pages of the stages in a real browser: no error, nothing wider than the window, both themes, all of it by keyboard."""

import functools
import tempfile
from pathlib import Path

import pytest

from tests.browser.browsing import BLACK, WHITE, look, prints
from tests.steps.report.chain_pages import chain_pages
from tests.steps.report.decontamination_page import decontamination_page
from tests.steps.report.duplicates_page import duplicates_page
from tests.steps.report.filters_page import filters_page
from tests.steps.report.normalized_page import normalized_page

PAGES = {
    "normalized": normalized_page,
    "duplicates": lambda: duplicates_page()[0],
    "filters": lambda: filters_page()[0],
    "decontamination": lambda: decontamination_page()[0],
    **{name: lambda name=name: chain_pages().folder(f"report/{name}") for name in ("topics", "quality", "mixture")},
}
# Keys reach what takes the focus: every link, every field, and whatever scrolls by itself.
PROBE = """<script>addEventListener("load", () => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const wide = all("body *").filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && !e.closest(".scroll, nav ul, pre, .skip")).map((e) => e.tagName + "." + e.className);
  const ids = all("[id]").map((e) => e.id);
  const stopped = all("a, input, button, .scroll, pre").filter((e) => e.checkVisibility()).filter((e) => {
    e.focus({preventScroll: true});
    return document.activeElement !== e;
  }).map((e) => e.outerHTML.slice(0, 80));
  const first = all("a, [tabindex]")[0];
  first.focus();
  parent.postMessage({
    scroll: document.documentElement.scrollWidth, inner: innerWidth, wide, stopped,
    ground: getComputedStyle(document.body).backgroundColor, title: document.title,
    skip: first.hash === "#" + document.querySelector("main section").id && first.getBoundingClientRect().left >= 0,
    broken: all("a[href^='#']").map((e) => e.hash.slice(1)).filter((id) => !ids.includes(id)),
    twice: ids.filter((id, n) => ids.indexOf(id) !== n), contents: all("nav a").length, headings: all("h1").length,
    unnamed: all("[role=region]").filter((e) => !e.ariaLabel).length, images: document.images.length,
    requests: performance.getEntriesByType("resource").map((e) => e.name),
  }, "*");
})</script>"""


@functools.cache
def seen(chromium: str, dark: bool = False) -> dict:
    with tempfile.TemporaryDirectory(prefix="pages-", ignore_cleanup_errors=True) as folder:
        pages = {name: page() for name, page in PAGES.items()}
        return look(chromium, Path(folder), pages, PROBE, widths=[400] if dark else [1280, 400], dark=dark)


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", PAGES)
def test_stage_page_fits_the_window_and_asks_for_nothing(chromium, name, width):
    page = seen(chromium)[name, width]
    assert page["inner"] == width and page["scroll"] <= width and page["wide"] == []
    assert page["requests"] == [] and page["images"] == 0 and page["headings"] == 1
    assert page["ground"] == WHITE and page["title"] != "" and "owned" not in page["title"]


@pytest.mark.parametrize("name", PAGES)
def test_stage_page_is_reached_by_keys_and_its_links_lead_somewhere(chromium, name):
    page = seen(chromium)[name, 1280]
    assert page["stopped"] == [] and page["skip"] and page["unnamed"] == 0
    assert page["broken"] == [] and page["twice"] == [] and 3 <= page["contents"] <= 9


def test_stage_pages_are_dark_for_those_who_want_it(chromium):
    assert {page["ground"] for page in seen(chromium, True).values()} == {BLACK}


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_stage_page_prints(chromium, tmp_path, name):
    printed = prints(chromium, tmp_path, PAGES[name]())
    assert printed.startswith(b"%PDF") and len(printed) > 30_000
