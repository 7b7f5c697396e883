"""Sixty small faults in the core, and which of them the tests see.

  python -m benchmarks.reliability.mutation_run [--again] [--only 3,17]

A mutant is one small change at a place that is named by file, function, kind of change
and ordinal of that kind in the function, so it survives moves of lines. The list and
the state of each mutant are in ``docs/evidence/mutation-run.json``; ``--choose`` draws a
new list with a fixed seed, ``--page`` writes the page from the list and runs nothing.

Mutants are applied in a copy of the tree, one at a time, and tests run until one fails:
the unit tests of the mutant's package, those first that name its file, then tests/golden,
tests/property and the conformance of engines. A test kills only if it passes without the
mutant. Limits are in CPU seconds, so that a busy machine changes little. A test that ends
at its limit with the mutant, and passes without, kills; a mutant that lives at the limit
of all its tests is ``at the limit``, and counts as one that survived.

``--again`` is for afterwards: each mutant is tried with the recorded test first, and the
exit code is 1 if a mutant that was killed lives now. ``--source FOLDER`` tries mutants on
another checkout, with its own tests: what an earlier suite killed.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
ROOT = next(p for p in HERE.parents if (p / "pyproject.toml").exists())
PACKAGE = Path("src") / "smoothcruiser"
PLUGIN = ".".join(HERE.relative_to(ROOT).with_suffix("").parts)
RECORDS = Path("docs") / "evidence" / "mutation-run.json"
SEED, NUM_MUTANTS, MOST_COMPILED = 36, 60, 12
CORE = re.compile(
    r"(operators|theory|schedule|engines|certified|tree|exact|evaluation|problem|jit|store)/"
    r"|query\.py|methods/schedules/schedule_within_limits\.py"
)
# Text and clocks, whose faults are no wrong answers; extras that tests have in part.
OUTSIDE = re.compile(r"text|notes|view|calibrate|dask|jax|zoo|__init__|price_forecast")
COMPILED = re.compile(
    r"kernel|engines/compiled|jit/random|jit/memory|operators/dispatch|certified/bounds"
)
# CPU seconds of one mutant, of one in compiled code, of one test
LIMIT, LIMIT_COMPILED, LIMIT_ONE = 120, 240, 60
WALL_FACTOR = 40
NETS = ["tests/golden", "tests/property", "tests/conformance/engines"]


class Edit(NamedTuple):
    """One change of a file: bytes ``start`` to ``stop`` become ``text``."""

    function: str
    kind: str
    start: int
    stop: int
    text: str


OPPOSITES = {
    ast.Lt: ("<", ">="), ast.LtE: ("<=", ">"), ast.Gt: (">", "<="), ast.GtE: (">=", "<"),
    ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"), ast.Add: ("+", "-"), ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"), ast.Div: ("/", "*"), ast.And: ("and", "or"), ast.Or: ("or", "and"),
}  # fmt: skip
EDGES = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}


def list_edits(source: bytes) -> list[Edit]:
    """All places of a file that a mutant may change, in the order of the source."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    edits: list[Edit] = []

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.Raise | ast.Assert | ast.JoinedStr | ast.AnnAssign):
            node_value = getattr(node, "value", None)
            if node_value is not None:
                visit(node_value, function)
            return
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{node.name}".lstrip(".")
            for child in node.body:
                visit(child, inner)
            return
        if function:
            edits.extend(change(node, function))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    def change(node: Any, function: str) -> Iterator[Edit]:
        def span(part: Any) -> tuple[int, int]:
            return (
                lines[part.lineno - 1] + part.col_offset,
                lines[part.end_lineno - 1] + part.end_col_offset,
            )

        def between(left: Any, right: Any, old: str, new: str, kind: str) -> Edit:
            start, stop = span(left)[1], span(right)[0]
            place = source.index(old.encode(), start, stop)
            return Edit(function, kind, place, place + len(old), new)

        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                if type(op) in OPPOSITES:
                    yield between(left, right, *OPPOSITES[type(op)], "compare")
                if type(op) in EDGES:
                    old = OPPOSITES[type(op)][0]
                    yield between(left, right, old, EDGES[type(op)], "edge")
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPPOSITES:
                if not any(is_text(part) for part in (left, right)):
                    yield between(left, right, *OPPOSITES[type(op)], "arithmetic")
            case ast.BoolOp(op=op, values=[left, right]):
                yield between(left, right, *OPPOSITES[type(op)], "and/or")
            case ast.Call(func=ast.Name(id="min" | "max" as name) as called):
                yield Edit(
                    function,
                    "min/max",
                    *span(called),
                    "max" if name == "min" else "min",
                )
            case ast.Constant(value=int() | float() as value) if not isinstance(
                value, bool
            ):
                yield Edit(function, "constant", *span(node), repr(value + 1))
            case ast.UnaryOp(op=ast.Not()):
                start, _ = span(node)
                yield Edit(function, "not", start, start + len("not "), "")
            case ast.Return(value=ast.Compare() | ast.BoolOp() as value):
                start, stop = span(value)
                text = source[start:stop].decode()
                yield Edit(function, "return", start, stop, f"not ({text})")

    visit(ast.parse(source), "")
    return edits


