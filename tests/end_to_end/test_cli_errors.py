"""What goes wrong on the command line is told in one sentence, with exit code 2
and nothing on standard output.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

CHAIN = ["chain:n=5", "--discount", "0.2", "--temperature", "10"]
PROMISE = ["--epsilon", "20%", "--delta", "0.1"]
# reference: nothing to compile
SHARP = ["--method", "smoothcruiser", "--executor", "reference"]

BAD = [
    (["plam"], "No such command 'plam'. Did you mean play or plan?"),
    (["plan", "shop.py"], "such as shop:problem"),
    (["plan", "json:lods"], "did you mean 'loads'?"),
    (
        ["explain", *CHAIN, *PROMISE, "--method", "smothcruiser"],
        "did you mean 'smoothcruiser'?",
    ),
    (["explain"], "PROBLEM"),
    (["plan"], "PROBLEM"),
    (["plan", "maze", *PROMISE], "'maze'"),
    (
        ["plan", "chain:n=zero", "--discount", "0.2", "--temperature", "1", *PROMISE],
        "'zero'",
    ),
    (["explain", *CHAIN, "--epsilonn", "1"], "--epsilon"),
    (["explain", *CHAIN[:1], "--temperature", "1", *PROMISE], "--discount"),
    (["explain", *CHAIN[:3], *PROMISE], "--temperature"),
    (["explain", "chain", "--discount", "1.5", "--temperature", "1", *PROMISE], "1.5"),
    (
        ["explain", "chain", "--discount", "much", "--temperature", "1", *PROMISE],
        "'much'",
    ),
    (
        ["explain", "chain", "--discount", "0.2", "--temperature", "cold", *PROMISE],
        "'cold'",
    ),
    (["explain", "chain", "--discount", "0.2", "--temperature", "-1", *PROMISE], "-1"),
    (["explain", *CHAIN, "--operator", "soft", *PROMISE], "'soft'"),
    (["explain", *CHAIN, "--delta", "0.1"], "--epsilon"),
    (["explain", *CHAIN, "--epsilon", "0", "--delta", "0.1"], "above 0"),
    (["explain", *CHAIN, "--epsilon", "5%%", "--delta", "0.1"], "'5%%'"),
    (["explain", *CHAIN, "--epsilon", "5%", "--delta", "1"], "between 0 and 1"),
    (["explain", *CHAIN, *PROMISE, "--method", "magic"], "'magic'"),
    (["explain", *CHAIN, *PROMISE, "--target", "all"], "'all'"),
    (["explain", *CHAIN, *PROMISE, "--budget", "lots"], "'lots'"),
    (["explain", *CHAIN, *PROMISE, "--budget", "0"], "at least 1"),
    (["explain", *CHAIN, *PROMISE, "--delta-prime", "0.1"], "--delta-prime"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--state", "[1"], "'[1'"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--state", "99"], "99"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--state", "[1, 2]"], "(1, 2)"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--seed", "-1"], "-1"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--seed", "x"], "'x'"),
    (
        ["plan", *CHAIN, *PROMISE, "--method", "smoothcruiser", "--executor", "gpu"],
        "'gpu'",
    ),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--workers", "0"], "at least 1"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--shards", "0"], "at least 1"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--seconds", "-1"], "above 0"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--scheduler", "nowhere"], "--scheduler"),
    (["plan", *CHAIN, *PROMISE, *SHARP, "--store", "."], "--store"),
    (["plan", "--resume", "1"], "--store"),
    (["plan", "--resume", "one", "--store", "x.db"], "'one'"),
    (["plan", "--resume", "1", "--store", "nowhere.db"], "nowhere.db"),
    (["runs"], "--store"),
    (["runs", "--store", "nowhere.db"], "nowhere.db"),
    (["exact", *CHAIN, "--state", "5"], "from 0 to 4"),
]


@pytest.mark.parametrize(("arguments", "fragment"), BAD)
def test_an_error_is_one_sentence_on_stderr_and_exit_code_2(
    run: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    fragment: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert done.code == 2
    # found out when workers start, after the price was announced
    assert done.out == "" or "--scheduler" in arguments
    assert done.err.startswith("Error: ")
    assert fragment in done.err
    assert "Traceback" not in done.err
    offers = done.err.rstrip("\n").split("\n")[1:]
    assert all(offer.startswith("  - ") for offer in offers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("attribute", "fragment"),
    [("broken", "no licence"), ("number", "int"), ("nothing", "'nothing'")],
)
def test_what_goes_wrong_in_a_users_module_is_told_without_a_traceback(
    run: Any, own: str, attribute: str, fragment: str
) -> None:
    done = run("plan", f"{own}:{attribute}", *PROMISE)
    assert done.code == 2
    assert fragment in done.err
    assert "Traceback" not in done.err


def test_help_without_a_command(run: Any) -> None:
    done = run()
    assert done.code == 0
    assert "Commands" in done.out
    assert done.err == ""
