"""The pages' files: how they are served, what they are made of."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from app import create_app, create_blueprint
from app.stages.autotune import STRATEGIES
from app.stages.parseltongue import INTENSITIES, TECHNIQUES
from app.stages.stm import MODULES
from tests.servers import ROOT

STATIC = ROOT / "app" / "static"
MANIFEST = json.loads((STATIC / "vendor" / "manifest.json").read_text(encoding="utf-8"))
OWN = sorted(path for path in STATIC.rglob("*") if path.is_file() and "vendor" not in path.parts)
PAGES = ["playground", "dashboard"]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Give settings of a gateway that is never asked anything."""
    return {"SLUICE_OPEN": "on", "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/records.db"}


@pytest.fixture
def client(settings: dict[str, str]) -> Any:
    """Give a client of the application."""
    return create_app(settings).test_client()


def test_pages_and_files_come_with_a_strict_policy(client: Any) -> None:
    """Nothing but the gateway's own files may run, style, or be asked; nothing may frame them or guess their type."""
    page = client.get("/")
    address = re.search(r'src="(static/[0-9a-f]{16}/playground\.js)"', page.text)
    assert address
    for response in (page, client.get(f"/{address[1]}")):
        assert 200 == response.status_code
        policy = dict(part.partition(" ")[::2] for part in response.headers["Content-Security-Policy"].split("; "))
        assert "'none'" == policy["default-src"]
        assert ("'self'", "'self'", "'self'") == tuple(policy[f"{n}-src"] for n in ("script", "style", "connect"))
        assert "'none'" == policy["frame-ancestors"]
        assert "nosniff" == response.headers["X-Content-Type-Options"]
        assert "no-referrer" == response.headers["Referrer-Policy"]
    assert "text/javascript; charset=utf-8" == response.headers["Content-Type"]


def test_files_are_kept_for_ever_and_pages_asked_for_again(client: Any) -> None:
    """A file's address names the state of all of them; a page is revalidated, and costs nothing when it is the same."""
    page = client.get("/")
    assert "no-cache" == page.headers["Cache-Control"]
    assert 304 == client.get("/", headers={"If-None-Match": page.headers["ETag"]}).status_code
    state = re.search(r"static/([0-9a-f]{16})/", page.text)
    assert state
    assert "immutable" in client.get(f"/static/{state[1]}/base.css").headers["Cache-Control"]
    assert "no-store" == client.get("/static/0123456789abcdef/base.css").headers["Cache-Control"]


@pytest.mark.parametrize("path", ["/static/x/none.js", "/static/x/../../settings.py", "/static/x/%2e%2e/settings.py"])
def test_there_are_no_other_files(client: Any, path: str) -> None:
    """An unknown file is a 404 of the usual shape, and no path leads out."""
    response = client.get(path)
    assert 404 == response.status_code
    assert "error" in response.json


def test_the_pages_need_no_key_and_tell_no_secret(settings: dict[str, str]) -> None:
    """They are the same for everybody; a key and what it opens are for the API."""
    secrets = {"SLUICE_API_KEYS": "ann:secret-1", "OPENROUTER_API_KEY": "sk-or-v1-secret", "SLUICE_OPEN": "off"}
    page = create_app(settings | secrets).test_client().get("/")
    assert 200 == page.status_code
    assert "secret" not in page.text
    assert "ann" not in re.findall(r"\w+", page.text)
    assert "&#34;needs_key&#34;:true" in page.text or "&quot;needs_key&quot;:true" in page.text


def test_a_blueprint_has_pages_only_if_asked(settings: dict[str, str]) -> None:
    """A host keeps its own front page; where it wants ours, every address in it is relative, so any prefix does."""
    for extras, status in ((("openapi",), 404), (("pages",), 200)):
        app = Flask("host", static_folder=None)
        app.register_blueprint(create_blueprint(settings, url_prefix="/ai", extras=extras))
        page = app.test_client().get("/ai/")
        assert status == page.status_code
    addresses = re.findall(r'(?:src|href)="([^"]*)"', page.text)
    assert addresses
    assert [] == [address for address in addresses if address.startswith("/") or ":" in address]


@pytest.mark.parametrize("name", PAGES)
def test_pages_have_no_script_style_or_file_of_elsewhere(name: str) -> None:
    """The policy would stop them; so would a reader."""
    text = (STATIC / f"{name}.html").read_text(encoding="utf-8")
    assert [] == re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=|https?://|//\w", text)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_own_files_are_small_and_say_what_they_are(path: Path) -> None:
    """A script has its noun in its first line, makes no markup of text, and can be read in one go."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        assert text.startswith("/**")
        assert [] == re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
        assert len(text.splitlines()) <= 250
    assert "http://www.w3.org" in text or [] == re.findall(r"https?://[a-z]", text)


def test_the_manifest_holds_every_foreign_file_and_its_licence() -> None:
    """Each comes from a pinned version, byte for byte, with its licence beside it."""
    listed = {file["path"]: file["sha256"] for library in MANIFEST["libraries"] for file in library["files"]}
    vendor = STATIC / "vendor"
    found = {
        p.relative_to(vendor).as_posix(): p for p in vendor.rglob("*") if p.is_file() and p.name != "manifest.json"
    }
    assert set(listed) == set(found)
    assert listed == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in found.items()}
    for library in MANIFEST["libraries"]:
        assert re.fullmatch(r"\d+\.\d+\.\d+", library["version"])
        assert library["licence"]
        assert any(file["path"].endswith("LICENSE") for file in library["files"])


def test_the_form_offers_what_the_stages_take() -> None:
    """A strategy, technique or module that is added to a stage is added to the form."""
    text = (STATIC / "playground.html").read_text(encoding="utf-8")

    def offered(name: str) -> list[str]:
        found = re.search(rf'<select name="{name}">(.*?)</select>', text, re.S)
        return re.findall("<option>(.*?)</option>", found[1]) if found else []

    assert list(STRATEGIES) == offered("strategy")
    assert list(TECHNIQUES) == offered("parseltongue_technique")
    assert list(INTENSITIES) == offered("parseltongue_intensity")
    assert list(MODULES) == re.findall('name="stm_modules" value="(.*?)"', text)
