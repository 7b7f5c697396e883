"""A hundred mistakes that newcomers make, and what the answer to each must say.

A row is (what went wrong, the code as it was written, a fragment of the answer, the
grade that a reader gave to the whole answer, where it is not A). Grades: A one sentence
that says what came and what to change; B clear, but the reader has to find the remedy; C
unclear; F silent,
wrong or a traceback. The code sees ``PRELUDE``; a line that begins with ``$`` is a
command of the command line.
"""

from __future__ import annotations

from typing import NamedTuple

PRELUDE = """
import asyncio, enum
import numba, numpy as np
import smoothcruiser as sc

def coin(state, action, rng):  # pays 1 with probability 0.5 or 0.7
    return float(rng.random() < 0.5 + 0.2 * action), state

def named(state, action, rng):  # takes the action for its name
    return float(action == "left"), state

def mdp(step=coin, **changes):
    usual = dict(num_actions=2, discount=0.5, operator=sc.Max(), initial_state=0)
    return sc.MDP(step, **(usual | changes))

def ask(problem, **changes):
    return sc.plan(problem, **(dict(epsilon=0.3, delta=0.1) | changes))

P = np.full((2, 2, 2), 0.5)
R = np.zeros((2, 2))
usual = dict(discount=0.5, operator=sc.Max())
"""


# what CHAIN stands for in a command
CHAIN = "chain:n=5 --discount 0.5 --temperature 1"


class Mistake(NamedTuple):
    """One mistake."""

    title: str
    code: str
    says: str  # a fragment of the answer
    grade: str = "A"


class Group(NamedTuple):
    """Mistakes about one thing."""

    title: str
    rows: tuple[Mistake, ...]


def _group(title: str, *rows: tuple[str, ...]) -> Group:
    return Group(title, tuple(Mistake(*row) for row in rows))


