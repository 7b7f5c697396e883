"""Write the locks: pins with a hash for every file.

pip is asked what it would install of each pinned version on every supported Python and
platform (``--dry-run --report``) of constraints.txt; the hashes are those of the files
that it names. runtime.lock holds what ``make run`` needs, requirements.lock all that
``make test`` does, peers.lock what ``make evidence`` needs beside it, docs.lock all that
``make docs`` does.

    .venv/bin/python .ci/lock.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
# (sys_platform, platform_system, platform_machine): the tags of its wheels
PLATFORMS = {
    ("linux", "Linux", "x86_64"): [
        f"manylinux{tag}_x86_64"
        for tag in ("_2_28", "_2_27", "_2_17", "2014", "_2_5", "1")
    ],
    ("linux", "Linux", "aarch64"): [
        f"manylinux{tag}_aarch64" for tag in ("_2_28", "_2_27", "_2_17", "2014")
    ],
    ("darwin", "Darwin", "arm64"): [
        *(f"macosx_{version}_0_arm64" for version in (14, 13, 12, 11)),
        "macosx_11_0_universal2",
        "macosx_10_9_universal2",
    ],
}
HEAD = """\
# What {what} installs, with the hashes of its files; written by .ci/lock.py from
# constraints.txt. Install with: pip install --require-hashes -r {name}
"""


def report(python: str, tags: list[str]) -> list[dict[str, Any]]:
    """What pip would install of the pinned versions."""
    with tempfile.TemporaryDirectory() as spare:
        path = Path(spare) / "report.json"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"]
        how = ["--ignore-installed", "--no-deps", "--only-binary=:all:"]
        where = ["--target", spare, "--python-version", python]
        for tag in tags:
            where += ["--platform", tag]
        pins = ["--report", str(path), "--requirement", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, *how, *where, *pins], check=True)
        found: list[dict[str, Any]] = json.loads(path.read_text())["install"]
        return found


def main() -> None:
    """Write the four locks."""
    hashes: dict[str, set[str]] = defaultdict(set)
    pins: dict[str, str] = {}
    needs: dict[str, list[str]] = {}
    for python in PYTHONS:
        for tags in PLATFORMS.values():
            for item in report(python, tags):
                about = item["metadata"]
                name = canonicalize_name(about["name"])
                hashes[name].add(
                    item["download_info"]["archive_info"]["hashes"]["sha256"]
                )
                pins[name] = f"{about['name']}=={about['version']}"
                needs[name] = about.get("requires_dist", [])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    builds = [*project["build-system"]["requires"], "editables"]
    runs = [*project["project"]["dependencies"], *builds]
    usual = closure([*runs, *extras["dev"]], needs)
    peers = closure(extras["peers"], needs) - usual
    for name, what, chosen in (
        ("runtime.lock", "make run", closure(runs, needs)),
        ("requirements.lock", "make test", usual),
        ("peers.lock", "make evidence", peers),
        ("docs.lock", "make docs", closure([*runs, *extras["docs"]], needs)),
    ):
        lines = [
            " \\\n".join(
                [pins[n], *(f"    --hash=sha256:{h}" for h in sorted(hashes[n]))]
            )
            for n in sorted(chosen)
        ]
        text = HEAD.format(what=what, name=name) + "\n".join(lines) + "\n"
        (ROOT / name).write_text(text)


def closure(roots: list[str], needs: dict[str, list[str]]) -> set[str]:
    """The names of everything that the roots need on any Python and platform."""
    worlds = [
        {
            **default_environment(),
            "python_version": python,
            "python_full_version": f"{python}.0",
            "os_name": "posix",
            **dict(
                zip(
                    ("sys_platform", "platform_system", "platform_machine"),
                    p,
                    strict=True,
                )
            ),
        }
        for python in PYTHONS
        for p in PLATFORMS
    ]
    found: set[tuple[str, frozenset[str]]] = set()
    waiting = [Requirement(root) for root in roots]
    while waiting:
        wanted = waiting.pop()
        name, extras = canonicalize_name(wanted.name), frozenset(wanted.extras)
        if (name, extras) in found:
            continue
        if name not in needs:
            sys.exit(f"{wanted} is needed and not pinned; add it to constraints.txt.")
        found.add((name, extras))
        for line in needs[name]:
            need = Requirement(line)
            if need.marker is None or any(
                need.marker.evaluate({**world, "extra": extra})
                for world in worlds
                for extra in (*extras, "")
            ):
                waiting.append(need)
    return {name for name, _ in found}


if __name__ == "__main__":
    main()
