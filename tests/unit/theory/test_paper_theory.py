"""The paper's constants, counts and bounds: hand-computed numbers, limits, and
what holds and does not hold as printed.

The hand example: gamma = 1/4 (sqrt 1/2), K = 2, L = 1/8, M = 1, rewards in [0,
1], delta' = 4/e^2, so log(2K/delta') = 2. Then V_max = 8/3, kappa = (1/2)/(2/8)
= 2, the number under N's ceiling is 18*4*2/((3/4)^4 (1/4) e^2) = (16384/9)/e^2.
"""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

import smoothcruiser as sc
from smoothcruiser.methods.advice import least_of_search, seconds_of
from smoothcruiser.problem.facts import Facts
from smoothcruiser.query import Promise
from smoothcruiser.schedule.compiler.optimizer import compile_schedule
from smoothcruiser.schedule.number_text import format_log_count, power_of_ten
from smoothcruiser.schedule.reach import OutOfTime, patience
from smoothcruiser.theory import paper_constants as paper
from smoothcruiser.theory.least_price import least_price
from smoothcruiser.theory.paper_constants import PaperSetting
from smoothcruiser.theory.paper_ladder import MAX_LEVELS, ladder

HAND = PaperSetting(0.25, 2, 0.125, 1.0)
DP = 4.0 * math.exp(-2.0)
POWER = math.log2(16384.0 / 27.0)
GRID = list(product((0.05, 0.5, 0.8), (0.1, 10.0), (1, 2, 5), (0.1, 1e-9)))


def plain_count(setting, e, delta_prime):
    """n(e) by the printed recursion in plain floats: an independent second opinion."""
    gamma, K = setting.gamma, setting.K
    root, bar = math.sqrt(gamma), (1.0 - math.sqrt(gamma)) / (K * setting.L)
    noise = 18.0 * (1.0 + setting.M) ** 2 * math.log(2.0 * K / delta_prime)
    size = noise / ((1.0 - gamma) ** 4 * (1.0 - root) ** 2)
    if e >= (1.0 + setting.M) / (1.0 - gamma):
        return 1
    onward = plain_count(setting, e / root, delta_prime)
    if e >= bar:
        return 1 + K * math.ceil(size / e**2) * onward
    query = plain_count(setting, math.sqrt(bar * e / gamma), delta_prime)
    return 1 + onward + K * math.ceil(size / (bar * e)) * query


@pytest.mark.parametrize(
    ("function", "arguments", "number"),
    [
        (paper.kappa, (), 2.0),
        (paper.value_bound, (), 8.0 / 3.0),
        (paper.c_gamma, (), 32.0 / 3.0),
        (paper.alpha, (DP,), 32768.0 / 9.0),
        (paper.beta, (DP,), 16384.0 / 9.0),
        (paper.num_samples, (2.0, DP), 456),
        (paper.num_samples, (1.0, DP), 1821),
        (paper.num_samples, (0.5, DP), 7282),
        (paper.depth, (8.0 / 3.0,), 0),
        (paper.depth, (0.5,), 3),
        (paper.zeta, (3.0,), math.inf),
        (paper.zeta, (2.0,), 2.0),
        (paper.zeta, (0.5,), 1.0),
        (paper.relaxation_bound, (), 4.0 / 3.0),
        (paper.eta_2, (DP,), POWER),
        (paper.log10_eta_1, (DP,), math.log10(4.0 * 913.0)),
        (paper.lemma_1_log10, (1.0, DP), math.log10(3652.0 * 1.5**POWER)),
        (paper.proposition_1_log10, (2.0, DP), math.log10(65536.0 / 9.0 / 4.0)),
        (paper.proposition_1_log10, (1.0, DP), math.log10(0.25 * (65536 / 9) ** 2)),
    ],
)
def test_constants_and_bounds_by_hand(function, arguments, number):
    exact = isinstance(number, int) or math.isinf(number)
    assert function(HAND, *arguments) == (number if exact else pytest.approx(number))


def test_counts_by_hand():
    """n(2) = 1 + 2*456, n(1) = 1 + n(2) + 2*911, n(1/2) = 1 + n(1) +
    2*1821*n(2), and the root 2*7282*n(1).
    """
    counts = [paper.sample_v_calls(HAND, e, DP).exact for e in (4.0, 2.0, 1.0, 0.5)]
    assert counts == [1, 913, 2736, 3327883]
    assert paper.oracle_calls(HAND, 0.5, DP).exact == 2 * 7282 * 2736