STEPS = _group(
    "A step that was not meant",
    (
        "compares the action with its name",
        "ask(mdp(named, num_actions=None, actions=['left', 'right']))",
        "problem.actions[action]",
    ),
    (
        "the same, certified search",
        "ask(mdp(lambda s, a, rng: (float('left' != a), s)), method='certified')",
        "compared its action",
    ),
    (
        "the action before the state",
        "mdp(lambda action, state, rng: (0.5, state))",
        "the state comes first",
    ),
    ("the same, legal", "mdp(legal=lambda a, s: True)", "swap them"),
    (
        "compares the action with a text Enum of its labels",
        "Side = enum.Enum('Side', {'L': 'left'}, type=str)\n"
        "ask(mdp(lambda s, a, rng: (float(a == Side.L), s), num_actions=None, "
        "actions=['left', 'right']))",
        "write action == 0",
    ),
    (
        "catches every error around the comparison",
        "import contextlib\n"
        "def quiet(s, a, rng):\n"
        "    with contextlib.suppress(Exception): return float(a == 'left'), s\n"
        "    return 0.0, s\n"
        "ask(mdp(quiet))",
        "compared its action",
    ),
    (
        "the same, a tree search",
        "sc.plan(mdp(named), method='uct', budget=100)",
        "compared its action",
    ),
    (
        "the same, evaluate",
        "sc.evaluate(mdp(named), lambda s: (0.5, 0.5), budget=1000)",
        "compared its action",
    ),
    ("the same, check", "sc.check(mdp(named))", "compared its action"),
    (
        "the same, play",
        "sc.play(sc.Agent(mdp(named), 'uct', budget=50), episodes=1, steps=3)",
        "compared its action",
    ),
    (
        "the same in a match statement",
        "def step(s, a, rng):\n    match a:\n        case 'left':\n"
        "            return 1.0, s\n    return 0.0, s\nask(mdp(step))",
        "compared its action",
    ),
    (
        "the same in a list of names",
        "ask(mdp(lambda s, a, rng: (float(a in ('left', 'up')), s)))",
        "compared its action",
    ),
    (
        "the same in compiled code",
        "ask(mdp(numba.njit(lambda s, a, rng: (1.0 if a == 'left' else 0.0, s))))",
        "compares its action",
    ),
    (
        "the same in legal",
        "ask(mdp(legal=lambda s, a: a != 'left'))",
        "legal compared its action",
    ),
    (
        "the same in outcomes",
        "sc.solve(mdp(outcomes=lambda s, a: [(1.0, float(a == 'left'), s)]))",
        "outcomes compared its action",
    ),
    (
        "compares the action with a member of an Enum",
        "Move = enum.Enum('Move', ['LEFT', 'RIGHT'])\n"
        "ask(mdp(lambda s, a, rng: (float(a == Move.LEFT), s)))",
        "compared its action",
    ),
    (
        "(next_state, reward), the wrong order",
        "ask(mdp(lambda s, a, rng: ('sunny', 0.5)))",
        "(reward, next_state), in this order",
    ),
    (
        "(next_state, reward) where both are numbers",
        "ask(mdp(lambda s, a, rng: (s + 3, 0.5)))",
        "(reward, next_state), in this order",
    ),
    (
        "(next_state, reward, done) as in Gymnasium",
        "ask(mdp(lambda s, a, rng: ((s[0], s[1]), 1.0, False), initial_state=(0, 0)))",
        "(reward, next_state), in this order",
    ),
    (
        "(reward, done, next_state)",
        "ask(mdp(lambda s, a, rng: (0.5, False, (s[0], 1)), initial_state=(0, 0)))",
        "terminated",
    ),
    (
        "Gymnasium's five parts",
        "ask(mdp(lambda s, a, rng: (s, 1.0, False, False, {})))",
        "five parts",
    ),
    (
        "Gym's four parts",
        "ask(mdp(lambda s, a, rng: (s, 1.0, False, {})))",
        "four parts",
    ),
    ("returns nothing", "ask(mdp(lambda s, a, rng: None))", "got None"),
    ("returns the reward alone", "ask(mdp(lambda s, a, rng: 1.0))", "got 1.0", "B"),
    (
        "a generator",
        "def step(s, a, rng):\n    yield 1.0, s\nask(mdp(step))",
        "generator",
    ),
    (
        "a coroutine",
        "async def step(s, a, rng):\n    return 1.0, s\nask(mdp(step))",
        "async",
    ),
    (
        "a coroutine, check",
        "async def step(s, a, rng):\n    return 1.0, s\nsc.check(mdp(step))",
        "async",
    ),
    (
        "the reward is text",
        "ask(mdp(lambda s, a, rng: ('1.0', s)))",
        "reward must be a number, got the text '1.0'",
    ),
    (
        "the reward is None",
        "ask(mdp(lambda s, a, rng: (None, s)))",
        "reward must be a number",
    ),
    (
        "the reward is an array of two",
        "ask(mdp(lambda s, a, rng: (np.ones(2), s)))",
        "reward must be a number",
    ),
    (
        "the reward is a complex number",
        "ask(mdp(lambda s, a, rng: (1j, s)))",
        "reward must be a number",
    ),
    ("the reward is NaN", "ask(mdp(lambda s, a, rng: (np.nan, s)))", "nan", "B"),
    (
        "a reward outside the default range",
        "ask(mdp(lambda s, a, rng: (10.0, s)))",
        "outside reward_range (0, 1)",
    ),
    (
        "costs as negative rewards with the default range",
        "ask(mdp(lambda s, a, rng: (-1.0, s)))",
        "outside reward_range (0, 1)",
    ),
    (
        "the step forgets rng",
        "ask(mdp(lambda s, a: (1.0, s)))",
        "step(state, action, rng)",
    ),
    (
        "the step takes the action alone, as env.step",
        "ask(mdp(lambda a: (1.0, a)))",
        "step(state, action, rng)",
    ),
    (
        "rng.rand, of the old NumPy",
        "ask(mdp(lambda s, a, rng: (rng.rand(), s)))",
        "rng.random()",
    ),
    (
        "rng.randint, of the old NumPy",
        "ask(mdp(lambda s, a, rng: (rng.randint(2), s)))",
        "rng.integers",
    ),
    (
        "rng.standard_normal",
        "ask(mdp(lambda s, a, rng: (rng.standard_normal(), s), reward_range=(-9, 9)))",
        "rng.normal()",
    ),
    (
        "rng.random(size=3)",
        "ask(mdp(lambda s, a, rng: (rng.random(3).mean(), s)))",
        "rng.numpy()",
    ),
    (
        "np.random in place of rng",
        "ask(mdp(lambda s, a, rng: (np.random.rand(), s)))",
        "draw every number from the rng",
    ),
    (
        "a seed inside the step",
        "ask(mdp(lambda s, a, rng: (np.random.default_rng().random(), s)))",
        "draw every number from the rng",
    ),
    (
        "writes into the state",
        "def step(s, a, rng):\n    s[0] += 1\n    return 0.0, s\nask(mdp(step, initial_state=[0]))",
        "copy",
    ),
    (
        "an episode ends and nothing says so",
        "ask(mdp(lambda s, a, rng: (1.0, s, True)))",
        "terminal=True",
    ),
    (
        "the step raises",
        "ask(mdp(lambda s, a, rng: (1 / 0, s)))",
        "The oracle raised ZeroDivisionError",
    ),
    (
        "Numba cannot compile the step",
        "ask(mdp(numba.njit(lambda s, a, rng: (len(open('x').read()), s))))",
        "could not be compiled",
        "B",
    ),
    (
        "the step is a class that was not made",
        "class Step:\n    def __call__(self, s, a, rng):\n        return 1.0, s\nask(mdp(Step))",
        "is a class",
    ),
    (
        "the step is the environment",
        "class Env:\n    def step(self, a):\n        return 1.0, 0\nmdp(Env())",
        "step(state, action, rng)",
        "B",
    ),
)