def is_text(node: ast.AST) -> bool:
    """Whether a part of a sum is a string, which would fail at once."""
    is_string = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_string or isinstance(node, ast.JoinedStr)


def find_edit(source: bytes, mutant: dict[str, Any]) -> Edit | None:
    """The change of a mutant in today's source, or None if its place has gone."""
    name, kind = mutant["function"], mutant["kind"]
    edits = [e for e in list_edits(source) if (e.function, e.kind) == (name, kind)]
    return edits[mutant["ordinal"]] if mutant["ordinal"] < len(edits) else None


def choose_mutants() -> list[dict[str, Any]]:
    """Sixty places, shared out over the packages by the square root of their places."""
    places: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        file = path.relative_to(ROOT / PACKAGE).as_posix()
        if not CORE.match(file) or OUTSIDE.search(file):
            continue
        ordinals: Counter[tuple[str, str]] = Counter()
        for edit in list_edits(path.read_bytes()):
            key = edit.function, edit.kind
            if not re.search(r"\b(__repr__|_repr|text|describe|show)", edit.function):
                places[file.split("/")[0]].append(
                    {"file": file, "function": edit.function, "kind": edit.kind}
                    | {"ordinal": ordinals[key]}
                )
            ordinals[key] += 1
    generator = random.Random(SEED)
    shares = {name: len(listed) ** 0.5 for name, listed in places.items()}
    unit = NUM_MUTANTS / sum(shares.values())
    counts = {name: max(1, int(unit * share)) for name, share in shares.items()}
    by_size = sorted(places, key=lambda name: (-shares[name], name))
    for name in by_size[: NUM_MUTANTS - sum(counts.values())]:
        counts[name] += 1
    chosen: list[dict[str, Any]] = []
    for name in sorted(places):
        functions: set[tuple[str, str]] = set()
        kinds: list[str] = []
        while len(functions) < counts[name]:
            # a kind first, so that constants are not half of all mutants
            kinds = kinds or sorted({m["kind"] for m in places[name]})
            kind = kinds.pop(generator.randrange(len(kinds)))
            mutant = generator.choice([m for m in places[name] if m["kind"] == kind])
            is_compiled = bool(COMPILED.search(mutant["file"]))
            num_compiled = sum(bool(COMPILED.search(m["file"])) for m in chosen)
            place = mutant["file"], mutant["function"]
            if place in functions or (is_compiled and num_compiled >= MOST_COMPILED):
                continue
            functions.add(place)
            chosen.append(mutant)
    return chosen


class Outcome(NamedTuple):
    """The end of one run of tests: its state and the test that decided it."""

    state: str  # passed, killed, timed out or not found
    test: str | None = None


