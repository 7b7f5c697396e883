"""Gymnasium's environments through ``check``.

Which access does each one get, what is refused, and why?

``python -m benchmarks.worlds.scan_gymnasium --out docs/evidence/scan-gymnasium.md``.
Each environment is reset, moved a few steps and passed to the adapter, so that
the problem starts at a live state. Families that are not installed get one
line. Where an environment is deterministic, the adapter's steps are compared
with the steps of the environment itself, from wherever it is. ``--ale N`` scans
N games (0: all of them); they take some seconds each. ``--packages`` scans environments
of other packages instead (``gymnasium_packages``), and puts them below what the page has.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
from benchmarks.worlds import gymnasium_packages as packages

import smoothcruiser as sc
from smoothcruiser.adapters import gymnasium as adapter
from smoothcruiser.jit.random.streams import stream

COMPARED = 100  # steps of the environment itself that are compared with the adapter's
DETERMINISTIC = ("classic_control", "mujoco", "atari")
MOVED = 5  # steps from the reset to the state that is planned from
FAMILIES = {  # family: the package that it needs
    "toy_text": None,
    "classic_control": None,
    "mujoco": "mujoco",
    "box2d": "Box2D",
    "atari": "ale_py",
}
RANGES = {
    "toy_text": (-100.0, 20.0),
    "classic_control": None,
    "mujoco": (-1e4, 1e4),
    "box2d": (-1e3, 1e3),
    "atari": (-1e4, 1e4),
}


def names(family: str, games: int) -> list[tuple[str, dict[str, Any]]]:
    """The newest version of every environment of a family, with its parameters."""
    newest: dict[tuple[str | None, str], Any] = {}
    for spec in gym.registry.values():
        if f".{family}." in f".{spec.entry_point}".replace(":", ".") or (
            family == "atari" and spec.namespace == "ALE"
        ):
            key = spec.namespace, spec.name
            if key not in newest or (spec.version or 0) > (newest[key].version or 0):
                newest[key] = spec
    found = sorted(spec.id for spec in newest.values())
    if family != "atari":
        return [(name, {}) for name in found] + (
            [("Taxi-v4", {"fickle_passenger": True})] if family == "toy_text" else []
        )
    chosen = found if games == 0 else found[:: max(1, len(found) // games)][:games]
    return [
        ("ALE/Pong-v5", {}),
        *((name, {"repeat_action_probability": 0.0}) for name in chosen),
    ]


def row(
    family: str, name: str, parameters: dict[str, Any]
) -> tuple[str, str, str, str, str]:
    """One line of the table: environment, access, verdict, equal steps, why."""
    shown = name + "".join(f",{key}={value:g}" for key, value in parameters.items())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            env = gym.make(name, **parameters)
    except Exception as error:
        return (
            shown,
            "-",
            "not built",
            "-",
            f"{type(error).__name__}: {error}".split("\n")[0][:120],
        )
    try:
        problem = live(env, RANGES[family])
    except sc.SmoothcruiserError as error:
        return shown, "-", "refused", "-", str(error)
    report = sc.check(problem, epsilon="20%")
    wrong = "; ".join(
        finding.sentence for finding in report.findings if finding.verdict == "wrong"
    )
    access = (
        type(problem.oracle)
        .__name__.removesuffix("Oracle")
        .removeprefix("Gym")
        .lower()
    )
    equal = (
        f"{equal_steps(problem, env)} of {COMPARED}"
        if family in DETERMINISTIC
        else "random"
    )
    env.close()
    return shown, access, "usable" if report.ok else "not usable", equal, wrong


def equal_steps(problem: sc.Problem, env: Any) -> int:
    """How many steps of the environment agree with the adapter's from the same state.

    They agree if both pay and end alike.
    """
    oracle: Any = problem.oracle
    equal = 0
    for i in range(COMPARED):
        action = int(stream(0, i).integers(problem.num_actions))
        reward, _, ended = oracle(oracle.read(env), action, stream(1, i))
        chosen = oracle.actions[action]
        _, paid, terminated, truncated, _ = env.unwrapped.step(chosen)
        equal += bool(
            abs(reward - paid) <= 1e-9 * max(1.0, abs(paid))
            and ended == (terminated or truncated)
        )
        if ended or terminated or truncated:
            env.reset()
    return equal


def live(env: Any, reward_range: tuple[float, float] | None) -> sc.Problem:
    """The problem of an environment some steps after its reset."""
    space = env.action_space
    space.seed(0)
    env.reset(seed=0)
    for _ in range(MOVED):
        if any(env.step(space.sample())[2:4]):
            env.reset()
    box = isinstance(space, gym.spaces.Box)
    actions = (
        [space.low, space.high, (0.5 * (space.low + space.high)).astype(space.dtype)]
        if box
        else None
    )
    return adapter.problem(
        env,
        discount=0.5,
        operator=sc.Entropy(1.0),
        actions=actions,
        reward_range=reward_range,
    )


def table(games: int) -> list[str]:
    """The report's lines."""
    lines = [
        "| environment | access | verdict | equal steps | why |",
        "|---|---|---|---|---|",
    ]
    for family, package in FAMILIES.items():
        if package is not None and importlib.util.find_spec(package) is None:
            lines.append(
                f"| {family} | - | not installed | - | needs the package {package} |"
            )
            print(lines[-1], flush=True)
            continue
        if family == "atari":
            import ale_py

            gym.register_envs(ale_py)
        for name, parameters in names(family, games):
            lines.append(f"| {' | '.join(row(family, name, parameters))} |")
            print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Scan, and write the table where ``--out`` says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument(
        "--ale", type=int, default=8, help="number of ALE games, 0 for all"
    )
    parser.add_argument(
        "--packages", action="store_true", help="environments of other packages"
    )
    parser.add_argument("--one", type=int, help="one of them, as JSON")
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(packages.verdict(packages.WORLDS[options.one])))
        return
    if options.packages:
        found = packages.lines()
        if options.out is not None:
            add_packages(options.out, found)
        return
    lines = table(options.ale)
    if options.out is not None:
        load = os.getloadavg()[0]
        head = [
            "# Gymnasium's environments through `check`",
            "",
            f"`python -m benchmarks.worlds.scan_gymnasium --ale {options.ale}`, "
            f"{datetime.date.today()}, Gymnasium {gym.__version__}, load {load:.1f}",
            "",
            (
                f"Each environment was moved {MOVED} steps from a reset; "
                "the problem starts there. *Access* is how the planner"
            ),
            (
                "steps it from any state (docs/simulators.md). *Equal "
                "steps* are those of the real environment whose reward and"
            ),
            (
                "end the adapter foretold, to nine digits, from the "
                "state it read; `random` ones are left to `check`."
            ),
            "",
        ]
        before = options.out.read_text() if options.out.exists() else ""
        _, heading, others = before.partition(PACKAGES)
        options.out.write_text("\n".join([*head, *lines, "", heading + others]))


PACKAGES = "## Environments of other packages\n"


def add_packages(page: Path, lines: list[str]) -> None:
    """Put the table of other packages at the end of the page."""
    before = page.read_text().partition(PACKAGES)[0].rstrip() if page.exists() else ""
    seen = [text.split(" | ")[4] for text in lines[2:]]
    counts = ", ".join(f"{seen.count(word)} {word}" for word in dict.fromkeys(seen))
    head = f"""{PACKAGES}
`python -m benchmarks.worlds.scan_gymnasium --packages`, {datetime.date.today()}, commit
{commit()}, Gymnasium {gym.__version__}, load {os.getloadavg()[0]:.1f}: {counts}.

Each environment plays {packages.STEPS} steps of evenly drawn actions at discount
{packages.DISCOUNT:g} through the adapter and by itself, from resets of their own; both means
agree within {packages.ERRORS:g} standard errors where the verdict is *works*, and *wrong*
says that they do not.
"""
    page.write_text("\n".join([before, "", head, *lines, ""]))


def commit() -> str:
    """The commit of the sources."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