FUNCTIONS = _group(
    "Functions of the state",
    (
        "terminal returns None",
        "ask(mdp(terminal=lambda s: None))",
        "terminal must return True or False, got None",
    ),
    (
        "terminal prints and forgets to return, certified search",
        "ask(mdp(terminal=lambda s: None), method='certified')",
        "terminal must return True or False",
    ),
    (
        "terminal returns None, a tree search",
        "sc.plan(mdp(terminal=lambda s: None), method='uct', budget=100)",
        "terminal must return True or False",
    ),
    (
        "terminal returns None, check",
        "sc.check(mdp(terminal=lambda s: None))",
        "terminal must return True or False",
    ),
    (
        "legal returns None",
        "ask(mdp(legal=lambda s, a: None))",
        "legal must return True or False, got None",
    ),
    (
        "legal lists the actions",
        "ask(mdp(legal=lambda s, a: [0, 1]))",
        "legal must return True or False, got the list [0, 1]",
    ),
    (
        "legal(state), as in many libraries",
        "ask(mdp(legal=lambda s: [0, 1]))",
        "legal(state, action)",
    ),
    (
        "terminal is a coroutine",
        "async def over(s):\n    return False\nask(mdp(terminal=over))",
        "async",
    ),
    (
        "terminal is a set of states",
        "mdp(terminal={3, 4})",
        "terminal=lambda state: state in",
    ),
    (
        "legal is a list",
        "mdp(legal=[0, 1])",
        "legal must be a function legal(state, action)",
        "B",
    ),
    (
        "the initial state is terminal",
        "ask(mdp(terminal=lambda s: s == 0))",
        "The state is terminal",
        "B",
    ),
    (
        "player returns 0 and 1",
        "ask(sc.Game(coin, player=lambda s: 0, num_actions=2, initial_state=0, **usual))",
        "must be 1 (max) or 2 (min), got 0",
        "B",
    ),
    (
        "player returns None",
        "ask(sc.Game(coin, player=lambda s: None, num_actions=2, initial_state=0, **usual))",
        "must be 1 (max) or 2 (min), got None",
    ),
    (
        "a Game without player",
        "sc.Game(coin, num_actions=2, initial_state=0, **usual)",
        "needs player=",
    ),
    ("no state is legal", "ask(mdp(legal=lambda s, a: False))", "has no legal action"),
    (
        "states that cannot be hashed, certified search",
        "ask(mdp(lambda s, a, rng: (0.5, {1: s}), initial_state={}), method='certified')",
        "key=",
    ),
    (
        "key returns a list",
        "ask(mdp(key=lambda s: [s]), method='certified')",
        "key raised TypeError: unhashable type: 'list'",
        "B",
    ),
    (
        "outcomes with probabilities that do not sum to 1",
        "sc.solve(mdp(outcomes=lambda s, a: [(0.5, 1.0, s)]))",
        "sum to 1",
        "B",
    ),
    (
        "outcomes as (next_state, probability)",
        "sc.solve(mdp(outcomes=lambda s, a: [(s, 1.0)]))",
        "must list (probability, reward, next_state)",
        "B",
    ),
)