class Workshop:
    """A copy of the tree in which mutants are applied and tests run."""

    def __init__(self, folder: Path, source: Path) -> None:
        self.root, self.log = folder / "tree", folder / "log"
        hidden = shutil.ignore_patterns(".git", ".venv", ".hypothesis", "_build")
        shutil.copytree(source, self.root, ignore=hidden)
        plugin = Path(PLUGIN.replace(".", "/") + ".py")
        (self.root / plugin).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / plugin, self.root / plugin)
        self.unsound: set[str] = set()  # tests that fail without a mutant

    def run(
        self, tests: list[str], limit: int, mark: str, stop: str = "-x"
    ) -> Outcome:
        """Run tests in this order until one fails; ``limit`` is in CPU seconds."""
        if not tests:
            return Outcome("passed")
        self.log.write_text("")
        arguments = self.log.with_suffix(".args")
        arguments.write_text("\n".join(tests))
        paths = self.root / "src", self.root
        variables = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PYTHONPYCACHEPREFIX": str(self.log.with_suffix(".bytecode")),
            "MUTATION_LOG": str(self.log),
        }  # fmt: skip
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        command = [
            sys.executable,
            "-m",
            "pytest",
            stop,
            "-q",
            "-p",
            PLUGIN,
            "-m",
            mark,
        ]
        command += ["-p", "no:cacheprovider", f"@{arguments}"]
        command += [f"--deselect={test}" for test in sorted(self.unsound)]
        process = subprocess.Popen(
            command, cwd=self.root, env=variables, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
        )  # fmt: skip
        try:
            printed, _ = process.communicate(timeout=WALL_FACTOR * limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
        events = self.read_log()
        failures = [test for event, test in events if event == "failed"]
        last_test = events[-1][1] if events else None
        if failures:
            return Outcome("killed", failures[0])
        if "ERROR: not found" in printed:  # the recorded test has gone
            return Outcome("not found")
        if process.returncode in (0, 5):  # 5: no test has this mark
            return Outcome("passed")
        if process.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
            return Outcome("timed out", last_test)
        return Outcome("killed", last_test or f"start of pytest: {printed[-200:]}")

    def read_log(self) -> list[tuple[str, str]]:
        """Events of the last run and what they were about."""
        lines = self.log.read_text().splitlines()
        return [
            (event, about) for event, _, about in (x.partition(" ") for x in lines)
        ]

    @contextmanager
    def mutate(self, mutant: dict[str, Any]) -> Iterator[None]:
        """Apply a mutant for a while."""
        path = self.root / PACKAGE / mutant["file"]
        with restore(path) as source:
            edit = find_edit(source, mutant)
            assert edit is not None
            path.write_bytes(
                source[: edit.start] + edit.text.encode() + source[edit.stop :]
            )
            yield


@contextmanager
def restore(path: Path) -> Iterator[bytes]:
    """The contents of a file, which is as before afterwards, its time included."""
    source, times = path.read_bytes(), path.stat()
    try:
        yield source
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def name_target(mutant: dict[str, Any]) -> str:
    """A mutated function's name in the map of tests."""
    return f"{mutant['file']}:{mutant['function']}"


def list_tests(root: Path, mutant: dict[str, Any]) -> list[str]:
    """The files of tests that may kill a mutant, in the order they are tried."""
    file = Path(mutant["file"])
    word = file.parent.name if file.stem in ("base", "kernel") else file.stem
    folder = root / "tests" / "unit" / file.with_suffix("").parts[0]
    files = sorted(
        folder.rglob("test_*.py"), key=lambda x: (word not in x.read_text(), x)
    )
    return [path.relative_to(root).as_posix() for path in files] + NETS


def judge_mutant(
    workshop: Workshop, mutant: dict[str, Any], tests: list[str]
) -> Outcome:
    """Run tests until one kills the mutant and passes without it."""
    limit = LIMIT_COMPILED if COMPILED.search(mutant["file"]) else LIMIT
    while True:
        with workshop.mutate(mutant):
            outcome = workshop.run(tests, limit, "not slow")
            if outcome.state == "timed out" and outcome.test:
                outcome = workshop.run([outcome.test], LIMIT_ONE, "")
                if outcome.state in ("passed", "not found"):
                    return Outcome("at the limit")
        if outcome.test is None or not outcome.test.startswith("tests/"):
            return outcome
        if workshop.run([outcome.test], LIMIT_ONE, "").state == "passed":
            return outcome
        workshop.unsound.add(outcome.test)


def judge_mutants(workshop: Workshop, mutants: list[dict[str, Any]]) -> Iterator[None]:
    """Set the states of mutants, first by the tests that killed them before."""
    for mutant in mutants:
        path = workshop.root / PACKAGE / mutant["file"]
        killer, mutant["state"] = mutant.pop("test", ""), "gone"
        if path.exists() and find_edit(path.read_bytes(), mutant) is not None:
            outcome = Outcome("not found")
            if (workshop.root / killer.split("::")[0]).is_file():
                outcome = judge_mutant(workshop, mutant, [killer])
            if outcome.state not in ("killed", "timed out"):
                tests = list_tests(workshop.root, mutant)
                outcome = judge_mutant(workshop, mutant, tests)
            note_outcome(mutant, outcome)
        yield


def note_outcome(mutant: dict[str, Any], outcome: Outcome) -> None:
    """Write what decided a mutant, and print it."""
    mutant["state"] = "survived" if outcome.state == "passed" else outcome.state
    if outcome.test:
        mutant["test"] = outcome.test
    print(time.strftime("%H:%M:%S"), name_target(mutant), *outcome, flush=True)


def write_log(event: str, content: str) -> None:
    """Note an event of this pytest run for the process that started it."""
    with open(os.environ["MUTATION_LOG"], "a") as log:
        log.write(f"{event} {content}\n")


def pytest_collectreport(report: Any) -> None:
    """A file that cannot be imported has failed."""
    if report.failed:
        write_log("failed", report.nodeid)


def pytest_runtest_logstart(nodeid: str) -> None:
    """The test that runs now, if it should never end."""
    write_log("started", nodeid)


def pytest_runtest_logreport(report: Any) -> None:
    """A test has failed, while it was set up or called."""
    if report.failed:
        write_log("failed", report.nodeid)


def print_page(content: dict[str, Any]) -> str:
    """The evidence as Markdown: a table by package, then the mutants that live."""
    mutants = content["mutants"]
    num_killed = sum(map(is_killed, mutants))
    lines = [
        "# Sixty faults in the core",
        "",
        f"`python -m {PLUGIN}` at commit {content['commit']}, {content['date']} "
        "(what a mutant is, and which tests it meets: the script's head)",
        "",
        f"Killed: {num_killed} of {len(mutants)}. *Gone*: the place is no longer there. "
        "The test that killed each is in `mutation-run.json`.",
        "",
        "| package | mutants | killed | survived | at the limit | gone |",
        "|---|---|---|---|---|---|",
    ]
    states: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants:
        package = Path(mutant["file"]).with_suffix("").parts[0]
        states[package]["killed" if is_killed(mutant) else mutant["state"]] += 1
    for package, tally in sorted(states.items()):
        columns = ("killed", "survived", "at the limit", "gone")
        numbers = [tally.total(), *(tally[column] for column in columns)]
        lines.append(f"| {package} | {' | '.join(map(str, numbers))} |")
    lines += ["", "| | alive | change | reading |", "|---|---|---|---|"]
    for number, mutant in enumerate(mutants):
        if not is_killed(mutant):
            place = f"`{mutant['file']}` `{mutant['function']}`"
            cells = number, place, f"`{mutant['change']}`", mutant.get("reading", "")
            lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines) + "\n"


