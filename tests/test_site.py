"""The documentation as a site: it builds without a warning, holds every page, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clock import PATIENCE
from tests.servers import ROOT

PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
_LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?((?:https?:)?//[^\"' >]+)", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=10 * PATIENCE)
    assert (0, "") == (done.returncode, done.stdout + done.stderr)
    return folder


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_on_the_site_and_can_be_reached(site: Path, name: str) -> None:
    """Each page of docs/ is built, and the navigation leads to it."""
    assert (site / f"{name}.html").is_file()
    assert f'href="{name}.html"' in (site / "404.html").read_text().replace('href="/', 'href="')


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    """Scripts, styles, pictures and fonts are the site's own."""
    loaded = {url for page in site.rglob("*.html") for url in _LOADED.findall(page.read_text())}
    styles = "".join(path.read_text() for path in site.rglob("*.css"))

    assert set() == loaded
    assert [] == re.findall(r"url\([\"']?(?:https?:)?//[^)]*\)", styles)


def test_what_lies_elsewhere_is_there_too(site: Path) -> None:
    """Pages beside what they are about are on the site, and links to them lead there."""
    assert "systemd" in (site / "deploy-files.html").read_text()
    assert 'href="deploy-files.html"' in (site / "deployment.html").read_text()


def test_the_picture_is_described(site: Path) -> None:
    """The diagram of a stream has words for who cannot see it."""
    picture = (ROOT / "docs" / "assets" / "stream.svg").read_text()

    assert "<title" in picture
    assert "<desc" in picture
    assert "assets/stream.svg" in (site / "streaming.html").read_text()
