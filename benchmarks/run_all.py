"""Run every benchmark that prints ratios and keep what they print: ``make bench``.

  python -m benchmarks.run_all [--quick]

Writes docs/evidence/bench.md (everything printed, signed with command, date,
machine and load) and docs/evidence/bench.json (the figures of the engine). A
script that is missing is left out and named; one that fails or misses a bar
makes this exit with 1 at the end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.timing import load, machine, signed

HERE = Path(__file__).parent
EVIDENCE = HERE.parent / "docs" / "evidence"
TAKES_QUICK = ("engine.engine", "exact.exact_solver")
SCRIPTS = (
    *("engine.engine", "engine.oracles", "exact.exact_solver", "engine.price_table"),
    *("certified.certified", "certified.certified_states"),
)


def run(name: str, extra: list[str]) -> tuple[int, str]:
    """(exit code, printed text); what is printed is shown as it comes."""
    command = [sys.executable, "-m", f"benchmarks.{name}", *extra]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", flush=True)
        lines.append(line)
    return process.wait(), "".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer calls: noisier figures, nothing is written",
    )
    options = parser.parse_args()
    page = [
        "# Benchmarks",
        "",
        f"`python -m benchmarks.run_all{' --quick' if options.quick else ''}`",
        "",
        signed(),
        "",
    ]
    figures: dict[str, object] = {
        "command": "python -m benchmarks.run_all",
        "machine": machine(),
    }
    failed = []
    for name in SCRIPTS:
        print(f"== {name}", flush=True)
        before, begin = load(), time.perf_counter()
        extra = ["--quick"] if options.quick and name in TAKES_QUICK else []
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "figures.json"
            code, text = run(
                name,
                [*extra, "--json", str(target)] if name == "engine.engine" else extra,
            )
            if target.exists():
                figures[name.split(".")[0]] = json.loads(target.read_text())
        if code != 0:
            failed.append(name)
        fenced = (
            text.strip()
            if name == "engine.engine"
            else f"```text\n{text.strip()}\n```"
        )
        command = f"`python -m benchmarks.{' '.join([name, *extra])}`"
        page += [
            f"## {name}",
            "",
            (
                f"{command}, load {before} before and {load()} "
                f"after, {time.perf_counter() - begin:.0f} s"
            ),
            "",
            fenced,
            "",
        ]
    page.append(f"Failed or missed a bar: {', '.join(failed) or 'none'}.")
    if not options.quick:
        EVIDENCE.mkdir(parents=True, exist_ok=True)
        (EVIDENCE / "bench.md").write_text("\n".join(page) + "\n")
        (EVIDENCE / "bench.json").write_text(json.dumps(figures, indent=1) + "\n")
    print(page[-1])
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