PROBLEMS = _group(
    "A problem",
    (
        "gamma=",
        "sc.MDP(coin, num_actions=2, gamma=0.9, operator=sc.Max())",
        "gamma= is called discount=",
    ),
    (
        "n_actions=",
        "sc.MDP(coin, n_actions=2, **usual)",
        "n_actions= is called num_actions=",
    ),
    ("num_states=", "mdp(num_states=5)", "num_states"),
    ("s0=", "sc.MDP(coin, num_actions=2, s0=0, **usual)", "initial_state="),
    ("done=", "mdp(done=lambda s: False)", "done= is called terminal="),
    ("no discount", "sc.MDP(coin, num_actions=2, operator=sc.Max())", "discount="),
    ("no operator", "sc.MDP(coin, num_actions=2, discount=0.5)", "operator=Max()"),
    ("no num_actions", "sc.MDP(coin, **usual)", "num_actions must be a whole"),
    (
        "num_actions is a list of names",
        "mdp(num_actions=['left', 'right'])",
        "actions=['left', 'right']",
    ),
    (
        "num_actions is a Gymnasium space",
        "import gymnasium\nmdp(num_actions=gymnasium.spaces.Discrete(2))",
        "num_actions=2",
    ),
    ("discount is a percentage", "mdp(discount=95)", "discount=0.95"),
    ("discount is text", "mdp(discount='0.9')", "discount must be a number", "B"),
    ("discount 1 without a horizon", "mdp(discount=1)", "give horizon="),
    ("horizon is a float", "mdp(horizon=10.0)", "horizon must be a whole number", "B"),
    ("horizon is infinite", "mdp(horizon=float('inf'))", "None", "B"),
    (
        "an operator that is no operator",
        "mdp(operator='softmax')",
        "choose one of entropy",
    ),
    (
        "the operator's class, not an object",
        "mdp(operator=sc.Entropy)",
        "Entropy(1.0)",
    ),
    ("the built-in max", "mdp(operator=max)", "Max()"),
    (
        "an operator by name that needs a temperature",
        "mdp(operator='entropy')",
        "Entropy(1.0)",
    ),
    ("a temperature below 0", "sc.Entropy(-1)", "temperature"),
    ("an operator without a temperature", "sc.Entropy()", "temperature", "B"),
    (
        "reward_range is one number",
        "mdp(reward_range=1)",
        "two finite numbers (low, high)",
        "B",
    ),
    (
        "reward_range the wrong way round",
        "mdp(reward_range=(1, -1))",
        "low <= high",
        "B",
    ),
    ("infinite rewards", "mdp(reward_range=(-np.inf, 0))", "two finite numbers", "B"),
    ("two actions of one name", "mdp(actions=['left', 'left'])", "distinct"),
    ("P is (S, S)", "sc.tabular(np.eye(2), np.zeros(2), **usual)", "(S, A, S)", "B"),
    (
        "P is (A, S, S), as in other libraries",
        "sc.tabular(np.full((3, 2, 2), 0.5), np.zeros((2, 3)), **usual)",
        "(S, A, S)",
        "B",
    ),
    ("rows do not sum to 1", "sc.tabular(0.9 * P, R, **usual)", "sum", "B"),
    ("a negative probability", "sc.tabular(P * [3, -1], R, **usual)", "negative"),
    ("R is (A, S)", "sc.tabular(P, np.zeros((3, 2)), **usual)", "R must", "B"),
    ("R has NaN", "sc.tabular(P, R * np.nan, **usual)", "finite"),
    (
        "tabular with transitions=",
        "sc.tabular(transitions=P, rewards=R, **usual)",
        "P=",
    ),
    ("a state beyond the table", "ask(sc.tabular(P, R, **usual), state=7)", "7", "B"),
    ("make of a name that is none", "sc.make('chian:n=5', discount=0.5)", "chain"),
    (
        "make of a Gymnasium name without its prefix",
        "sc.make('FrozenLake-v1', discount=0.9, temperature=0.1)",
        "gym:FrozenLake-v1",
    ),
    ("make with gamma=", "sc.make('chain:n=5', gamma=0.9)", "discount="),
    ("no initial state", "ask(mdp(initial_state=None))", "initial_state="),
)

