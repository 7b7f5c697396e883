"""RDDL problems against pyRDDLGym, whose worlds they are.

Laws: with the same random numbers the translation takes the steps of pyRDDLGym's
simulator; what a real environment does is an outcome that the law lists, with its
reward and its end; sampled frequencies have that law; all randomness comes from the
planner's stream, and planning leaves a real environment's alone; derived ranges hold
every reward that can be reached; intervals hold exact values.
"""

import pickle

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import stream

pytest.importorskip("pyRDDLGym")
pytest.importorskip("rddlrepository")
from pyRDDLGym.core.env import RDDLEnv
from rddl_worlds import LAMPS, LAMPS_INSTANCE, Level

from smoothcruiser.adapters.rddl import reading as repository

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pyRDDLGym")
SMALL = (
    "Navigation_MDP_ippc2011,1",
    "SysAdmin_MDP_ippc2011,1",  # 1,024 outcomes
    "Elevators_MDP_ippc2011,1",
    "TriangleTireworld_MDP_ippc2014,1",
    "Blackjack_arcade,0",  # Discrete, whole numbers, ends
    "TSP_or,0",  # preconditions, objects as values, ends
)


@pytest.fixture(scope="module")
def worlds():
    """(translated, interpreted) problems by name."""
    return {name: both_forms(name) for name in SMALL}


def both_forms(name):
    return [
        sc.make(f"rddl:{name},access={access}", operator="max")
        for access in ("translate", "interpret")
    ]


def assert_same_steps(forms, steps, seed):
    """Where every random number is u, both forms take the same step, for many u."""
    ours, theirs = forms
    levels = np.random.default_rng(seed)
    for state, action in walked(ours, steps, stream(1)):
        u = Level(float(levels.random()))
        reward, after = ours.oracle(state, action, u)
        expected, expected_after = theirs.oracle(state, action, u)
        assert after == expected_after
        assert reward == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert ours.legal_actions(state) == theirs.legal_actions(state)
        assert ours.is_terminal(after) == theirs.is_terminal(after)


def write_lamps(folder, domain=LAMPS, instance=LAMPS_INSTANCE):
    """A domain and its instance as files, and the name of the problem."""
    (folder / "domain.rddl").write_text(domain)
    (folder / "two.rddl").write_text(instance)
    return f"rddl:{folder / 'domain.rddl'},{folder / 'two.rddl'}"


@pytest.fixture(scope="module")
def lamps(tmp_path_factory):
    return write_lamps(tmp_path_factory.mktemp("lamps"))


def environment(name):
    """The real environment of a name of rddlrepository."""
    domain, _, number = name.partition(",")
    folder = repository.domains()[domain]
    return RDDLEnv(
        str(folder / "domain.rddl"),
        str(folder / f"instance{number}.rddl"),
        enforce_action_constraints=True,
    )


def legacy_state():
    """The state of NumPy's global generator, which nobody may touch."""
    return np.random.get_state()[1].tobytes()  # noqa: NPY002


def walked(problem, steps, rng):
    """States and legal actions of random play."""
    state = problem.initial_state
    for _ in range(steps):
        legal = problem.legal_actions(state)
        action = legal[int(rng.integers(len(legal)))]
        yield state, action
        _, state = problem.oracle(state, action, rng)
        if problem.is_terminal(state):
            state = problem.initial_state


# --- the same steps -----------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_a_translated_step_is_pyrddlgyms_own(worlds, name):
    assert_same_steps(worlds[name], 120, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [n for n in repository.domains() if n.endswith(("DP_ippc2011", "DP_ippc2014"))],
)
def test_every_domain_of_two_competitions_is_translated(name):
    """The same law for all of them; POMDPs are refused by name."""
    if "POMDP" in name:
        with pytest.raises(sc.InvalidInput, match="is a POMDP"):
            sc.make(f"rddl:{name},1", operator="max")
    else:
        assert_same_steps(both_forms(f"{name},1"), 200, 6)


