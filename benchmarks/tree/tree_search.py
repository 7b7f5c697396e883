"""Speed and strength of tree search, in one run.

Simulations per second and games against OpenSpiel, mctx and plain Python.

    python -m benchmarks.tree.tree_search [speed] [workers] [games] [quality] [bounds]
                                     [cart-pole] [--quick] [--out FILE]

speed      compiled UCT against OpenSpiel's C++ MCTS and mctx (both if
           installed), OpenSpiel's Python MCTS and our own plain tree, from the
           empty board; interleaved, best of five, in processor seconds (mctx:
           wall seconds, it uses all cores)
workers    two trees grown by one thread and by two: processor and wall seconds; the
           wall clock says something only where two cores are idle
games      connect four, UCT and MENTS against OpenSpiel's MCTS bot at equal
           simulations; win rate with a 95% Wilson interval
quality    oracle calls until the recommended policy loses at most 5% of what
           the blind policy loses in one step, on seven problems
bounds     the same calls for trees with and without bounds= of a certified memory that
           was stopped before it had decided
cart-pole  a replanning UCT policy certified from below at gamma = 0.99
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import os
import statistics
import time
from pathlib import Path

from benchmarks.tree.board_games import cart_pole, connect_four, tic_tac_toe

import smoothcruiser as sc
from smoothcruiser.comparison import compare, truth_of
from smoothcruiser.playing.episodes import wilson
from smoothcruiser.tree.pruning import bounds_of
from smoothcruiser.tree.tree import Tree

HAS_SPIEL = importlib.util.find_spec("pyspiel") is not None
HAS_MCTX = (
    importlib.util.find_spec("mctx") is not None
    and importlib.util.find_spec("jax") is not None
)
EXPLORATION = 1.4


def timed(run, simulations, clock=time.process_time):
    """Simulations per second of processor time.

    Single-threaded code is compared fairly even on a busy machine; mctx is
    measured by the wall clock.
    """
    begin = clock()
    run()
    return simulations / (clock() - begin)


def spiel_bot(game, simulations, seed, memory_mb=1000, solve=False):
    import pyspiel

    return pyspiel.MCTSBot(
        game,
        pyspiel.RandomRolloutEvaluator(1, seed),
        EXPLORATION,
        simulations,
        memory_mb,
        solve,
        seed,
        False,
    )


def speed(quick):
    """Simulations per second from the empty board."""
    sims = 5_000 if quick else 50_000
    rounds = 2 if quick else 5
    found = {}
    for name, problem in (
        ("tic_tac_toe", tic_tac_toe()),
        ("connect_four", connect_four()),
    ):
        Tree(problem, method="uct").grow(simulations=10)  # compile
        best: dict[str, float] = {}
        for i in range(rounds):
            tree = Tree(problem, method=sc.UCT(exploration=EXPLORATION), seed=i)
            best["smoothcruiser compiled"] = max(
                best.get("smoothcruiser compiled", 0.0),
                timed(lambda t=tree: t.grow(simulations=sims), sims),
            )
            few = max(200, sims // 50)
            plain = Tree(
                problem,
                method=sc.UCT(exploration=EXPLORATION),
                seed=i,
                executor="reference",
            )
            best["smoothcruiser plain Python"] = max(
                best.get("smoothcruiser plain Python", 0.0),
                timed(lambda t=plain, n=few: t.grow(simulations=n), few),
            )
            if HAS_SPIEL:
                import numpy as np
                import pyspiel
                from open_spiel.python.algorithms import mcts

                game = pyspiel.load_game(name)
                bot = spiel_bot(game, sims, i)
                state = game.new_initial_state()
                best["OpenSpiel C++"] = max(
                    best.get("OpenSpiel C++", 0.0),
                    timed(lambda b=bot, s=state: b.step(s), sims),
                )
                rng = np.random.RandomState(i)
                slow = mcts.MCTSBot(
                    game,
                    EXPLORATION,
                    few,
                    mcts.RandomRolloutEvaluator(1, rng),
                    solve=False,
                    random_state=rng,
                )
                best["OpenSpiel Python"] = max(
                    best.get("OpenSpiel Python", 0.0),
                    timed(lambda b=slow, s=state: b.step(s), few),
                )
        if HAS_MCTX and name == "tic_tac_toe":
            best |= mctx_speed(quick)
        found[name] = best
    return found


def mctx_speed(quick):
    """mctx on tic-tac-toe with a random rollout as the value.

    Simulations per second of one search, and of a batch.
    """
    import jax
    import jax.numpy as jnp
    import mctx

    lines = jnp.array(
        [
            [0, 1, 2],
            [3, 4, 5],
            [6, 7, 8],
            [0, 3, 6],
            [1, 4, 7],
            [2, 5, 8],
            [0, 4, 8],
            [2, 4, 6],
        ]
    )

    def move(board, turn, action):
        board = board.at[action].set(turn)
        won = jnp.any(jnp.all(board[lines] == turn, axis=1))
        return board, won, won | jnp.all(board != 0)

    def rollout(board, turn, over, key):
        def body(_, carry):
            board, turn, over, value, key = carry
            key, sub = jax.random.split(key)
            action = jax.random.categorical(sub, jnp.where(board == 0, 0.0, -jnp.inf))
            new, won, done = move(board, turn, action)
            value = jnp.where(~over & won, turn.astype(jnp.float32), value)
            board = jnp.where(over, board, new)
            return board, -turn, over | done, value, key

        return jax.lax.fori_loop(
            0, 9, body, (board, turn, over, jnp.float32(0.0), key)
        )[3]

    def recurrent(params, key, action, embedding):
        def one(key, action, board, turn, over):
            new, won, done = move(board, turn, action)
            new = jnp.where(over, board, new)
            reward = jnp.where(~over & won, 1.0, 0.0)
            done = over | done
            value = rollout(new, -turn, done, key) * -turn.astype(jnp.float32)
            logits = jnp.where(new == 0, 0.0, -1e9)
            return new, -turn, done, reward, value, logits

        board, turn, over = embedding
        keys = jax.random.split(key, action.shape[0])
        board, turn, over, reward, value, logits = jax.vmap(one)(
            keys, action, board, turn, over
        )
        discount = jnp.where(over, 0.0, -1.0)
        return mctx.RecurrentFnOutput(
            reward=reward, discount=discount, prior_logits=logits, value=value
        ), (board, turn, over)

    found = {}
    for batch, sims in ((1, 200 if quick else 800), (128, 50 if quick else 200)):
        root = mctx.RootFnOutput(
            prior_logits=jnp.zeros((batch, 9)),
            value=jnp.zeros(batch),
            embedding=(
                jnp.zeros((batch, 9), jnp.int32),
                jnp.ones(batch, jnp.int32),
                jnp.zeros(batch, bool),
            ),
        )
        run = jax.jit(
            lambda key, root=root, sims=sims: (
                mctx.muzero_policy((), key, root, recurrent, sims).action
            )
        )
        run(jax.random.PRNGKey(0)).block_until_ready()
        best = max(
            timed(
                lambda i=i, run=run: run(jax.random.PRNGKey(i)).block_until_ready(),
                batch * sims,
                time.perf_counter,
            )
            for i in range(2 if quick else 5)
        )
        found[f"mctx CPU, batch {batch}"] = best
    return found


def games(quick):
    """Connect four at equal simulations; draws count half. Colours alternate."""
    if not HAS_SPIEL:
        return {"skipped": "OpenSpiel is not installed"}
    import pyspiel

    count, sims = (4, 200) if quick else (100, 1000)
    game, problem = pyspiel.load_game("connect_four"), connect_four()
    found = {}
    methods = {
        "uct": sc.UCT(exploration=EXPLORATION),
        "ments, temperature 0.1": sc.MENTS(temperature=0.1, exploration=0.1),
        "bts of mean returns, temperature 1.4": sc.BTS(
            search_temperature=1.4, average_returns=True
        ),
        "dents of mean returns, temperature 1.4": sc.DENTS(
            search_temperature=1.4, average_returns=True
        ),
    }
    for name, method in methods.items():
        score = 0.0
        for number in range(count):
            ours = number % 2
            board, state = game.new_initial_state(), problem.initial_state
            bot = spiel_bot(game, sims, number)
            move = 0
            while not board.is_terminal():
                if board.current_player() == ours:
                    action = (
                        Tree(problem, state, method=method, seed=1000 * number + move)
                        .grow(simulations=sims)
                        .action()
                    )
                else:
                    action = bot.step(board)
                board.apply_action(action)
                _, state, _ = problem.oracle(state, action, None)
                move += 1
            score += (board.returns()[ours] + 1.0) / 2.0
        low, high = wilson(score, count)
        found[name] = {
            "games": count,
            "simulations": sims,
            "score": score / count,
            "interval": [low, high],
        }
    return found


def quality(quick):
    """Median calls until the policy's one-step loss stays small, on doubling budgets.

    Small means at most 5% of the blind policy's; the median is over seeds.
    """
    problems = {
        "garnet 20, gamma 0.5, temperature 0.5": sc.make(
            "garnet:states=20,actions=3", discount=0.5, temperature=0.5
        ),
        "garnet 20, gamma 0.9, temperature 0.5": sc.make(
            "garnet:states=20,actions=3", discount=0.9, temperature=0.5
        ),
        "gridworld 5, gamma 0.9, temperature 0.1": sc.make(
            "gridworld:n=5", discount=0.9, temperature=0.1
        ),
        "chain 5, gamma 0.9, temperature 0.1": sc.make(
            "chain:n=5", discount=0.9, temperature=0.1
        ),
        "random game, gamma 0.7, temperature 0.3": sc.make(
            "random-game:states=20,actions=3", discount=0.7, temperature=0.3
        ),
        "synthetic tree 8^3, max": sc.make(
            "synthetic-tree:k=8,d=3", discount=1.0, operator="max"
        ),
        "sailing 6, max": sc.make("sailing", discount=1.0, operator="max"),
    }
    planners = (
        "smoothcruiser",
        "certified",
        "uct",
        "ments",
        "rents",
        "tents",
        "bts",
        "dents",
    )
    seeds, top = (range(3), 13) if quick else (range(5), 20)
    found = {}
    for label, problem in problems.items():
        truth = truth_of(problem, problem.initial_state)
        uniform = [
            1.0 / len(truth.q_values) if a in truth.q_values else 0.0
            for a in range(problem.num_actions)
        ]
        target = 0.05 * truth.policy_regret(uniform)
        row = {}
        for planner in planners:
            needed = []
            ran = compare(
                problem,
                methods=[planner],
                seeds=seeds,
                budgets=[2**power for power in range(5, top)],
                truth=truth,
            )
            for seed in seeds:
                reached = None
                for result in (row for row in ran if row.seed == seed):
                    good = (
                        result.policy_regret is not None
                        and result.policy_regret <= target
                    )
                    reached = (reached or result.num_calls) if good else None
                needed.append(reached if reached is not None else math.inf)
            middle = statistics.median(needed)
            row[planner] = None if math.isinf(middle) else middle
        found[label] = row
        print(label, row, flush=True)
    return found


def decided_after(problem, method, truth, seeds, top):
    """Median calls, doubled up to 2**top, from which on the action stays a good one.

    Good is what loses at most 5% of what the blind policy loses.
    """
    actions = range(problem.num_actions)
    blind = [(a in truth.q_values) / len(truth.q_values) for a in actions]
    target = 0.05 * truth.policy_regret(blind)
    needed = []
    for seed in seeds:
        tree, reached = Tree(problem, method=method, seed=seed), math.inf
        for power in range(5, top + 1):
            tree.grow(calls=2**power - tree.num_calls)
            tried = any(tree.node(0).edge_visits)
            good = tried and truth.policy_regret(tree.policy()) <= target
            reached = min(reached, 2**power) if good else math.inf
        needed.append(reached)
    middle = statistics.median(needed)
    return {
        "calls": None if math.isinf(middle) else middle,
        "decided": sum(math.isfinite(calls) for calls in needed) / len(needed),
    }


def bounds(quick):
    """Calls to a decision with and without a memory that has not decided yet."""
    cases = {
        "gridworld 5, gamma 0.9": ("gridworld:n=5", 0.9, 2**17),
        "garnet 20, 4 actions, gamma 0.9": ("garnet:states=20,actions=4", 0.9, 2**16),
        "random game 20, gamma 0.8": ("random-game:states=20,actions=4", 0.8, 2**16),
        "frozen lake 8, 100 steps, gamma 0.95": ("frozen-lake", 0.95, 2**20),
    }
    seeds, top = (range(3), 10) if quick else (range(15), 14)
    found = {}
    for label, (text, discount, calls) in cases.items():
        problem = sc.make(text, discount=discount, operator="max")
        truth = truth_of(problem, problem.initial_state)
        memory = sc.Certified(problem, delta=0.1)
        known = memory.query(epsilon=1e-4, budget=calls)
        excluded = bounds_of(problem, sc.UCT(bounds=memory)).excluded_actions
        row = {
            "calls of the memory": known.num_calls,
            "actions that it excludes": sum(len(out) for out in excluded.values()),
            "of these many": sum(
                sum(not math.isnan(low) for low, _ in state.q_intervals)
                for state in memory.table()
            ),
            "left at the root": len(known.certificate.best_actions),
        }
        for search in (sc.UCT, sc.BTS):
            for word, given in (
                ("", {}),
                (", bounds", {"bounds": memory}),
                (", value", {"value": memory}),
                (", value and bounds", {"value": memory, "bounds": memory}),
            ):
                ran = decided_after(problem, search(**given), truth, seeds, top)
                row[f"{search.name}{word}"] = ran
        found[label] = row
        print(label, row, flush=True)
    return found


def certified_cart_pole(quick):
    """The value of replanning at gamma = 0.99, certified from below.

    The largest possible is 100; the blind policy's value stands beside it.
    """
    problem = cart_pole()
    method = sc.UCT(depth=60, exploration=20.0)
    noisy = sc.MDP(
        _noisy_cart_pole(),
        num_actions=2,
        discount=0.99,
        operator=sc.Max(),
        terminal=True,
        initial_state=problem.initial_state,
        name="cart-pole with slips",
    )
    found = {}
    for name, case, calls in (
        ("deterministic", problem, 10_000),
        ("a tenth of the pushes slip", noisy, 4_000 if quick else 60_000),
    ):
        begin = time.perf_counter()
        answer = sc.evaluate(
            case,
            sc.Agent(case, method, simulations=64).policy,
            delta=0.05,
            budget=calls,
        )
        blind = sc.evaluate(case, lambda s: [0.5, 0.5], delta=0.05, budget=calls)
        found[name] = {
            "value": answer.value,
            "interval": answer.interval,
            "calls of the rollouts": answer.num_calls,
            "blind": blind.interval,
            "seconds": time.perf_counter() - begin,
        }
    return found


def _noisy_cart_pole():
    from benchmarks.tree.board_games import cart_pole_step
    from numba import njit

    @njit
    def step(state, action, rng):
        if rng.random() < 0.1:
            action = 1 - action
        return cart_pole_step(state, action, rng)

    return step


def workers(quick):
    """Seconds of the same two trees with one worker and with two, interleaved."""
    sims = 20_000 if quick else 400_000
    found = {}
    for name, problem in (
        ("tic_tac_toe", tic_tac_toe()),
        ("connect_four", connect_four()),
    ):
        Tree(problem, method="uct").grow(simulations=10)  # compile
        best = {}
        for _ in range(2 if quick else 5):
            for count in (1, 2):
                method = sc.UCT(exploration=EXPLORATION, trees=2)
                tree = Tree(problem, method=method, seed=1, workers=count)
                wall, cpu = time.perf_counter(), time.process_time()
                tree.grow(simulations=sims)
                taken = time.process_time() - cpu, time.perf_counter() - wall
                for kind, seconds in zip(("processor", "wall"), taken, strict=True):
                    key = f"{kind} seconds, {count} workers"
                    best[key] = min(best.get(key, math.inf), seconds)
        best["wall, one against two"] = (
            best["wall seconds, 1 workers"] / best["wall seconds, 2 workers"]
        )
        best["load"] = os.getloadavg()[0]
        found[name] = best
    return found


PARTS = {
    "speed": speed,
    "workers": workers,
    "games": games,
    "quality": quality,
    "bounds": bounds,
    "cart-pole": certified_cart_pole,
}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=list(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", help="write the results as JSON")
    options = parser.parse_args()
    out = Path(options.out) if options.out else None
    # parts that are not run again stay
    results = json.loads(out.read_text()) if out is not None and out.exists() else {}
    results |= {
        "command": "python -m benchmarks.tree.tree_search",
        "cores": os.cpu_count(),
    }
    for part in options.parts or PARTS:
        begin, before = time.perf_counter(), os.getloadavg()
        results[part] = PARTS[part](options.quick)
        results.setdefault("measured", {})[part] = {
            "date": time.strftime("%Y-%m-%d"),
            "load before": before,
            "quick": options.quick,
        }
        print(f"{part} ({time.perf_counter() - begin:.0f} s)")
        print(json.dumps(results[part], indent=2, default=float))
        if out is not None:
            out.write_text(json.dumps(results, indent=1, default=float) + "\n")


if __name__ == "__main__":
    main()
