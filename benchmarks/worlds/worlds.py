"""Worlds that nobody here wrote: all benchmark sets of issue 21, one page.

    python -m benchmarks.worlds.worlds [--parts a b c d] [--out docs/evidence/worlds.md]

  a  models of verification: exact and certified against published values
  b  IPPC domains: every tree search against noop and random play
  c  OpenSpiel's games: exact against OpenSpiel's own minimax
  d  Gymnasium's sets: exact values, certified intervals, agents against random play

Each part is a script of this folder, run in a process of its own; it writes a page of
its own beside ``--out`` (``worlds-games.md``, …), which becomes a section here. Of a part
that is not asked for, the page of an earlier run is taken: ``--parts`` without a letter
only puts the pages together. A part whose script or library
is missing is left out with a line. The exit code is 1 if a part that ran says that
something did not hold.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import signed


@dataclass(frozen=True)
class Part:
    """One set of worlds, measured by a script."""

    letter: str
    title: str
    script: str
    needs: tuple[str, ...]  # modules of its libraries
    extra: str  # what installs them
    page: str  # the name of what it writes
    arguments: tuple[str, ...] = ()

    def missing(self) -> str:
        """Why the part cannot run; empty if it can."""
        absent = [n for n in self.needs if importlib.util.find_spec(n) is None]
        if absent:
            needed = f"pip install 'smoothcruiser[{self.extra}]'"
            return f"it needs the package {absent[0]} ({needed})"
        return ""

    def run(self, folder: Path) -> tuple[list[str], int]:
        """The lines that the script wrote, without its title, and its exit code."""
        page = folder / self.page
        page.unlink(missing_ok=True)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                f"benchmarks.{self.script}",
                *self.arguments,
                "--out",
                str(page),
            ],
            check=False,
        )
        if not page.exists():
            return [f"It failed with exit code {done.returncode}."], 1
        return self.written(page), done.returncode

    def written(self, page: Path) -> list[str]:
        """The lines of a page as those of a section: no title, headings one deeper."""
        lines = page.read_text().strip().splitlines()
        body = [line for line in lines if not line.startswith("# ")]
        while body and not body[0]:
            body.pop(0)
        return ["#" + line if line.startswith("#") else line for line in body]


PARTS = (
    Part(
        "a",
        "Models of verification",
        "exact.worlds_verification",
        (),
        "umb",
        "worlds-verification.md",
        ("--seconds", "30"),
    ),
    Part(
        "b",
        "IPPC domains",
        "worlds.worlds_ippc",
        ("pyRDDLGym", "rddlrepository"),
        "rddl",
        "worlds-ippc.md",
        ("--episodes", "10"),
    ),
    Part(
        "c",
        "OpenSpiel's games",
        "worlds.worlds_games",
        ("pyspiel",),
        "openspiel",
        "worlds-games.md",
        ("--positions", "10"),
    ),
    Part(
        "d",
        "Gymnasium's sets",
        "worlds.worlds_gymnasium",
        ("gymnasium",),
        "minigrid",
        "worlds-gymnasium.md",
    ),
)


def page(letters: list[str], folder: Path) -> tuple[list[str], bool]:
    """The report's lines, and whether every part that ran held."""
    lines = ["# Worlds that nobody here wrote", ""]
    command = " ".join(["python -m benchmarks.worlds.worlds --parts", *letters])
    lines += [f"`{command}`, {signed()}"]
    held = True
    for part in PARTS:
        lines += ["", f"## ({part.letter}) {part.title}", ""]
        reason, earlier = part.missing(), folder / part.page
        if part.letter in letters and not reason:
            written, code = part.run(folder)
            lines += written
            held = held and code == 0
        elif earlier.exists():
            lines += part.written(earlier)
        else:
            lines.append(f"Left out: {reason or 'it was not asked for'}.")
    return lines, held


def main() -> int:
    """Run the parts, print the page, and write it where requested."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    letters = [part.letter for part in PARTS]
    parser.add_argument("--parts", nargs="*", choices=letters, default=letters)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as nowhere:
        folder = Path(nowhere) if options.out is None else options.out.parent
        lines, held = page(options.parts, folder)
    print("\n".join(lines))
    if options.out is not None:
        options.out.write_text("\n".join([*lines, ""]))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