@pytest.mark.parametrize("name", SMALL)
def test_what_a_real_environment_does_is_an_outcome(worlds, name):
    problem, _ = worlds[name]
    oracle, env, rng = problem.oracle, environment(name), stream(2)
    env.reset(seed=3)
    for _ in range(60):
        state = oracle.read(env)
        legal = problem.legal_actions(state)
        action = legal[int(rng.integers(len(legal)))]
        _, reward, terminated, truncated, _ = env.step(oracle.actions[action])
        after = oracle.read(env)
        listed = problem.outcomes(state, action)
        assert any(z == after and r == pytest.approx(reward) for _, r, z in listed)
        assert sum(p for p, _, _ in listed) == pytest.approx(1, abs=1e-12)
        assert problem.is_terminal(after) == terminated
        if terminated or truncated:
            env.reset()


@pytest.mark.parametrize("name", ["Elevators_MDP_ippc2011,1", "Blackjack_arcade,0"])
@pytest.mark.parametrize("which", [0, 1])
def test_sampled_frequencies_have_the_law(worlds, name, which):
    """A chi-square statistic below its 1 - 1e-6 quantile, for fixed seeds."""
    from scipy.stats import chi2

    problem, rng = worlds[name][which], stream(7)
    n = 4000 if which == 0 else 600
    for action in range(2):
        state = problem.initial_state
        law = {z: p for p, _, z in problem.outcomes(state, action)}
        counts = dict.fromkeys(law, 0)
        for _ in range(n):
            counts[problem.oracle(state, action, rng)[1]] += 1
        statistic = sum((counts[z] - n * p) ** 2 / (n * p) for z, p in law.items())
        if len(law) > 1:
            assert statistic < chi2.ppf(1 - 1e-6, len(law) - 1)


def test_the_law_of_independent_lamps(lamps):
    problem = sc.make(lamps, operator="max")
    both = problem.start({"burns(l1)": True, "burns(l2)": True})
    law = {z[:2]: p for p, _, z in problem.outcomes(both, 0)}
    assert law == {
        (True, True): 0.5625,
        (True, False): 0.1875,
        (False, True): 0.1875,
        (False, False): 0.0625,
    }
    few = sc.make(f"{lamps},max_outcomes=3", operator="max")
    assert few.outcomes(both, 0) is None  # sampled instead
    assert len(few.outcomes(problem.initial_state, 0)) == 2


# --- streams ------------------------------------------------------------------


@pytest.mark.parametrize("which", [0, 1])
def test_equal_streams_give_equal_steps(worlds, which):
    problem = worlds["SysAdmin_MDP_ippc2011,1"][which]
    before = legacy_state()
    for k in range(20):
        one, two = stream(k), stream(k)
        assert problem.oracle(problem.initial_state, 3, one) == problem.oracle(
            problem.initial_state, 3, two
        )
        assert one.raw() == two.raw()
        assert one.raw() != stream(k).raw()  # something was taken from it
    assert legacy_state() == before


def test_a_problem_can_be_sent_to_another_process(lamps):
    problem = sc.make(lamps, operator="max")
    assert sc.check(problem).ok
    twin = pickle.loads(pickle.dumps(problem.oracle))
    state, few = problem.initial_state, sc.make(f"{lamps},max_outcomes=2")
    assert twin(state, 0, stream(3)) == problem.oracle(state, 0, stream(3))
    prints = [x.__fingerprint__() for x in (twin, problem.oracle, few.oracle)]
    assert prints[0] == prints[1] != prints[2]


# --- what is derived ----------------------------------------------------------


def reachable_rewards(problem, most):
    """Rewards of states that can be reached, up to a number of them."""
    states, waiting = {problem.initial_state}, [problem.initial_state]
    while waiting and len(states) < most:
        state = waiting.pop()
        for action in problem.legal_actions(state):
            for _, reward, after in problem.outcomes(state, action):
                yield reward
                if after not in states and not problem.is_terminal(after):
                    states.add(after)
                    waiting.append(after)


