"""Declarations that are false: arguments taken on trust, and operators that are
none.
"""

import numpy as np

import smoothcruiser as sc

from . import cores, law
from .truth import entropy

KIND = "false declaration"
KNOWN = (law.CERTIFIED, law.EXACT)
CALM = 0.3  # the discount under users' operators, whose analysis is coarser
# one action: what a policy is worth is the value
ONE = {"num_actions": 1, "initial_state": 0}


def ladder_step(rung, action, rng):
    return rung / cores.TOP, cores.climb(rung, action, rng)


def ladder(**more):
    return lambda: cores.mdp(ladder_step, **{"initial_state": 0, **more})


def rich(state, action, rng):
    return 1.0, state


def poor(state, action, rng):
    return 0.0, state


RICH = cores.true_value(lambda state, action: [(1.0, 1.0, state)], 0)
POOR = cores.true_value(lambda state, action: [(1.0, 0.0, state)], 0)


def lucky_coin(state, action, rng):
    """deterministic=True is false here at once."""
    return rng.random(), state


def coin_below(state, action, rng):
    """0, 1, 2 for sure, and a coin at 2."""
    return (float(rng.random() < 0.5), 2) if state == 2 else (0.0, state + 1)


def rare_coin(state, action, rng):
    """Pays 1, in one call of ten 0: two draws agree most of the time."""
    return float(rng.random() >= 0.1), state


def coin_below_outcomes(state, action):
    return (
        cores.coin_outcomes(state, action) if state == 2 else [(1.0, 0.0, state + 1)]
    )


COIN_BELOW = cores.true_value(coin_below_outcomes, 0, actions=1)


def one_legal(state, action):
    return action == 0


def falsely_two():
    """One legal action everywhere, under an operator for which their number matters."""
    operator = sc.Entropy(cores.TEMPERATURE)
    return cores.mdp(rich, legal=one_legal, min_actions=2, operator=operator)


def steeper(state, action):
    """A model in which climbing is sure."""
    return [(1.0, state / cores.TOP, min(state + 1, cores.TOP))]


def short_sum(state, action):
    """Probabilities that sum to 0.9."""
    return [(0.9 * p, r, z) for p, r, z in cores.ladder_outcomes(state, action)]


def paying_on(state, action, rng):
    """0 leads to 1, which is declared over and pays on when it is asked, which
    it must not be.
    """
    return (0.5, 1) if state == 0 else (1.0, 1)


def comes_back(state, action, rng):
    """The step that enters 1 says that it is over; a step from 1 leads back to
    0 and pays.
    """
    return (0.5, 1, True) if state == 0 else (1.0, 0, False)


# --- operators ----------------------------------------------------------------


def custom(value, gradient, smooth, *, sums_to_one=True):
    """The coin where action 1 pays 1 and action 0 a coin, under a user's operator."""

    def step(state, action, rng):
        return (1.0 if action == 1 else float(rng.random() < 0.5)), state

    operator = sc.CustomOperator(value, gradient, smooth, sums_to_one=sums_to_one)
    return lambda: cores.mdp(step, operator=operator, discount=CALM)


def under(smooth):
    """The truth of that world."""
    return cores.true_value(
        lambda s, a: [(1.0, 1.0 if a == 1 else 0.5, s)],
        0,
        discount=CALM,
        smooth=lambda q: float(smooth(np.array(q))),
    )


def falling(q):
    """Not monotone: more of the first action is worse."""
    return float(1.5 * q[-1] - 0.5 * q[0])


def falling_gradient(q):
    slopes = np.zeros(len(q))
    slopes[-1] += 1.5
    slopes[0] -= 0.5
    return slopes


def steep(q):
    """Not 1-Lipschitz: one and a half times the mean."""
    return float(1.5 * np.mean(q))


def soft(q):
    return entropy(1.0)(list(q))


def softmax(q):
    shares = np.exp(q - np.max(q))
    return shares / np.sum(shares)


def reversed_softmax(q):
    return softmax(q)[::-1]


def hard(q):
    return float(np.max(q))


def hard_gradient(q):
    return np.eye(len(q))[int(np.argmax(q))]


# --- the table ----------------------------------------------------------------


world = law.worlds_of(KIND)


