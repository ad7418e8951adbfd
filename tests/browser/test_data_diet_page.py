"""The data-diet page in a real browser: nothing hostile acts, nothing is wider than the window, the search finds."""

import json
import re
from pathlib import Path

import pytest

from tests.browser.browsing import BLACK, WHITE, look, prints
from tests.steps.report.diet_data import diet_page

PROBE = """<script>addEventListener("load", async () => {
  const wide = [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1
    && !e.closest(".scroll, nav ul, pre, .skip")).map((e) => e.tagName + "." + e.className);
  const scrolled = [...document.querySelectorAll(".scroll, pre")].filter((e) => e.tabIndex < 0).length;
  const views = document.querySelector(".views"), radio = views.querySelector("[value=b]");
  const shown = () => [...views.querySelectorAll("[class^=view-]")].map((e) => getComputedStyle(e).display !== "none");
  const before = shown();
  radio.click();
  const form = document.querySelector(".search"), found = document.getElementById("found"), said = [];
  for (const id of ["IDENTIFIER", "nonsense", "ffffffffffffffffffffffffffffffff"]) {
    form.elements.id.value = id;
    form.requestSubmit();
    for (let n = 0; n < 50 && found.textContent === "Loading…"; n++) await new Promise((r) => setTimeout(r, 20));
    said.push(found.textContent);
  }
  parent.postMessage({
    scroll: document.documentElement.scrollWidth, inner: innerWidth, wide, before, after: shown(), said, scrolled,
    ground: getComputedStyle(document.body).backgroundColor, title: document.title,
    tops: [...document.querySelectorAll("li.beside .passage")].slice(0, 2).map((e) => e.getBoundingClientRect().top),
    marks: document.querySelectorAll("mark").length, images: document.images.length,
    requests: performance.getEntriesByType("resource").map((e) => e.name).filter((name) => !name.startsWith("file:")),
  }, "*");
})</script>"""


def seen(chromium: str, folder: Path, width: int, dark: bool = False) -> dict:
    page = diet_page()[0]
    identifier = json.loads((page / "report.json").read_text())["near_duplicates"][0]["id"]
    probe = PROBE.replace("IDENTIFIER", identifier)
    # The one request that must fail is for the side file of an id that no document has.
    found = look(chromium, folder, {"diet": page}, probe, widths=[width], dark=dark, expected_errors="ids/ff.js")
    return found["diet", width]


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (400, True)])
def test_page_in_a_browser(chromium, tmp_path, width, dark):
    page = seen(chromium, tmp_path, width, dark)
    assert page["inner"] == width and page["scroll"] <= width and page["wide"] == []
    assert page["title"] == "A <diet> & its page" and page["images"] == 0 and page["requests"] == []
    assert page["before"] == [True, False] and page["after"] == [False, True]
    assert (page["tops"][0] == page["tops"][1]) == (width > 1000)  # side by side where there is room
    assert page["marks"] >= 2 and page["scrolled"] == 0  # what scrolls is reached by keys
    assert page["ground"] == (BLACK if dark else WHITE)
    found, odd, none = page["said"]
    assert re.search(r"of prose, fuzzy_duplicate \(prose .*containment=0\.900\)", found)
    assert "32 hex digits" in odd and ("no document" in none.lower() or "No document" in none)


def test_page_prints(chromium, tmp_path):
    printed = prints(chromium, tmp_path, diet_page()[0])
    assert printed.startswith(b"%PDF") and len(printed) > 50_000