@pytest.mark.parametrize("name", [n for n in SMALL if "SysAdmin" not in n])
def test_the_derived_range_holds_every_reward(worlds, name):
    problem = worlds[name][0]
    low, high = problem.reward_range
    assert all(low <= reward <= high for reward in reachable_rewards(problem, 3000))


def test_ranges_are_as_narrow_as_one_action_at_a_time_allows(worlds, lamps):
    assert worlds["SysAdmin_MDP_ippc2011,1"][0].reward_range == (-0.75, 10.0)
    assert sc.make(lamps, operator="max").reward_range == (-0.5, 2.0)
    # a fluent that grows to 3 and no further, from where it begins
    assert sc.make(lamps, operator="max").oracle.ranges[2] == (0.0, 3.0)


def test_horizon_and_discount_are_the_instances_own(lamps):
    problem = sc.make(lamps, operator="max")
    assert (problem.horizon, problem.discount) == (2, 0.5)
    changed = sc.make(f"{lamps},horizon=5", operator="max", discount=0.75)
    assert (changed.horizon, changed.discount) == (5, 0.75)
    assert sc.make(f"{lamps},horizon=none", operator="max").horizon is None


def test_actions_have_names_and_preconditions(lamps, worlds):
    problem = sc.make(lamps, operator="max")
    assert problem.actions == ("noop", "repair(l1)", "repair(l2)")
    assert problem.legal_actions(problem.initial_state) == [0, 2]  # l1 burns
    assert problem.oracle.actions[2] == {"repair___l2": True}
    assert worlds["SysAdmin_MDP_ippc2011,1"][0].actions[:2] == ("noop", "reboot(c1)")


def test_states_are_read_and_written_as_data(lamps):
    problem = sc.make(lamps, operator="max")
    assert problem.start({"burns(l2)": True, "age": 2}) == (False, True, 2)
    assert problem.start([0, 1, 2]) == (False, True, 2)
    assert problem.oracle.plain((False, True, 2)) == {"burns(l2)": True, "age": 2}
    assert problem.is_terminal(problem.start({"age": 3}))
    assert not problem.is_terminal(problem.start({"age": 2}))
    for wrong, sentence in (
        ({"burns(l3)": True}, r"No state fluent is called 'burns\(l3\)'"),
        ({"burns(l1)": 7}, r"burns\(l1\) must be true or false, got 7"),
        ([True], "A state is a list of 3 values"),
        ({"age": 9}, r"age must lie in \[0, 3\]"),
    ):
        with pytest.raises(sc.InvalidInput, match=sentence):
            problem.start(wrong)


# --- values -------------------------------------------------------------------


def test_two_lamps_are_worth_what_a_sheet_of_paper_says(lamps):
    """One lamp burns, two steps, discount 1/2, a lamp stays on with 3/4.

    With one step left nothing is worth repairing: each burning lamp pays 1. Doing
    nothing pays 1 + (3/4)/2; repairing l2 pays 1/2 + (3/4 + 1)/2.
    """
    problem = sc.make(lamps, operator="max")
    exact = sc.plan(problem, method="exact")
    values = exact.value, exact.q_values[0], exact.q_values[2]
    assert values == pytest.approx([1.375] * 3, abs=1e-12)
    certified = sc.plan(problem, method="certified", epsilon=0.01, delta=0.1)
    assert exact.num_calls == certified.num_calls == 0
    assert certified.interval[0] <= 1.375 <= certified.interval[1]


def test_certified_search_by_samples_holds_the_exact_value(lamps):
    """Without the law: states come back, and intervals hold what is exact."""
    how = {"operator": "entropy", "temperature": 0.3}
    sampled = sc.make(f"{lamps},horizon=4,max_outcomes=0", **how)
    assert sampled.outcomes is None
    exact = sc.plan(sc.make(f"{lamps},horizon=4", **how), method="exact")
    found = sc.plan(sampled, method="certified", epsilon=0.4, delta=0.1, seed=1)
    assert found.num_calls > 0
    assert found.interval[1] - found.interval[0] <= 0.8
    assert found.interval[0] <= exact.value <= found.interval[1]