def is_killed(mutant: dict[str, Any]) -> bool:
    """Whether the tests have seen a mutant."""
    return mutant.get("state") in ("killed", "timed out")


def spell_change(mutant: dict[str, Any]) -> str:
    """The line of a mutant before the change, and the text that comes in."""
    source = (ROOT / PACKAGE / mutant["file"]).read_bytes()
    edit = find_edit(source, mutant)
    if edit is None:
        return "gone"
    start = source.rfind(b"\n", 0, edit.start) + 1
    stop = source.find(b"\n", edit.start)
    before, after = source[start : edit.start], source[edit.stop : stop]
    marked = before + b"[" + source[edit.start : edit.stop] + b"]" + after
    return f"{marked.decode().strip()} -> [{edit.text}]"


def write_json(content: dict[str, Any]) -> None:
    """Write the list of mutants with their states."""
    text = json.dumps(content, indent=1, ensure_ascii=False)
    (ROOT / RECORDS).write_text(text + "\n")


def main() -> int:
    """Choose, run or run again; the exit code is 1 if a kill was lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--choose", action="store_true", help="draw the list anew")
    parser.add_argument(
        "--again", action="store_true", help="compare with the list's states"
    )
    parser.add_argument("--source", type=Path, default=ROOT, help="another checkout")
    parser.add_argument("--only", default="", help="numbers of mutants, by commas")
    parser.add_argument(
        "--page", action="store_true", help="write the page, run nothing"
    )
    options = parser.parse_args()
    records = ROOT / RECORDS
    if options.choose:
        chosen = [m | {"change": spell_change(m)} for m in choose_mutants()]
        write_json({"mutants": chosen})
        return 0
    content = json.loads(records.read_text())
    mutants = content["mutants"]
    numbers = [int(x) for x in options.only.split(",") if x] or range(len(mutants))
    if not options.page:
        listed = [mutants[n].copy() for n in numbers]
        with tempfile.TemporaryDirectory() as folder:
            for _ in judge_mutants(Workshop(Path(folder), options.source), listed):
                if not options.again and options.source == ROOT:
                    for number, mutant in zip(numbers, listed, strict=True):
                        mutants[number] = mutant
                    write_json(content)
        if options.again:
            before = {n for n in numbers if is_killed(mutants[n])}
            now = {n for n, m in zip(numbers, listed, strict=True) if is_killed(m)}
            lost = ", ".join(map(str, sorted(before - now))) or "none"
            print(f"killed before {len(before)}, killed now {len(now)}, lost: {lost}")
            return 1 if before - now else 0
        if options.source != ROOT:
            return 0
        command = ["git", "rev-parse", "--short", "HEAD"]
        content["commit"] = subprocess.check_output(command, text=True).strip()
        content["date"] = time.strftime("%Y-%m-%d")
        write_json(content)
    records.with_suffix(".md").write_text(print_page(content))
    return 0


if __name__ == "__main__":
    sys.exit(main())
