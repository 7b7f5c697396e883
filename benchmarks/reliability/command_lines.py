"""Random command lines: half valid, half with one or two faults; none may surprise.

A line is made from a grammar of valid ones (every command, method and executor, built-in
problems, adapters and a user's module). A faulty line has values, names, options or files
that make no sense, or that ask for more than can be had. The law for each:

  the exit code is 0, 2 (refused) or 130 (stopped by Ctrl-C); for ``check`` also 1 (a
  fault was found)
  valid lines give 0, and nothing on standard error
  an error is a paragraph that begins with "Error: "; no traceback, no "unexpected"
  --json prints exactly one JSON object, or nothing when refused
  no control character is printed
  a line that asks for too much ends within ``PATIENCE`` seconds of Ctrl-C
  nothing is written outside the folder of the lines

Lines run in forked children of one process that has compiled everything before; some
run as processes of their own. A child has an audit hook, which sees what it opens.

    python -m benchmarks.reliability.command_lines --lines 3000 --out docs/evidence/command-lines.md
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path

from benchmarks.reliability.command_line_grammar import (
    OWN,
    Line,
    faulty,
    valid,
    warming,
)

PATIENCE = 20.0  # seconds that a line may take, and again after Ctrl-C
FAULTY_PATIENCE = 3.0  # before Ctrl-C, of a line that may ask for anything
MEMORY = 12 * 2**30  # bytes of address space of a child
OWN_PROCESS = 50  # one line of so many runs as a process of its own
SHOWN = 40  # violations that are printed in full
CHANGES = ("os.mkdir", "os.remove", "os.rename", "sqlite3.connect")  # of the disk
RAW = ("Traceback", "Error: unexpected", "Exception ignored", "Warning")
# what tells the folders of compiled code and of libraries' own caches
CACHES = ("__pycache__", ".cache", "numba", "matplotlib", "mpl-", "fontlist")


@dataclass(frozen=True)
class Ended:
    """How a line ended."""

    line: Line
    code: int | None  # None: it did not end
    out: str = ""
    err: str = ""
    stopped: bool = False  # Ctrl-C was sent
    seconds: float = 0.0
    wrote: tuple[str, ...] = ()  # outside its folder


@dataclass
class Tally:
    """Lines by command and exit code, and the violations."""

    codes: Counter[tuple[str, bool, int | None]] = field(default_factory=Counter)
    violations: list[tuple[str, Ended]] = field(default_factory=list)

    def add(self, ended: Ended) -> None:
        self.codes[ended.line.command, ended.line.is_valid, ended.code] += 1
        for fault in faults(ended):
            self.violations.append((fault, ended))


def faults(ended: Ended) -> Iterator[str]:
    """What a line did against the law."""
    line, code, out, err = ended.line, ended.code, ended.out, ended.err
    allowed = {0, 2, 130} | ({1} if line.command == "check" else set())
    if code not in allowed:
        yield f"exit code {code}"
    if any(word in err for word in RAW):
        yield "a traceback or an unexpected error"
    if line.is_valid and (code != 0 or err):
        yield "a valid line was refused or complained"
    if code == 0 and err and not ended.stopped:
        yield "it succeeded and complained"
    if code == 2 and not (err.startswith("Error: ") and err.count("\n\n") == 0):
        yield "a refusal that is no paragraph"
    if code == 130 and not ended.stopped:
        yield "it stopped without Ctrl-C"
    if any(not (c.isprintable() or c == "\n") for c in out + err):
        yield "a control character was printed"
    if line.wants_json and not (_is_object(out) or (code != 0 and not out)):
        yield "--json did not print one object"
    if ended.wrote:
        yield f"it wrote to {', '.join(ended.wrote)}"


def _is_object(text: str) -> bool:
    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not JSON")

    try:
        return isinstance(json.loads(text, parse_constant=refuse), dict)
    except ValueError:
        return False


# --- running ------------------------------------------------------------------


def run_forked(line: Line, folder: Path) -> Ended:
    """Run a line in a fork of this process."""
    streams = [folder.parent / name for name in ("out", "err", "wrote")]
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = _in_child(line, folder, streams)
        finally:
            os._exit(code)
    code, stopped = _wait(child, line)
    out, err, wrote = (path.read_text("utf-8", "replace") for path in streams)
    seconds = time.monotonic() - begin
    written = tuple(sorted(set(wrote.splitlines())))
    return Ended(line, code, out, err, stopped, seconds, written)


def _wait(child: int, line: Line) -> tuple[int | None, bool]:
    """(exit code, whether Ctrl-C was sent) of a child; None if it had to be killed."""
    patience = PATIENCE if line.is_valid else FAULTY_PATIENCE
    for number, limit in ((signal.SIGINT, patience), (signal.SIGKILL, PATIENCE)):
        end = time.monotonic() + limit
        while time.monotonic() < end:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(status), number == signal.SIGKILL
            time.sleep(0.002)
        os.kill(child, number)
    os.waitpid(child, 0)
    return None, True


def _in_child(line: Line, folder: Path, streams: list[Path]) -> int:
    """The exit code of the line; its output goes to the three files."""
    from smoothcruiser.cli import app

    signal.signal(signal.SIGINT, signal.default_int_handler)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in streams]
    os.dup2(files[0], 1)
    os.dup2(files[1], 2)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.chdir(folder)
    _watch_writes(folder, files[2])
    sys.argv = ["smoothcruiser", *line.arguments]
    try:
        app.main()
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def _watch_writes(folder: Path, report: int) -> None:
    """Report every path outside the folder that is opened for writing."""
    home, spare = str(folder), tempfile.gettempdir()
    writing = os.O_WRONLY | os.O_RDWR | os.O_CREAT

    def hook(event: str, given: tuple[object, ...]) -> None:
        opened = event == "open" and isinstance(given[2], int) and given[2] & writing
        if not opened and event not in CHANGES:
            return
        path = given[0]
        if not isinstance(path, str | bytes):
            return
        full = os.path.abspath(os.fsdecode(path))
        inside = full.startswith((home, "/dev/", "/proc/", f"{spare}/pymp-"))
        if not inside and not any(word in full for word in CACHES):
            os.write(report, f"{event} {full}\n".encode("utf-8", "replace"))

    sys.addaudithook(hook)


def run_alone(line: Line, folder: Path) -> Ended:
    """Run a line as a process of its own, as a user does."""
    begin = time.monotonic()
    started = subprocess.Popen(
        [sys.executable, "-m", "smoothcruiser", *line.arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
    )
    stopped = False
    try:
        out, err = started.communicate(timeout=3 * PATIENCE)
    except subprocess.TimeoutExpired:
        stopped = True
        started.send_signal(signal.SIGINT)
        try:
            out, err = started.communicate(timeout=3 * PATIENCE)
        except subprocess.TimeoutExpired:
            started.kill()
            started.communicate()
            return Ended(line, None, stopped=True)
    seconds = time.monotonic() - begin
    return Ended(line, started.returncode, out, err, stopped, seconds)


def warm_up(folder: Path, *, cheap: bool) -> None:
    """Compile, in this process, what the lines need."""
    from smoothcruiser.cli import app

    os.chdir(folder)
    sys.path.append(str(folder))
    for line in warming(cheap=cheap):
        sys.argv = ["smoothcruiser", *line.arguments]
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as err:
            try:
                app.main()
            except SystemExit as done:
                if done.code:
                    raise SystemExit(
                        f"{shlex.join(line.arguments)}: {err.getvalue()}"
                    ) from None


def run_lines(number: int, seed: int, *, cheap: bool) -> Tally:
    """Run so many lines and hold each to the law."""
    chance = random.Random(seed)
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="lines-") as spare:
        folder = Path(os.path.realpath(spare)) / "here"
        folder.mkdir()
        (folder / "own_world.py").write_text(OWN)
        warm_up(folder, cheap=cheap)
        for i in range(number):
            line = valid(chance, cheap=cheap)
            if i % 2:
                line = faulty(line, chance, cheap=cheap)
            alone = i % OWN_PROCESS == OWN_PROCESS - 1 - i // OWN_PROCESS % 2
            tally.add((run_alone if alone else run_forked)(line, folder))
            if sys.stderr.isatty():
                print(f"\r{i + 1} of {number}", end="", file=sys.stderr)
        os.chdir("/")
    return tally


# --- the page -----------------------------------------------------------------


def page(tally: Tally, options: argparse.Namespace, seconds: float) -> str:
    """The figures by command and exit code, and what was against the law."""
    commit = subprocess.run(
        ["git", "-C", Path(__file__).parent, "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    text = [
        "# Random command lines\n",
        f"`python -m benchmarks.reliability.command_lines --lines {options.lines} --seed "
        f"{options.seed}`, {time.strftime('%Y-%m-%d', time.gmtime())}, commit {commit}, "
        f"{seconds / 60:.1f} minutes, load {os.getloadavg()[0]:.1f}\n",
        "Half of the lines come from a grammar of valid ones; the others have one or "
        "two faults in them. The law is in the head of the script.\n",
        "| command | valid: exit 0 | valid: other | faulty: exit 0 | 1 (check) | 2 "
        "| 130 (Ctrl-C after 3 s) | other |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for command in (*sorted({key[0] for key in tally.codes}), "all"):
        text.append(f"| {command} | {' | '.join(map(str, _row(tally, command)))} |")
    total = sum(tally.codes.values())
    text.append(f"\n{total:,} lines, {len(tally.violations)} violations of the law.")
    for fault, ended in tally.violations[:SHOWN]:
        shown = ascii(shlex.join(ended.line.arguments))[:600]
        told = ascii(ended.err[-800:])
        text.append(
            f"\n- {fault} (code {ended.code}, {ended.seconds:.1f} s): {shown}\n  {told}"
        )
    return "\n".join(text) + "\n"


def _row(tally: Tally, command: str) -> list[int]:
    found: Counter[tuple[bool, int | None]] = Counter()
    for (name, is_valid, code), count in tally.codes.items():
        if command in (name, "all"):
            found[is_valid, code] += count
    ran = [
        found[True, 0],
        sum(n for (ok, code), n in found.items() if ok and code != 0),
    ]
    codes = (0, 1, 2, 130)
    other = sum(n for (ok, code), n in found.items() if not ok and code not in codes)
    return [*ran, *(found[False, code] for code in codes), other]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--cheap", action="store_true", help="nothing that compiles")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    out = None if options.out is None else options.out.resolve()
    begin = time.monotonic()
    tally = run_lines(options.lines, options.seed, cheap=options.cheap)
    text = page(tally, options, time.monotonic() - begin)
    print(text)
    if out is not None:
        out.write_text(text, "utf-8")
    sys.exit(1 if tally.violations else 0)


if __name__ == "__main__":
    main()