def test_the_interpreter_serves_what_cannot_be_translated():
    """CartPole has sines: its range is declared, its steps are pyRDDLGym's."""
    name = "CartPole_Discrete_gym,0"
    with pytest.raises(sc.InvalidInput, match=r"function \w+; declare it as reward_r"):
        sc.make(f"rddl:{name}", operator="max")
    problem = sc.make(f"rddl:{name},reward_range=[0,1]", operator="max")
    assert problem.outcomes is None
    assert problem.actions == ("noop", "force-side=1")
    env = environment(name)
    env.reset(seed=0)
    for k in range(4):
        state = problem.oracle.read(env)
        reward, after = problem.oracle(state, k % 2, stream(k))
        _, paid, *_ = env.step(problem.oracle.actions[k % 2])
        assert reward == paid
        assert after == pytest.approx(problem.oracle.read(env), abs=1e-12)


# --- refusals -----------------------------------------------------------------


SYSADMIN = "SysAdmin_MDP_ippc2011"


@pytest.mark.parametrize(
    "name, sentence",
    [
        ("SysAdmin_MDP_ippc2012,1", r"did you mean SysAdmin_MDP_ippc2011"),
        (f"{SYSADMIN},99", r"no instance 99; it has 1, 2, 3, .*10, as in rddl:"),
        (SYSADMIN, r"needs the number of an instance; it has 1, 2"),
        ("SysAdmin_POMDP_ippc2011,1", r"is a POMDP: its agent sees only \S*obs"),
        ("AcademicAdvising_ippc2018,1", r"32,768 joint actions .* more than 1,024"),
        ("HVAC,0", r"action fluent air\(r1\) is continuous"),
        ("nowhere.rddl,1.rddl", r"RDDL file 'nowhere.rddl' cannot be read"),
        ("nowhere.rddl", r"name the file of an instance too"),
        (f"{SYSADMIN},1,hurry=1", r"knows no parameter 'hurry'"),
        (f"{SYSADMIN},1,access=magic", r"access must be one of auto"),
        (f"{SYSADMIN},1,max_actions=0", r"max_actions must be a whole number"),
        (f"{SYSADMIN},1,reward_range=[1,0]", r"reward_range must be two finite"),
        ("CartPole_Discrete_gym,0,access=translate", r"cannot be translated: it has"),
    ],
)
def test_a_name_that_cannot_be_is_refused_in_a_sentence(name, sentence):
    with pytest.raises(sc.InvalidInput, match=sentence) as refusal:
        sc.make(f"rddl:{name}", operator="max")
    assert "\n" not in str(refusal.value)


def test_a_text_that_is_no_rddl_is_refused(tmp_path):
    name = write_lamps(tmp_path, "domain { nonsense }", "instance")
    with pytest.raises(sc.InvalidInput, match="pyRDDLGym cannot read this domain"):
        sc.make(name, operator="max")


@pytest.mark.parametrize(
    "condition, sentence",
    [
        ("termination { exists_{?l : lamp} [repair(?l)]; };", r"repair"),
        ("state-invariants { glow; };", r"glow"),
        ("termination { Bernoulli(0.5); };", r"reads a random variable"),
    ],
)
def test_conditions_that_a_state_does_not_decide_are_refused(
    tmp_path, condition, sentence
):
    """pyRDDLGym would evaluate them with what other fluents were a step before."""
    glow = "glow : { interm-fluent, bool };\n repair(lamp)"
    domain = LAMPS.replace("repair(lamp)", glow).replace(
        "cpfs {", "cpfs { glow = age > 1;"
    )
    domain = domain[: domain.index("termination")] + condition + "\n}\n"
    with pytest.raises(sc.InvalidInput, match=sentence):
        sc.make(f"{write_lamps(tmp_path, domain)},reward_range=[-1,2]")


def test_a_reward_outside_a_declared_range_is_refused(lamps):
    problem = sc.make(f"{lamps},reward_range=[0,0.5],max_outcomes=0", operator="max")
    with pytest.raises(sc.OracleError, match="outside reward_range"):
        sc.plan(problem, method="uct", budget=50)
