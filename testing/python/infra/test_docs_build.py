"""`make docs` renders every page without a warning, and a browser shows it to desks and phones."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 400)  # a desk and a phone
PAGE = """<!doctype html><meta charset="utf-8"><body><pre id="found"></pre><script>{script}
lookAt({pages}, {widths});</script>"""

pytestmark = pytest.mark.nightly


def _command() -> list[str]:
    """What `make docs` runs, from the Makefile."""
    lines = (ROOT / "Makefile").read_text().splitlines()
    (line,) = (line for line in lines if "sphinx-build" in line)
    return line.split("sphinx-build")[1].split()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rendered pages."""
    folder = tmp_path_factory.mktemp("docs") / "html"
    *options, source, target = _command()
    assert "-W" in options and (source, target) == ("docs", "docs/_build/html")
    line = [sys.executable, "-m", "sphinx", *options, source, str(folder)]
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def flaws(browser: str, site: Path) -> list[str]:
    """Returns what is wrong with pages in a browser without a window."""
    pages = sorted(str(each.relative_to(site)) for each in site.rglob("*.html"))
    script = Path(__file__).with_name("pages_in_browser.js").read_text()
    harness = site / "harness.htm"
    harness.write_text(
        PAGE.format(script=script, pages=json.dumps(pages), widths=json.dumps(WIDTHS))
    )
    command = [
        browser, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
        "--virtual-time-budget=600000", "--dump-dom", harness.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=600)
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found and found[1], done.stdout[:500] + done.stderr[-500:]
    return list(json.loads(html.unescape(found[1])))


@pytest.fixture(scope="module")
def browser() -> str:
    """The name of a browser."""
    found = next(filter(shutil.which, BROWSERS), None)
    if found is None:
        pytest.skip(f"there is no {BROWSERS[0]}")
    return found


def test_the_documentation_builds(site: Path) -> None:
    for page in ("index", "getting_started", "generated/names", "reference/index"):
        assert (site / f"{page}.html").exists(), page


def test_pages_in_a_browser(browser: str, site: Path) -> None:
    assert flaws(browser, site) == []


def test_the_browser_finds_flaws(browser: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        '<body data-theme="light"><article><style>body { background: #fff }</style>'
        '<p style="color: #ddd">pale</p><img src="none.png"><div style="width: 900px">x</div>'
        '<div class="highlight" style="width: 300px"><pre style="overflow: auto">'
        + "c" * 90 + "</pre></div>:func:`name`</article>"
    )  # fmt: skip
    found = "\n".join(flaws(browser, tmp_path))
    for flaw in (
        "400 pixels: is 9", "lacks the picture", "cuts code of 90 columns", "shows :func:`",
        "light: has text of contrast 1.4: P",
    ):  # fmt: skip
        assert flaw in found, found