def test_theorem_1_by_hand():
    """The constants; and that Theorem 1 is N (without ceiling) times Lemma 1,
    which is how the paper derives it.
    """
    c = paper.theorem_1_constants(HAND, DP)
    log10_c1 = math.log10(72.0 * 913.0 / (0.0625 * 0.31640625))
    numbers = [log10_c1, 4.0, 1.0 / math.log(4.0), 8.0, 8192.0 / 27.0]
    assert [c.log10_c1, c.c2, c.c3, c.c4, c.c5] == pytest.approx(numbers)
    lemma = math.log10(16384.0 / 9.0 / 0.25) + paper.lemma_1_log10(HAND, 0.5, DP)
    assert paper.theorem_1_log10(HAND, 0.5, DP) == pytest.approx(lemma)


@pytest.mark.parametrize(
    ("gamma", "temperature", "K", "delta_prime"), [row for row in GRID if row[0] < 0.8]
)
def test_ladder_counts_equal_the_plain_recursion(gamma, temperature, K, delta_prime):
    setting = PaperSetting.entropy(gamma, temperature, K)
    for e in (0.9, 0.3, 0.11, 0.05):
        count = paper.sample_v_calls(setting, e, delta_prime)
        plain = plain_count(setting, e, delta_prime)
        assert count.log10 == pytest.approx(math.log10(plain), rel=1e-12)
        # beyond, a ceiling of 10^16 and more depends on the last bit of e
        if plain < 10**12:
            assert count.exact == plain


@pytest.mark.parametrize(("gamma", "temperature", "K", "delta_prime"), GRID)
def test_proposition_1_bounds_the_exact_count_above_kappa(
    gamma, temperature, K, delta_prime
):
    """And, for sparse sampling (kappa = 0), at every accuracy."""
    setting = PaperSetting.entropy(gamma, temperature, K)
    flat = paper.sparse_sampling(setting)
    for i in range(1, 25):
        e = paper.value_bound(setting) * 0.83**i
        bound = paper.proposition_1_log10(setting, e, delta_prime)
        assert paper.sample_v_calls(flat, e, delta_prime).log10 <= bound
        if e >= paper.kappa(setting):
            assert paper.sample_v_calls(setting, e, delta_prime).log10 <= bound


@pytest.mark.compiles
@pytest.mark.parametrize(("gamma", "temperature", "K", "delta_prime"), GRID)
def test_repaired_lemma_1_bounds_the_exact_count_below_kappa(
    gamma, temperature, K, delta_prime
):
    setting = PaperSetting.entropy(gamma, temperature, K)
    for i in range(20):
        e = paper.kappa(setting) * math.sqrt(gamma) ** (i / 2.7)
        count = paper.sample_v_calls(setting, e, delta_prime).log10
        bound = paper.repaired_lemma_1_log10(setting, e, delta_prime)
        assert count <= bound
        # a bound that is not vacuous: counts here reach 10^700
        assert bound <= count + 12.0


@pytest.mark.parametrize(
    ("gamma", "temperature", "K"),
    [(0.2, 10.0, 2), (0.5, 1.0, 2), (0.0, 1.0, 3), (0.3, 0.01, 1), (0.5, 10.0, 4)],
)
@pytest.mark.parametrize("delta", [0.5, 0.1, 1e-8])
def test_delta_prime_keeps_delta_and_is_the_largest(gamma, temperature, K, delta):
    setting = PaperSetting.entropy(gamma, temperature, K)
    value = paper.delta_prime(setting, 0.2, delta)
    for chosen, keeps in ((value, True), (value * (1.0 + 1e-6), False)):
        calls = paper.oracle_calls(setting, 0.2, chosen).exact
        assert (paper.failure_probability(chosen, calls) <= Fraction(delta)) == keeps


# theory note, section 5, last column: delta = 0.1, epsilon = 5% of 1/(1-gamma)
TABLE = {
    (0.2, 10.0, 2): "3.5e+29",
    (0.2, 10.0, 4): "1.1e+41",
    (0.2, 1.0, 2): "1.9e+23",
    (0.2, 0.1, 2): "3.1e+22",
    (0.5, 1.0, 2): "1.9e+77",
    (0.5, 10.0, 4): "2.7e+113",
}