REQUESTS = _group(
    "A request",
    ("method mcts", "ask(mdp(), method='mcts')", "'uct'"),
    ("method vi", "ask(mdp(), method='value_iteration')", "'exact'"),
    ("method q-learning", "ask(mdp(), method='q-learning')", "choose one of", "B"),
    ("eps=", "sc.plan(mdp(), eps=0.1, delta=0.1)", "eps= is called epsilon="),
    ("gamma= in plan", "ask(mdp(), gamma=0.9)", "discount="),
    ("timeout=", "ask(mdp(), timeout=3)", "timeout= is called seconds="),
    ("n_simulations=", "ask(mdp(), n_simulations=3)", "simulations="),
    ("iterations=", "ask(mdp(), iterations=3)", "simulations="),
    ("random_state=", "ask(mdp(), random_state=3)", "random_state= is called seed="),
    ("n_jobs=", "ask(mdp(), n_jobs=3)", "n_jobs= is called workers="),
    ("confidence=", "ask(mdp(), confidence=0.95)", "delta=0.05"),
    ("verbose=", "ask(mdp(), verbose=True)", "progress="),
    ("delta = 0.95", "ask(mdp(), delta=0.95)", "did you mean 0.05?"),
    ("delta = 95", "ask(mdp(), delta=95)", "between 0 and 1"),
    ("delta = 0", "ask(mdp(), delta=0)", "between 0 and 1", "B"),
    ("epsilon = 0", "ask(mdp(), epsilon=0)", "above 0", "B"),
    ("epsilon is a word", "ask(mdp(), epsilon='small')", "5%"),
    (
        "epsilon alone",
        "sc.plan(mdp(), epsilon=0.1, method='smoothcruiser')",
        "delta=0.1",
    ),
    (
        "neither promise nor limit",
        "sc.plan(mdp(), method='smoothcruiser')",
        "budget= or seconds=",
    ),
    (
        "a tree search with a promise",
        "ask(mdp(), method='uct')",
        "uct does not use epsilon",
    ),
    ("workers= that nothing uses", "ask(mdp(), workers=4)", "workers"),
    ("seconds = 0", "ask(mdp(), seconds=0)", "above 0"),
    ("budget is text", "ask(mdp(), budget='many')", "budget must be", "B"),
    ("seed = -1", "ask(mdp(), seed=-1)", "seed must be", "B"),
    ("executor gpu", "ask(mdp(), executor='gpu')", "compiled", "B"),
    (
        "a price beyond all means",
        "ask(mdp(discount=0.8), epsilon=0.01, method='smoothcruiser')",
        "What can be",
    ),
    ("plan of the step", "sc.plan(coin, epsilon=0.1)", "MDP("),
    ("plan of a name", "sc.plan('chain:n=5', epsilon=0.1)", "make('chain:n=5'"),
    (
        "plan of an environment",
        "import gymnasium\nsc.plan(gymnasium.make('FrozenLake-v1'), epsilon=0.1)",
        "discount=",
    ),
    ("plan of arrays", "sc.plan((P, R), epsilon=0.1)", "tabular(P, R"),
    ("Max without brackets as the method", "ask(mdp(), method=sc.UCT)", "UCT()"),
    ("solve a simulator", "sc.solve(mdp())", "outcomes="),
    (
        "an option of another method",
        "sc.plan(mdp(), method='uct', options={'c': 2}, budget=10)",
        "exploration",
        "B",
    ),
)

ANSWERS = _group(
    "An answer",
    ("Estimate.q", "ask(mdp()).q", "q_values"),
    ("Estimate.ci", "ask(mdp()).ci", "interval"),
    ("Estimate.values", "ask(mdp()).values", "value"),
    ("Estimate.best_action", "ask(mdp()).best_action", "action"),
    ("Estimate.std", "ask(mdp()).std", "standard_error"),
    ("Solution.V", "sc.solve(sc.tabular(P, R, **usual)).V", "values"),
    ("a function that there is not", "sc.solve_mdp", "solve"),
)