def operator(about, build, truth):
    found = r"operator|gradient|monotone|smooth"
    asks = (law.Ask(epsilon=0.3), law.CERTIFIED)
    says = found + "|exclude|bounds"
    return world(about, build, truth, says, asks=asks, **law.named("operator", found))


def bounded(about, step, bounds, truth):
    says = r"value_bounds|exclude|empty|as given"
    build = lambda: cores.mdp(step, value_bounds=bounds)  # noqa: E731
    return world(about, build, truth, says, **law.named("value of every state"))


def model(about, outcomes, **more):
    usual = {"asks": KNOWN, **law.named("outcomes|model", "outcomes"), **more}
    return world(about, ladder(outcomes=outcomes), cores.LADDER, "outcomes", **usual)


WORLDS = (
    world(
        "reward_range: rewards leave their range",
        lambda: cores.mdp(rich, reward_range=(0.0, 0.9)),
        RICH,
        "reward_range",
        **law.named("every reward", "reward_range"),
    ),
    bounded(
        "value_bounds, too low: given bounds end below the value",
        rich,
        (0.0, 1.0),
        RICH,
    ),
    bounded(
        "value_bounds, too high: given bounds begin above the value",
        poor,
        (1.0, 2.0),
        POOR,
    ),
    world(
        "min_actions: min_actions=2, and one legal action everywhere",
        falsely_two,
        cores.true_value(
            lambda s, a: [(1.0, 1.0, s)],
            0,
            legal=one_legal,
            smooth=entropy(cores.TEMPERATURE),
        ),
        "min_actions|legal action",
    ),
    world(
        "nothing legal: legal takes away all actions",
        ladder(legal=lambda s, a: False),
        cores.LADDER,
        "no legal action",
        ends=(law.REFUSED,),
    ),
    world(
        "deterministic: deterministic=True of a uniform reward",
        lambda: cores.mdp(lucky_coin, deterministic=True, **ONE),
        cores.true_value(lambda s, a: [(1.0, 0.5, s)], 0, actions=1),
        "deterministic",
        asks=(law.SCHEDULE, law.CERTIFIED, law.EVALUATE, law.TREE),
    ),
    world(
        "deterministic, later: deterministic=True, and a coin two steps away",
        lambda: cores.mdp(coin_below, deterministic=True, **ONE),
        COIN_BELOW,
        "deterministic",
        asks=(law.SCHEDULE, law.CERTIFIED, law.EVALUATE),
        **law.named("deterministic", "deterministic"),
    ),
    world(
        "deterministic, 1 call in 10: deterministic=True, and one call of ten pays nothing",
        lambda: cores.mdp(rare_coin, deterministic=True, **ONE),
        cores.true_value(lambda s, a: [(1.0, 0.9, s)], 0, actions=1),
        "deterministic",
        asks=(
            law.SCHEDULE,
            law.Ask("certified", epsilon=0.02, budget=5_000),
            law.EVALUATE,
        ),
        **law.named("deterministic", "deterministic"),
    ),
    model("outcomes, other chances: outcomes= climbs for sure", steeper),
    model(
        "outcomes, a sum of 0.9: probabilities do not sum to 1",
        short_sum,
        ends=law.MAYBE,
    ),
    world(
        "an end that pays on: a step from a terminal state pays for ever",
        lambda: cores.mdp(paying_on, terminal=lambda state: state == 1),
        cores.true_value(lambda s, a: [(1.0, 0.5, None)], 0),
        "terminal|end",
        asks=law.ALL_WAYS,
    ),
    world(
        "an end that comes back: a state that the step ended leads back and pays",
        lambda: cores.mdp(comes_back, terminal=True),
        cores.true_value(lambda s, a: [(1.0, 0.5, None)], 0),
        "terminal|end",
        asks=law.EVALUATED,
    ),
    operator(
        "operator, not monotone: F falls in the first action",
        custom(falling, falling_gradient, 0.0),
        under(falling),
    ),
    operator(
        "operator, too steep: F has slope 1.5",
        custom(steep, lambda q: np.full(len(q), 1.5 / len(q)), 0.0),
        under(steep),
    ),
    operator(
        "operator, another gradient: the gradient is that of the other action",
        custom(soft, reversed_softmax, 0.5),
        under(soft),
    ),
    operator(
        "operator, not smooth: plain max that claims L = 0.01",
        custom(hard, hard_gradient, 0.01),
        under(hard),
    ),
)
