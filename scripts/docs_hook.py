"""What the documentation's site needs beyond docs/: pages from elsewhere, their links, and a place for every page."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
ELSEWHERE = {
    "README.md": "readme.md",
    "deploy/README.md": "deploy-files.md",
    "examples/host_app/README.md": "host-app.md",
    "app/demo/README.md": "demo.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages that live beside what they are about, by the name they have on the site."""


def on_config(config: Any) -> Any:
    """List the pages that the navigation does not name yet."""
    named = set(re.findall(r"[\w-]+\.md", str(config.nav)))
    pages = [path.name for path in sorted(Path(config.docs_dir).glob("*.md"))]
    more = [name for name in [*pages, *ELSEWHERE.values()] if name not in named and name != "readme.md"]
    config.nav.append({"More": more})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages from elsewhere."""
    for source, name in ELSEWHERE.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Turn links that leave docs/ into links of the site, or into plain words where the site has no such page."""
    home = next((posixpath.dirname(s) for s, name in ELSEWHERE.items() if name == page.file.src_uri), "docs")

    def link(found: re.Match[str]) -> str:
        words, target, anchor = found[1], found[2], found[3] or ""
        path = posixpath.normpath(posixpath.join(home, target))
        if path in ELSEWHERE:
            return f"[{words}]({ELSEWHERE[path]}{anchor})"
        if path.startswith("docs/"):
            return f"[{words}]({path.removeprefix('docs/')}{anchor})"
        assert (ROOT / path).exists(), f"{page.file.src_uri}: {target} does not exist"
        return words

    return re.sub(r"\[([^\]]+)\]\((?![a-z]+:)([^)#\s]+)(#[^)]*)?\)", link, markdown)
