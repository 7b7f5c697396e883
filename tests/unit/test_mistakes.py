"""The mistakes of newcomers (``mistakes.toml``) get an answer that helps.

Each row's answer holds what the row says, and none is a traceback or a mere answer.
``python tests/unit/test_mistakes.py --out docs/evidence/mistakes.md`` writes the page.
"""

import argparse
import contextlib
import io
import linecache
import shlex
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from importlib.metadata import entry_points
from pathlib import Path
from types import CodeType

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

TABLE = tomllib.loads(Path(__file__).with_name("mistakes.toml").read_text("utf-8"))
(COMMAND,) = entry_points(group="console_scripts", name="smoothcruiser")
ROWS = [row for group in TABLE["groups"] for row in group["rows"]]
GRADES = [row.get("grade", "A") for row in ROWS]


def answer_of(code: str) -> str:
    """What a newcomer reads who has written ``code``: an error, notes or findings."""
    return _printed(code[1:]) if code.startswith("$") else _evaluated(code)


def _printed(command: str) -> str:
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = [
        "smoothcruiser",
        *shlex.split(command.replace("CHAIN", TABLE["chain"])),
    ]
    try:
        with (
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
            pytest.raises(SystemExit) as left,
        ):
            COMMAND.load()()
    finally:
        sys.argv = before
    assert left.value.code in (None, 0, 2), err.getvalue()
    return " ".join((err.getvalue() or out.getvalue()).split())


def _compiled(code: str, mode: str) -> CodeType:
    """Code with its text at hand, as in a file, a notebook or a new prompt."""
    name = f"<mistake {hash(code)}>"
    linecache.cache[name] = len(code), None, code.splitlines(True), name
    return compile(code, name, mode)


def _evaluated(code: str) -> str:
    scope = {}
    exec(_compiled(TABLE["prelude"], "exec"), scope)
    *before, last = code.split("\n")
    try:
        exec(_compiled("\n".join(before), "exec"), scope)
        result = eval(_compiled(last, "eval"), scope)
    except (sc.SmoothcruiserError, AttributeError, TypeError) as error:
        return str(error)
    if hasattr(result, "findings"):
        return " ".join(x.sentence for x in result.findings if x.verdict == "wrong")
    return " ".join(result.notes)


@pytest.mark.parametrize(
    "row", ROWS, ids=lambda row: f"{row['title']}: {row['code']:.40}"
)
def test_a_mistake_gets_an_answer_that_helps(row):
    assert row["says"] in answer_of(row["code"])


def test_there_are_a_hundred_and_none_is_unclear():
    assert len(ROWS) >= 100
    assert set(GRADES) <= {"A", "B"}
    assert len({row["code"] for row in ROWS}) == len(ROWS)


# --- the page -----------------------------------------------------------------


def page() -> str:
    """The table of all mistakes with the answers as they are printed."""
    git = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    lines = [
        "# A hundred mistakes, and the answers to them",
        "",
        f"`{' '.join(['python', 'tests/unit/test_mistakes.py', *sys.argv[1:]])}`, "
        f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.strip()}. {len(ROWS)} mistakes: "
        f"{GRADES.count('A')} answers are graded A (one sentence that says what came and "
        f"what to change), {GRADES.count('B')} B (clear, the remedy is the reader's). None "
        "is C (unclear) or F (silent, wrong, a traceback). The grades are a reader's; a "
        "test holds every answer to its fragment. All of the code begins with",
        "",
        f"```python\n{TABLE['prelude'].strip()}\n```",
    ]
    for group in TABLE["groups"]:
        lines += ["", f"## {group['title']}", ""]
        for row in group["rows"]:
            shown, language = row["code"].replace("CHAIN", TABLE["chain"]), "python"
            if shown.startswith("$"):
                shown, language = shown.replace("$ ", "smoothcruiser "), "sh"
            answer = answer_of(row["code"])
            place = answer.find(row["says"])
            if len(answer) > 900:  # a note within an answer
                answer = f"… {answer[max(0, place - 300) : place + 300]} …"
            lines += [f"**{row['title']}** ({row.get('grade', 'A')})", ""]
            lines += [f"```{language}\n{shown}\n```", ""]
            lines += [f"> {' '.join(answer.split())}", ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True, type=Path)
    parser.parse_args().out.write_text(page())
