"""The distribution, built and installed as a user installs it."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import textwrap
import tomllib
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from packaging.requirements import Requirement

from app.demo import DemoUpstream
from tests.clock import PATIENCE

from .installed import Installed, install
from .servers import ROOT, clean_environ

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

HOST_PACKAGE = """
    from flask import Flask
    from flask_sluice import create_blueprint

    def create_app():
        host = Flask(__name__)
        host.get("/")(lambda: "the host's own page")
        host.register_blueprint(create_blueprint({"SLUICE_OPEN": "on", "SLUICE_PIPELINE": "off"}, url_prefix="/ai"))
        return host
"""

ASK_HOST = """
    import json, app
    client = app.create_app().test_client()
    asked = {"stream": True, "messages": [{"role": "user", "content": "Hello"}]}
    with client.post("/ai/v1/chat/completions", json=asked) as streamed:
        print(json.dumps({"page": client.get("/").text, "status": streamed.status_code, "stream": streamed.text}))
"""


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return install(tmp_path_factory.getbasetemp() / "installed")


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A folder elsewhere, with a package named `app` that is not ours."""
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").write_text(textwrap.dedent(HOST_PACKAGE))
    return tmp_path


def run(python: Path, script: str, cwd: Path, **env: str) -> str:
    """Run *script* in *cwd* with the installed environment's Python; give what it printed."""
    done = subprocess.run(
        [str(python), "-W", "error", "-c", textwrap.dedent(script)],
        cwd=cwd,
        env=clean_environ({"PYTHONPATH": None, **env}),
        capture_output=True,
        text=True,
        timeout=5 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sources(folder: Path) -> set[str]:
    """Name every file of the package in *folder*, relative to it."""
    files = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {file.as_posix() for file in files if "__pycache__" not in file.parts}


def names_in_wheel(wheel: Path) -> list[PurePosixPath]:
    with zipfile.ZipFile(wheel) as archive:
        return [PurePosixPath(name) for name in archive.namelist() if not name.endswith("/")]


def pins(file: str) -> dict[str, str]:
    """Read the `name==version` lines of a requirements file; extras are left out."""
    lines = (ROOT / file).read_text().splitlines()
    found = (re.match(r"([A-Za-z0-9._-]+)(?:\[[^]]*\])?==(\S+)", line) for line in lines)
    return {match[1].lower(): match[2] for match in found if match}


def test_only_the_package_is_at_the_top_level(installed: Installed) -> None:
    """The wheel installs `flask_sluice` and its metadata; no `app`, no tests."""
    tops = {name.parts[0] for name in names_in_wheel(installed.wheel)}

    assert {"flask_sluice", f"flask_sluice-{PROJECT['version']}.dist-info"} == tops


def test_wheel_carries_every_file_of_the_package(installed: Installed) -> None:
    """Modules, data and texts of `app/` are all in the wheel, and nothing else is."""
    carried = {
        name.relative_to("flask_sluice").as_posix()
        for name in names_in_wheel(installed.wheel)
        if name.parts[0] == "flask_sluice"
    }

    assert sources(installed.source / "app") == carried


@pytest.mark.parametrize("name", ["py.typed", "text/confusables.json", "text/confusables.LICENSE", "demo/README.md"])
def test_data_files_are_among_them(installed: Installed, name: str) -> None:
    """What is not Python is found beside the modules that read it."""
    assert PurePosixPath("flask_sluice", name) in names_in_wheel(installed.wheel)


def test_sdist_can_be_built_from(installed: Installed) -> None:
    """The sdist carries the package's files and what the build reads."""
    with tarfile.open(installed.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {f"app/{name}" for name in sources(installed.source / "app")}

    assert set() == (wanted | {"pyproject.toml", "README.md", "LICENSE"}) - names


def test_lives_beside_a_host_package_named_app(installed: Installed, host: Path) -> None:
    """In a project with an `app` of its own, `app` is the project's, and ours has all its public names."""
    script = """
        import json, app, flask_sluice
        public = [getattr(flask_sluice, name).__name__ for name in flask_sluice.__all__]
        print(json.dumps({"app": app.__file__, "ours": flask_sluice.__file__, "public": public}))
    """

    told = json.loads(run(installed.python, script, host))

    assert str(host / "app" / "__init__.py") == told["app"]
    assert Path(told["ours"]).is_relative_to(installed.python.parents[1])
    assert "create_blueprint" in told["public"]


def test_host_with_a_package_named_app_serves_the_gateway(
    installed: Installed, host: Path, upstream: DemoUpstream
) -> None:
    """Such a project mounts the blueprint, answers with its own pages, and streams."""
    upstream.play([{"text": ["Hi", " there"]}])

    printed = run(installed.python, ASK_HOST, host, OPENROUTER_BASE_URL=upstream.base_url, OPENROUTER_API_KEY="key")

    told = json.loads(printed)
    events = [line[6:] for line in told["stream"].splitlines() if line.startswith("data: {")]
    deltas = [choice["delta"].get("content") or "" for event in events for choice in json.loads(event)["choices"]]

    assert told["page"] == "the host's own page"
    assert told["status"] == 200
    assert "".join(deltas) == "Hi there"
    assert told["stream"].endswith("data: [DONE]\n\n")


def test_version_is_the_projects(installed: Installed, tmp_path: Path) -> None:
    """`__version__` is the number in pyproject.toml once the distribution is installed."""
    script = "import flask_sluice; print(flask_sluice.__version__)"

    assert PROJECT["version"] == run(installed.python, script, tmp_path).strip()


def test_console_script_starts(installed: Installed, tmp_path: Path) -> None:
    """`sluice` is installed and explains itself."""
    script = installed.python.parent / PROJECT["name"].removeprefix("flask-")

    done = subprocess.run(
        [str(script), "--help"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=5 * PATIENCE
    )

    assert done.returncode == 0, done.stderr
    assert "serve" in done.stdout


def test_every_module_imports_where_it_is_installed(installed: Installed, tmp_path: Path) -> None:
    """No module of the installed package leans on the checkout."""
    script = """
        import importlib, pkgutil, flask_sluice
        found = [info.name for info in pkgutil.walk_packages(flask_sluice.__path__, "flask_sluice.")]
        for name in found:
            if not name.endswith("__main__"):
                importlib.import_module(name)
        print(len(found))
    """

    assert int(run(installed.python, script, tmp_path)) > 20


@pytest.mark.parametrize("text", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["server"]])
def test_requirements_pin_every_dependency(text: str) -> None:
    """requirements.txt pins each dependency of pyproject.toml, the server's included, to a version that it allows."""
    wanted = Requirement(text)

    pinned = pins("requirements.txt").get(wanted.name.lower())

    assert pinned is not None, f"{wanted.name} is not in requirements.txt"
    assert wanted.specifier.contains(pinned)