@pytest.mark.parametrize("key", TABLE)
def test_price_table_of_the_theory_note(key):
    """The note's digits belong to a delta' that is a little below the largest;
    the largest gives up to 5% fewer calls.
    """
    setting, epsilon = PaperSetting.entropy(*key), 0.05 / (1.0 - key[0])
    largest = paper.delta_prime(setting, epsilon, 0.1)
    below = paper.oracle_calls(setting, epsilon, 0.8 * largest).exact
    assert f"{below:.1e}" == TABLE[key]
    calls = paper.oracle_calls(setting, epsilon, largest).exact
    assert 0.95 < calls / float(TABLE[key]) <= 1.02


def test_weak_regularization_is_sparse_sampling():
    """Lambda -> 0: kappa falls below every accuracy that is visited; Max is the
    limit.
    """
    weak = PaperSetting.entropy(0.5, 1e-9, 3)
    plain = PaperSetting.of(Facts(3, 3, 0.5, sc.Max(), (0.0, 1.0)))
    assert paper.kappa(plain) == 0.0
    for e in (0.9, 0.11, 0.013):  # off the lattice 2 sqrt(1/2)^h, where counts jump
        exact = paper.sample_v_calls(weak, e, 0.1).exact
        assert exact == paper.sample_v_calls(paper.sparse_sampling(weak), e, 0.1).exact
        assert math.log10(exact) == pytest.approx(
            paper.sample_v_calls(plain, e, 0.1).log10, rel=1e-6
        )


@pytest.mark.compiles
@pytest.mark.parametrize("gamma", [0.99, 1.0 - 1e-7, 1.0 - 2.0**-53])
@pytest.mark.parametrize("e", [0.5, 1e-4, 1e-200])
def test_every_count_is_finite_in_log10(gamma, e):
    """Counts beyond the floats, ladders beyond 10^4 rungs, discounts that round
    to 1: never an overflow, never a hang.
    """
    setting = PaperSetting.entropy(gamma, 1.0, 2)
    epsilon = e / (1.0 - gamma)
    count = paper.oracle_calls(setting, epsilon, 0.1)
    assert 0.0 < count.log10 < math.inf
    rungs = ladder(setting, epsilon)
    assert rungs is None or len(rungs) <= MAX_LEVELS + 1
    log_value, log_price = paper.log_delta_prime(setting, epsilon, 0.1)
    assert log_value + log_price <= math.log(0.1) + 1e-9 * abs(log_value)


def test_a_delta_prime_below_the_floats_is_refused_with_the_price():
    with pytest.raises(sc.Unpayable, match=r"10\^1789\.2 oracle calls"):
        paper.delta_prime(PaperSetting.entropy(0.9, 50.0, 4), 0.5, 0.1)


def test_a_horizon_cuts_the_ladder():
    """At 0 steps left a call returns 0; a horizon longer than the ladder
    changes nothing.
    """
    setting = PaperSetting.entropy(0.5, 1.0, 2)

    def calls(horizon=None):
        return paper.oracle_calls(setting, 0.3, 0.1, horizon=horizon).exact

    samples = 2 * paper.num_samples(setting, 0.3, 0.1)
    below = 2 * paper.num_samples(setting, 0.3 / math.sqrt(0.5), 0.1)
    assert (calls(1), calls(2)) == (samples, samples * (1 + below))
    assert calls(1000) == calls()


@pytest.mark.parametrize(
    "call",
    [
        lambda: PaperSetting(1.0, 2, 1.0, 1.0),
        lambda: PaperSetting(math.nan, 2, 1.0, 1.0),
        lambda: PaperSetting(0.5, 0, 1.0, 1.0),
        lambda: PaperSetting(0.5, 2, -1.0, 1.0),
        lambda: PaperSetting(0.5, 2, 1.0, math.inf),
        lambda: paper.num_samples(HAND, 0.0, 0.1),
        lambda: paper.num_samples(HAND, 1.0, 1.5),
        lambda: paper.sample_v_calls(HAND, math.nan, 0.1),
        lambda: paper.lemma_1_log10(HAND, 2.5, 0.1),
        lambda: paper.lemma_1_log10(PaperSetting(0.0, 2, 1.0, 1.0), 0.1, 0.1),
        lambda: paper.theorem_1_constants(PaperSetting(0.5, 2, math.inf, 0.0), 0.1),
        lambda: paper.delta_prime(HAND, 0.5, 1.0),
    ],
)
def test_what_the_formulas_cannot_take_is_refused(call):
    with pytest.raises(sc.InvalidInput):
        call()