CALLS = _group(
    "A call",
    (
        "method= in play",
        "sc.play(mdp(), method='uct', episodes=2)",
        "Agent(problem, 'uct', budget=10_000)",
    ),
    ("budget= in play", "sc.play(mdp(), 'uct', budget=9)", "give it to plan"),
    ("play without episodes", "sc.play(mdp(), 'uct')", "play needs episodes="),
    ("play of nothing", "sc.play()", "play(agent, episodes=…)"),
    ("n_episodes=", "sc.play(mdp(), 'uct', n_episodes=2)", "called episodes="),
    ("episodes by position", "sc.play(mdp(), 'uct', 3)", "the others by name"),
    ("evaluate nothing", "sc.evaluate(mdp())", "evaluate needs policy, as in"),
    ("epsilon by position", "sc.plan(mdp(), 0, 0.1)", "the others by name"),
    ("plan of nothing", "sc.plan()", "plan needs problem, as in plan(problem)"),
    ("the problem twice", "sc.plan(mdp(), problem=mdp())", "problem twice"),
    ("no states", "sc.plan_many(mdp(), epsilon=0.1)", "needs states, as in"),
    ("no budgets", "sc.compare(mdp())", "compare needs budgets="),
    ("budget= in compare", "sc.compare(mdp(), budget=9)", "did you mean budgets=?"),
    ("one budget", "sc.compare(mdp(), budgets=100)", "write budgets=[100]"),
    (
        "one method",
        "sc.compare(mdp(), budgets=[100], methods='uct')",
        "write methods=['uct']",
    ),
    ("one seed", "sc.compare(mdp(), budgets=[9], seeds=3)", "seeds=[3]"),
    ("two problems", "sc.compare([mdp(), mdp()], budgets=[9])", "A problem (", "B"),
    (
        "an opponent where there is one player",
        "sc.play(mdp(), lambda s: 0, episodes=1, opponent=lambda s: 1)",
        "one player: drop it",
    ),
    ("states= in plan", "ask(mdp(), states=[0, 1])", "plan_many(problem, states)"),
    ("temperature= of an MDP", "mdp(temperature=0.1)", "operator=Entropy(1.0)"),
    ("tau= in plan", "ask(mdp(), tau=0.1)", "operator=Entropy(1.0)"),
    ("epsilon= of a problem", "mdp(epsilon=0.1)", "give it to plan"),
)

COMMANDS = _group(
    "The command line",
    (
        "an option of another name",
        "$ plan chain:n=5 --gamma 0.9 --epsilon 5% --delta 0.1",
        "--discount",
    ),
    ("no discount", "$ plan chain:n=5 --epsilon 5% --delta 0.1", "--discount"),
    (
        "no temperature",
        "$ plan chain:n=5 --discount 0.9 --epsilon 5% --delta 0.1",
        "--temperature",
    ),
    ("a command that there is not", "$ pln chain:n=5", "plan"),
    ("method mcts", "$ plan CHAIN --method mcts", "uct"),
    ("no promise", "$ plan CHAIN --method smoothcruiser", "--epsilon"),
    ("no delta", "$ plan CHAIN --method smoothcruiser --epsilon 5%", "--delta 0.1"),
    (
        "delta 0.95",
        "$ plan CHAIN --method smoothcruiser --epsilon 20% --delta 0.95",
        "did you mean 0.05?",
    ),
    (
        "an adapter that is not there",
        "$ plan atari:Pong --discount 0.5 --temperature 1",
        "gym:",
        "B",
    ),
    (
        "a file of Python",
        "$ plan model.py --discount 0.5 --temperature 1",
        "module:attribute",
    ),
    ("a module alone", "$ plan json", "such as json:problem"),
    ("a dot in place of the colon", "$ plan json.decoder", "json:decoder"),
    ("a function that is no problem", "$ plan json:loads", "needs s; give s=…"),
    ("a module and a colon", "$ plan json:", "such as json:problem"),
    ("an attribute alone", "$ plan :problem", "as module:attribute"),
    ("a file in a folder", "$ plan ./toys/model.py", "such as toys.model:problem"),
    ("a file elsewhere", "$ plan /tmp/model.py", "go to its folder, /tmp"),
    (
        "a state that is no JSON",
        "$ plan CHAIN --epsilon 5% --delta 0.1 --state left",
        "state",
    ),
    (
        "a store in a folder that is not there",
        "$ plan CHAIN --epsilon 20% --delta 0.1 --method smoothcruiser --store no/such.db",
        "--store",
    ),
    (
        "workers that nothing uses",
        "$ plan CHAIN --epsilon 20% --delta 0.1 --method exact --workers 3",
        "--workers",
    ),
    (
        "a discount above 1",
        "$ plan chain:n=5 --discount 95 --temperature 1 --epsilon 20% --delta 0.1",
        "0.95",
    ),
)

GROUPS = (STEPS, FUNCTIONS, PROBLEMS, REQUESTS, CALLS, ANSWERS, COMMANDS)
