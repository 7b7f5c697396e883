"""Environments of other packages than Gymnasium's own, through its adapter.

Which package and environment works, which is refused and why, and is any answer wrong?
``python -m benchmarks.worlds.scan_gymnasium --packages --out docs/evidence/scan-gymnasium.md``
writes the table; the packages have to be installed, and each environment runs in a process
of its own (``--one NUMBER``), so that one which aborts costs one line.

Wrong is an adapter whose law is not the environment's. Both play the same policy (actions
drawn evenly from a stream of their own) from their own resets: the environment through
``reset(seed=)`` and ``step``, the adapter through the oracle. Compared are the mean
discounted return and the mean length of an episode, within four standard errors.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import math
import subprocess
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import numpy as np

import smoothcruiser as sc
from smoothcruiser.adapters import gymnasium as adapter
from smoothcruiser.jit.random.streams import stream

DISCOUNT = 0.9
STEPS = 25  # of an episode
EPISODES, FEWEST = 300, 20
SECONDS = 3.0  # for the episodes of one side
LONGEST = 150.0  # of a whole process
ERRORS = 4.0  # standard errors that two means may be apart


@dataclass(frozen=True)
class World:
    """One environment of a package."""

    package: str  # as it is installed
    module: str  # that registers it
    name: str
    rewards: tuple[float, float] | None = None
    actions: Any = None
    parameters: dict[str, Any] = field(default_factory=dict)


def _frame() -> Any:
    import pandas as pd

    rng = np.random.default_rng(0)
    close = 100 + np.cumsum(rng.normal(size=300))
    index = pd.date_range("2024-01-01", periods=300, freq="h")
    columns = {"open": close, "high": close + 1, "low": close - 1, "close": close}
    frame = pd.DataFrame({**columns, "volume": 1.0}, index=index)
    frame["feature_close"] = frame["close"].pct_change().fillna(0.0)
    return frame


ANY = (-1e4, 1e4)
UNIT = (-1.0, 1.0)
WORLDS = (
    World("minigrid", "minigrid", "MiniGrid-Dynamic-Obstacles-5x5-v0"),
    World("minigrid", "minigrid", "BabyAI-GoToObj-v0"),
    World("highway-env", "highway_env", "highway-fast-v0", UNIT),
    World("highway-env", "highway_env", "parking-v0", (-10.0, 1.0), 3),
    World(
        "flappy-bird-gymnasium",
        "flappy_bird_gymnasium",
        "FlappyBird-v0",
        UNIT,
        parameters={"use_lidar": False},
    ),
    World("gym-anytrading", "gym_anytrading", "forex-v0", ANY),
    World("mo-gymnasium", "mo_gymnasium", "deep-sea-treasure-v0", ANY),
    World("mo-gymnasium", "mo_gymnasium", "four-room-v0", ANY),
    World(
        "gymnasium-2048", "gymnasium_2048", "gymnasium_2048/TwentyFortyEight-v0", ANY
    ),
    World(
        "gymnasium-search-race",
        "gymnasium_search_race",
        "gymnasium_search_race/SearchRaceDiscrete-v3",
        ANY,
    ),
    World("gym-simplegrid", "gym_simplegrid", "SimpleGrid-4x4-v0", UNIT),
    World("gym-saturation", "gym_saturation", "Vampire-v0", UNIT),
    World("gym-pusht", "gym_pusht", "gym_pusht/PushT-v0", UNIT, 3),
    World("popgym", "popgym", "popgym-HigherLowerEasy-v0", UNIT),
    World("popgym", "popgym", "popgym-MineSweeperEasy-v0", UNIT),
    World("gym-trading-env", "gym_trading_env", "TradingEnv", UNIT),
    World(
        "tetris-gymnasium",
        "tetris_gymnasium.envs.tetris",
        "tetris_gymnasium/Tetris",
        ANY,
    ),
    World("gym-toytext", "gym_toytext", "NChain-v1", (0.0, 10.0)),
    World("gym-toytext", "gym_toytext", "Roulette-v1", (-1.0, 36.0)),
    World("rware", "rware", "rware-tiny-2ag-easy-v2", UNIT),
    World("lbforaging", "lbforaging", "Foraging-5x5-2p-1f-v3", UNIT),
    World("jssenv", "JSSEnv", "jss-v1", ANY),
    World("nasim", "nasim", "Tiny-v0", (-100.0, 100.0)),
    World("ns-gym", "ns_gym", "ns_gym/Bridge-v0", UNIT),
    World("gym-electric-motor", "gym_electric_motor", "Finite-SC-PermExDc-v0", ANY),
    World("gym-multigrid", "gym_multigrid", "multigrid-collect-single-v0", ANY),
    World("panda-gym", "panda_gym", "PandaReach-v3", UNIT, 2),
    World(
        "gymnasium-robotics", "gymnasium_robotics", "PointMaze_UMaze-v3", (0.0, 1.0), 3
    ),
    World("gymnasium-robotics", "gymnasium_robotics", "FetchReach-v4", UNIT, 2),
)


def built(world: World) -> Any:
    """The environment of a world."""
    module = importlib.import_module(world.module)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gym.register_envs(module)
        more = {"df": _frame()} if world.name == "TradingEnv" else {}
        return gym.make(
            world.name, disable_env_checker=True, **world.parameters, **more
        )


def verdict(world: World) -> dict[str, str]:
    """One line: works, refused, not built or wrong, and what was seen."""
    try:
        env = built(world)
        env.reset(seed=0)
    except BaseException as error:
        return {"verdict": "not built", "why": _said(error)}
    try:
        problem = adapter.problem(
            env,
            discount=DISCOUNT,
            operator=sc.Max(),
            reward_range=world.rewards,
            actions=world.actions,
        )
    except sc.SmoothcruiserError as error:
        return {"verdict": "refused", "why": str(error)}
    kind = type(problem.oracle).__name__.removesuffix("Oracle").removeprefix("Gym")
    cells = {"access": kind.lower()}
    report = sc.check(problem, epsilon="50%")
    said = [x.sentence for x in report.findings if x.verdict == "wrong"]
    if said:
        return cells | {"verdict": "refused", "why": "check: " + "; ".join(said)}
    plan = sc.plan(problem, method="uct", budget=100)
    answer = f"uct, {plan.num_calls} calls: {plan.action_label or plan.action}"
    answer += f", {plan.value:.3g}"
    ours = played(lambda i: through_adapter(problem, i))
    theirs = played(lambda i: through_steps(env, problem, i))
    shown, same = compared(ours, theirs)
    return cells | {
        "verdict": "works" if same else "wrong",
        "answer": answer,
        "compared": shown,
        "why": "",
    }


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"


def played(episode: Any) -> np.ndarray[Any, Any]:
    """(episodes, 2): discounted returns and lengths, as many as there is time for."""
    begin, returns = time.perf_counter(), []
    while len(returns) < EPISODES:
        returns.append(episode(len(returns)))
        if len(returns) >= FEWEST and time.perf_counter() - begin > SECONDS:
            break
    return np.array(returns)


def through_adapter(problem: sc.Problem, number: int) -> tuple[float, int]:
    """One episode of the oracle, from a reset of its own."""
    oracle: Any = problem.oracle
    rng, choices = stream(11, number), stream(12, number)
    state, total, weight = oracle.reset(rng), 0.0, 1.0
    for i in range(STEPS):
        outcome = oracle(state, int(choices.integers(problem.num_actions)), rng)
        reward, state = outcome[0], outcome[1]
        ended = outcome[2] if len(outcome) > 2 else problem.is_terminal(state)
        total, weight = total + weight * reward, weight * DISCOUNT
        if ended:
            return total, i + 1
    return total, STEPS


def through_steps(env: Any, problem: sc.Problem, number: int) -> tuple[float, int]:
    """One episode of the environment itself."""
    actions: Any = problem.oracle.actions  # type: ignore[attr-defined]
    choices = stream(13, number)
    env.reset(seed=1000 + number)
    total, weight = 0.0, 1.0
    for i in range(STEPS):
        move = actions[int(choices.integers(problem.num_actions))]
        _, reward, terminated, truncated, _ = env.step(move)
        total, weight = total + weight * float(reward), weight * DISCOUNT
        if terminated or truncated:
            return total, i + 1
    return total, STEPS


def compared(ours: Any, theirs: Any) -> tuple[str, bool]:
    """Both means with their standard errors, and whether they agree."""
    texts, same = [], True
    for column, word in ((0, "return"), (1, "length")):
        one, other = ours[:, column], theirs[:, column]
        errors = [math.sqrt(x.var(ddof=1) / len(x)) for x in (one, other)]
        room = ERRORS * math.hypot(*errors) + 1e-6 * (1.0 + abs(other.mean()))
        same = same and abs(one.mean() - other.mean()) <= room
        texts.append(
            f"{word} {one.mean():.3g} ± {errors[0]:.1g} / {other.mean():.3g} ± "
            f"{errors[1]:.1g}"
        )
    return f"{'; '.join(texts)} ({len(ours)}/{len(theirs)} episodes)", same


def version(package: str) -> str:
    """The version that is installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def line(number: int) -> str:
    """The line of a world, found in a process of its own."""
    world = WORLDS[number]
    head = f"| {world.package} | {version(world.package)} | {world.name}"
    if version(world.package) == "not installed":
        return f"{head} | - | not installed | | | |"
    command = [sys.executable, sys.argv[0], "--one", str(number)]
    try:
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=LONGEST, check=False
        )
        result = json.loads(run.stdout.strip().splitlines()[-1])
    except subprocess.TimeoutExpired:
        result = {"verdict": "too slow", "why": f"not back after {LONGEST:g} s"}
    except (ValueError, IndexError):
        last = (run.stderr.strip().splitlines() or ["no word"])[-1]
        result = {"verdict": "crashed", "why": f"exit {run.returncode}: {last}"}
    cells = [
        result.get(x, "") for x in ("access", "verdict", "answer", "compared", "why")
    ]
    return " | ".join([head, *(cell.replace("|", "/")[:400] for cell in cells)]) + " |"


def lines() -> list[str]:
    """The table."""
    table = [
        "| package | version | environment | access | verdict | a plan | adapter / "
        "environment itself | why |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for number in range(len(WORLDS)):
        table.append(line(number))
        print(table[-1], flush=True)
    return table