def test_setting_of_facts():
    facts = Facts(3, 2, 0.5, sc.Entropy(2.0), (-4.0, 1.0))
    assert PaperSetting.of(facts) == PaperSetting(
        0.5, 3, 0.5, 2.0 * math.log(3.0), 4.0
    )


# --- lower bounds on prices ---------------------------------------------------


OPERATORS = (
    sc.Max(),
    sc.Entropy(1.0),
    sc.Entropy(50.0),
    sc.KL(0.5),
    sc.Sparsemax(1.0),
    sc.SquareRoot(1.0),
)


def facts_of(operator, discount, horizon):
    plain = Facts(2, 2, discount, operator, (0.0, 1.0), horizon=horizon)
    return [
        plain,
        replace(plain, num_actions=3, reward_range=(-1.0, 1.0), terminals=True),
        replace(plain, game=True),
        replace(plain, total_range=(0, 0.6)),
        replace(plain, given_gap=0.3 * plain.value_span()),
    ]


def small_grid(operator):
    staged = facts_of(operator, 1.0, 2)
    return [*facts_of(operator, 0.2, None)[1:3], *staged[3:]], [0.1]


def large_grid(operator):
    return [*facts_of(operator, 0.5, None), *facts_of(operator, 1.0, 3)], [0.02, 0.3]


GRIDS = [(operator, small_grid) for operator in OPERATORS[:2]]
GRIDS += [pytest.param(x, large_grid, marks=pytest.mark.slow) for x in OPERATORS]


def name_part(part):
    """A name for test ids that is the same in every process."""
    return getattr(part, "__name__", str(part))


@pytest.mark.parametrize("operator, grid", GRIDS, ids=name_part)
def test_no_compiled_schedule_is_cheaper_or_shorter(operator, grid):
    worlds, deltas = grid(operator)
    targets = ("q_values", "value")
    for facts, share, delta, target in itertools.product(
        worlds, (0.3, 0.1), deltas, targets
    ):
        epsilon = share * facts.value_span()
        least = least_price(facts, epsilon, delta, target)
        promise = {"epsilon": epsilon, "delta": delta, "target": target}
        schedule = compile_schedule(facts, **promise, adaptive=False)
        assert least.log_calls <= math.log(max(1, schedule.num_calls))
        assert least.depth <= len(schedule.levels)


def test_the_bound_says_something():
    """Sparse sampling at discount 0.9: at least 2^21 paths, 1e95 calls in fact."""
    facts = Facts(2, 2, 0.9, sc.Max(), (0.0, 1.0))
    least = least_price(facts, 0.5, 0.1)
    assert least.depth == 21
    assert least.log_calls == pytest.approx(math.log(0.8 * 2**21))
    coin = least_price(Facts(2, 2, 0.5, sc.Entropy(1e6), (0.0, 1.0)), 0.1, 0.01)
    assert coin.log_calls > math.log(300)


def test_prices_beyond_floats_have_words_and_no_seconds():
    problem = sc.make("chain:n=5", discount=0.5, temperature=1.0)
    assert seconds_of(problem, None, "certified", 10**8236) is None
    assert seconds_of(problem, None, "smoothcruiser", 2 * 10**7) == pytest.approx(1.0)
    assert least_of_search(problem, Promise(epsilon=1e-308, delta=0.1)) > 10**299
    assert power_of_ten(8236.2 * math.log(10.0)) == "10^8,236"
    assert format_log_count(8236.2 * math.log(10.0)) == "10^8,236"
    assert power_of_ten(math.log(46.0)) == "46"


def test_a_search_out_of_time_goes_on_to_the_same_table():
    facts = Facts(2, 2, 0.61, sc.Entropy(1.0), (0.0, 1.0))
    promise = {"epsilon": 0.2, "delta": 0.1}
    for ticks in (3, 30):
        clock = iter(range(ticks + 10**6))
        with pytest.raises(OutOfTime), patience(ticks, lambda c=clock: next(c)):
            compile_schedule(facts, **promise)
    schedule = compile_schedule(facts, **promise)
    from smoothcruiser.schedule.compiler.candidates import frontier_of

    frontier_of.cache_clear()
    from smoothcruiser.schedule.compiler import optimizer

    optimizer._compile_cached.cache_clear()
    assert compile_schedule(facts, **promise) == schedule
