"""Take the browser libraries of the pages from npm into app/static/vendor, as the manifest pins them.

    python scripts/vendor.py            fetch what the manifest names, and write the files anew
    python scripts/vendor.py --check    fetch too, but only compare; fails where a file differs

To move to another version change it in the manifest, run this with ``--pin``, and look at the difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

VENDOR = Path(__file__).resolve().parent.parent / "app" / "static" / "vendor"
MANIFEST = VENDOR / "manifest.json"


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a file differs")
    parser.add_argument("--pin", action="store_true", help="take the hashes of what comes into the manifest")
    options = parser.parse_args()
    manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
    wrong = [line for library in manifest["libraries"] for line in _taken(library, options)]
    if options.pin:
        MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    sys.exit("\n".join(wrong) if wrong else 0)


def _taken(library: dict[str, Any], options: argparse.Namespace) -> list[str]:
    """Take one library's files; give what is wrong with them."""
    wrong = []
    for file in library["files"]:
        found = _packed(library["name"], library["version"])[file["source"]]
        digest = hashlib.sha256(found).hexdigest()
        if options.pin:
            file["sha256"] = digest
        if digest != file["sha256"]:
            wrong.append(f"{file['path']}: npm gives sha256 {digest}, the manifest has {file['sha256']}")
            continue
        target = VENDOR / file["path"]
        if not options.check:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found)
        elif target.read_bytes() != found:
            wrong.append(f"{file['path']}: differs from npm's")
    return wrong


_seen: dict[str, dict[str, bytes]] = {}


def _packed(name: str, version: str) -> dict[str, bytes]:
    """Give the files of a package, by their path in it."""
    key = f"{name}@{version}"
    if key not in _seen:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["npm", "pack", "--silent", key], cwd=folder, check=True, stdout=subprocess.DEVNULL)
            with tarfile.open(next(Path(folder).glob("*.tgz"))) as archive:
                members = [member for member in archive if member.isfile()]
                _seen[key] = {m.name.partition("/")[2]: archive.extractfile(m).read() for m in members}  # type: ignore[union-attr]
    return _seen[key]


if __name__ == "__main__":
    main()
