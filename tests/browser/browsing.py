"""Pages in headless Chromium, as people see them: several at once, each in a frame of a given width."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--virtual-time-budget=10000"),
    *("--enable-logging=stderr", "--v=0"),
)
WHITE, BLACK = "rgb(255, 255, 255)", "rgb(20, 23, 27)"
"""Ground of a page in the light theme and in the dark one."""
# A probe sends what a person would see to the page around it: another frame's layout cannot be read from file://.
_FRAMES = """<!doctype html><body style="margin:0"><script>const seen = {};
addEventListener("message", (e) => {
  const frames = [...document.querySelectorAll("iframe")];
  seen[frames.find((frame) => frame.contentWindow === e.source).id] = e.data;
  if (Object.keys(seen).length < %d) return;
  document.body.innerHTML = "<pre id=seen></pre>";
  document.querySelector("pre").textContent = JSON.stringify(seen);
})</script>%s"""
_FRAME = '<iframe id="%s %d" src="%s/page.html" style="border:0;width:%dpx;height:900px"></iframe>'


def browse(chromium: str, folder: Path, file: str, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [chromium, *FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, f"file://{folder / file}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def look(
    chromium: str,
    folder: Path,
    pages: Mapping[str, Path],
    probe: str,
    *,
    widths: Sequence[int],
    dark: bool = False,
    expected_errors: str = "",
) -> dict[tuple[str, int], dict[str, Any]]:
    """Returns what the probe says of each page at each width, by (name, width).

    Args:
        chromium: the program.
        folder: an empty folder to work in.
        pages: folder of each page, with `index.html` and its side files, by a name without spaces.
        probe: a `<script>` that posts a message to its parent when the page has loaded.
        widths: pixels.
        dark: whether the person wants dark pages.
        expected_errors: messages of the console that hold this text are no errors.
    """
    for name, page in pages.items():
        shutil.copytree(page, folder / name)
        text = (folder / name / "index.html").read_text("utf-8")
        (folder / name / "page.html").write_text(text.replace("</body>", f"{probe}</body>"))
    frames = "".join(_FRAME % (name, width, name, width) for name in pages for width in widths)
    (folder / "frames.html").write_text(_FRAMES % (len(pages) * len(widths), frames))
    scheme = f"--blink-settings=preferredColorScheme={0 if dark else 1}"
    done = browse(chromium, folder, "frames.html", "--dump-dom", "--window-size=1400,1000", scheme)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, f"a page did not load or its scripts failed: {done.stderr[-2000:]}"
    errors = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert [line for line in errors if not expected_errors or expected_errors not in line] == []
    seen = json.loads(html.unescape(found[1]))
    return {(name, width): seen[f"{name} {width}"] for name in pages for width in widths}


def prints(chromium: str, folder: Path, page: Path) -> bytes:
    """Returns the page's `index.html` printed as PDF."""
    target = folder / "page.pdf"
    browse(chromium, page, "index.html", f"--print-to-pdf={target}", f"--user-data-dir={folder / 'profile'}")
    return target.read_bytes()
