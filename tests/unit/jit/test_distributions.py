"""The laws of rng: each against SciPy, the same bits in both forms, errors for every domain.

Seeds are fixed, so these tests pass or fail for good. Each p-value must be above 1e-4:
a correct sampler would have failed any one of them with that probability when its seed
was chosen.
"""

import itertools
import math
from collections import Counter
from typing import NamedTuple

import numpy as np
import pytest
from numba import njit
from scipy import stats

import smoothcruiser as sc
from smoothcruiser.jit.random.streams import METHODS, Stream, stream

pytestmark = pytest.mark.compiles


FALSE_ALARM = 1e-4
SHAPES = (0.05, 0.5, 0.999, 1.0, 1.5, 10.0, 1e4, 1e9)
PAIRS = ((0.2, 0.3), (0.5, 0.5), (1.0, 1.0), (2.0, 5.0), (50.0, 0.7), (1e3, 2e3))
NAMES = ["uniform", "normal", "exponential", "gamma"]
NAMES += ["beta", "poisson", "binomial", "geometric"]


@njit
def drawn(rng, name, a, b, size):
    """``size`` numbers of one law, by its place in ``NAMES``."""
    out = np.empty(size)
    for i in range(size):
        if name == 0:
            out[i] = rng.uniform(a, b)
        elif name == 1:
            out[i] = rng.normal(a, b)
        elif name == 2:
            out[i] = rng.exponential(a)
        elif name == 3:
            out[i] = rng.gamma(a, b)
        elif name == 4:
            out[i] = rng.beta(a, b)
        elif name == 5:
            out[i] = rng.poisson(a)
        elif name == 6:
            out[i] = rng.binomial(int(a), b)
        else:
            out[i] = rng.geometric(a)
    return out


def sample(name, a, b=0.0, size=200_000):
    return drawn(
        stream(17, NAMES.index(name)), NAMES.index(name), float(a), float(b), size
    )


@pytest.mark.parametrize(
    "name, a, b, law",
    [
        ("uniform", -2.0, 3.0, stats.uniform(-2.0, 5.0)),
        ("normal", 1.0, 2.0, stats.norm(1.0, 2.0)),
        ("exponential", 3.0, 0.0, stats.expon(scale=3.0)),
        *(("gamma", shape, 2.0, stats.gamma(shape, scale=2.0)) for shape in SHAPES),
        *(("beta", a, b, stats.beta(a, b)) for a, b in PAIRS),
    ],
    ids=lambda x: str(x) if isinstance(x, str | float) else "",
)
def test_continuous_laws(name, a, b, law):
    """Kolmogorov-Smirnov, and the tails beyond the 0.1% quantiles, where KS
    sees little.
    """
    numbers = sample(name, a, b)
    assert stats.kstest(numbers, law.cdf).pvalue > FALSE_ALARM
    in_tails = int(np.sum((numbers < law.ppf(0.001)) | (numbers > law.ppf(0.999))))
    assert stats.binomtest(in_tails, len(numbers), 0.002).pvalue > FALSE_ALARM


def chi_square(numbers, law):
    """The p-value over at most 42 bins of 0.1% or more."""
    quantiles = [0.001, *np.linspace(0.025, 0.975, 39), 0.999]
    edges = np.unique(law.ppf(quantiles))
    expected = np.diff(np.concatenate([[0.0], law.cdf(edges), [1.0]])) * len(numbers)
    counts = np.bincount(np.searchsorted(edges, numbers), minlength=len(edges) + 1)
    kept = expected > 1e-6
    assert counts[~kept].sum() == 0
    return (
        1.0
        if kept.sum() == 1
        else stats.chisquare(counts[kept], expected[kept]).pvalue
    )


BINOMIALS = (
    *((0, 0.5), (5, 0.0), (5, 1.0), (20, 0.1), (20, 0.7), (30, 0.33), (25, 0.4)),
    *((40, 0.7), (10**6, 1e-6), (10**9, 0.25)),
)
COUNTS = [
    *(("poisson", lam, 0.0) for lam in (0.0, 0.3, 9.99, 10.0, 29.0, 100.0, 1e6)),
    *(("binomial", n, p) for n, p in BINOMIALS),
    *(("geometric", p, 0.0) for p in (0.9, 0.1, 1e-9)),
]


@pytest.mark.parametrize("name, a, b", COUNTS)
def test_counts(name, a, b):
    """Below and above mean 10 (of successes or failures), where algorithms change."""
    counts = sample(name, a, b)
    least = 1 if name == "geometric" else 0  # NumPy's support: 1, 2, …
    assert least <= counts.min() <= counts.max() <= (a if name == "binomial" else 1e15)
    kind = {"poisson": stats.poisson, "binomial": stats.binom, "geometric": stats.geom}
    law = kind[name](a, b) if name == "binomial" else kind[name](a)
    assert chi_square(counts, law) > FALSE_ALARM
    assert set(sample("geometric", 1.0, size=100)) == {1.0}


def test_a_beta_of_tiny_parameters_is_a_coin():
    """Gamma variables of such shapes underflow; their ratio must not become NaN."""
    numbers = sample("beta", 1e-4, 3e-4, 20_000)
    assert np.all((numbers >= 0.0) & (numbers <= 1.0))
    heads = int(np.sum(numbers > 0.5))
    assert stats.binomtest(heads, 20_000, 0.25).pvalue > FALSE_ALARM


@pytest.mark.parametrize("name, p", [("poisson", 0.0), ("binomial", 0.9)])
def test_counts_beyond_the_reach_of_scipy_are_normal(name, p):
    """At a mean of 1e15 the skewness is 3e-8, far below what 200,000 numbers
    can see.
    """
    mean = 1e15 * (p or 1.0)
    numbers = (sample(name, 10**15, p) - mean) / math.sqrt(mean * (1.0 - p))
    assert stats.kstest(numbers, stats.norm().cdf).pvalue > FALSE_ALARM


@njit
def whole(rng, low, high, size):
    out = np.empty(size, np.int64)
    for i in range(size):
        out[i] = rng.integers(low, high)
    return out


RANGES = (-5, 5), (-3, -1), (7, 8), (0, 97), (0, 2**33), (-(2**40), 3), (0, 3 * 2**61)


@pytest.mark.parametrize("low, high", [*RANGES, (-(2**63), 2**63 - 1)])
def test_integers_of_a_range_are_uniform(low, high):
    """Awkward sizes: without rejection the lower part of 3 * 2**61 values would
    come more often.
    """
    numbers = whole(stream(23), low, high, 100_000)
    assert numbers.min() >= low
    assert numbers.max() < high
    if 1 < high - low < 100:
        pvalue = stats.chisquare(np.bincount(numbers - low)).pvalue
    elif high - low > 1:
        shares = (numbers - float(low)) / (high - low)
        pvalue = stats.kstest(shares, stats.uniform().cdf).pvalue
    assert high - low == 1 or pvalue > FALSE_ALARM


def test_integers_reach_both_ends_of_64_bits_and_keep_the_bits_of_n():
    rng, twin = stream(1), stream(1)
    assert [rng.integers(-9, -2) for _ in range(99)] == [
        twin.integers(7) - 9 for _ in range(99)
    ]
    lowest = int(np.uint64(twin.raw() ^ (1 << 63)).view(np.int64))
    assert rng.integers(-(2**63), 2**63) == lowest
    assert rng.integers(2**63) == twin.raw() & (2**63 - 1)


def test_choice_returns_elements_with_their_probabilities():
    rng = stream(29)
    faces = np.bincount([rng.choice([1, 2, 3, 4, 5, 6]) for _ in range(12_000)])
    assert faces[0] == 0
    assert stats.chisquare(faces[1:]).pvalue > FALSE_ALARM
    words = [
        rng.choice(("up", "down", "never"), p=[0.25, 0.75, 0.0]) for _ in range(8_000)
    ]
    assert "never" not in words
    assert stats.binomtest(words.count("up"), 8_000, 0.25).pvalue > FALSE_ALARM
    row = rng.choice(np.arange(6).reshape(3, 2))
    assert row.tolist() in [[0, 1], [2, 3], [4, 5]]
    matrix = np.zeros((1, 2))
    rng.choice(matrix)[0] = 7.0
    # a chosen row is a copy: a step cannot write into it
    assert matrix.tolist() == [[0.0, 0.0]]


@njit
def orders(rng, size):
    out = np.empty((size, 4), np.int64)
    for i in range(size):
        out[i] = rng.permutation(4)
    return out


@pytest.mark.slow
def test_every_order_is_equally_likely():
    seen = Counter(tuple(order) for order in orders(stream(31), 48_000).tolist())
    counts = [seen[order] for order in itertools.permutations(range(4))]
    assert sum(counts) == 48_000
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


# --- both forms ---------------------------------------------------------------


class Point(NamedTuple):
    x: float
    y: float


# calls of rng: numbers, then arrays; p and m are its second and third argument
NUMBERS = """random(); uniform(); uniform(2, 3); uniform(np.float32(0.1), np.float32(0.3))
uniform(high=4.0); uniform(low=-1); normal(); normal(3); normal(1.0, 2.0); normal(scale=2)
normal(loc=1.0, scale=2.0); exponential(); exponential(2); gamma(0.3); gamma(2, 3); gamma(0)
exponential(scale=0.5); gamma(shape=7.5, scale=0.1); beta(0.2, 3); beta(a=2.0, b=0.5)
integers(5); integers(-3, 4); integers(low=2, high=9); integers(2**40); integers(7, None)
integers(-(2**62), 2**62); poisson(0); poisson(3.5); poisson(lam=400.0); binomial(10, 0.3)
binomial(n=1000, p=0.8); binomial(7, 1); geometric(0.1); geometric(p=1); choice(6)
choice([1, 2, 3]); choice((4, 5, 6)); choice(np.array([7, 8, 9])); choice(4, p)
choice(a=(1, 2), p=(0.3, 0.7)); choice([3, 4, 5, 6], p=p); categorical((1, 2, 3))
categorical([0.0, 2.5]); categorical(weights=p); choice(np.array([[5], [6]]))[0]
categorical(np.array([False, True, True])); choice(Point(5, 6)); categorical(Point(0.0, 1.0))"""
ROWS = """permutation(5); permutation(np.arange(4)); permutation((1, 2, 3))
permutation([4, 5, 6]); permutation(x=m).ravel()"""


def calls_of(text):
    return [call for line in text.splitlines() for call in line.split("; ")]


@pytest.fixture(scope="module")
def every_form():
    """One number of every method in every form of its arguments."""
    lines = ["def every_form(rng, out, p, m):"]
    lines += [f"    out[{n}] = rng.{call}" for n, call in enumerate(calls_of(NUMBERS))]
    lines += [f"    n = {len(calls_of(NUMBERS))}"]
    lines += ["    line, listed, table = np.arange(6), [3, 1, 2, 0], m.copy()"]
    lines += ["    rng.shuffle(line); rng.shuffle(listed); rng.shuffle(x=table)"]
    rows = ["line", "np.array(listed)", "table.ravel()"]
    for row in (*rows, *(f"rng.{call}" for call in calls_of(ROWS))):
        lines += [f"    for x in {row}:", "        out[n] = x", "        n += 1"]
    scope = {"np": np, "Point": Point}
    exec("\n".join([*lines, "    return n"]), scope)
    return njit(scope["every_form"])


def test_the_same_bits_from_python_and_compiled_code(every_form):
    inside, outside = stream(3, 1), stream(3, 1)
    probabilities, matrix = np.array([0.1, 0.2, 0.3, 0.4]), np.arange(6).reshape(3, 2)
    for _ in range(50):
        compiled, plain = np.zeros(100), np.zeros(100)
        count = every_form(inside, compiled, probabilities, matrix)
        assert every_form.py_func(outside, plain, probabilities, matrix) == count
        assert compiled[:count].tolist() == plain[:count].tolist()
        assert inside.words.tolist() == outside.words.tolist()


def test_plain_results_are_plain_numbers():
    rng = stream(0)
    whole_numbers = rng.integers(5), rng.poisson(30.0), rng.binomial(9, 0.5)
    more = rng.geometric(0.5), rng.choice(5), rng.categorical([1.0])
    assert {type(number) for number in (*whole_numbers, *more)} == {int}
    assert type(rng.gamma(2.0)) is type(rng.normal(1, 2)) is float


# --- NumPy's own Generator ----------------------------------------------------


def test_numpy_is_a_generator_on_the_same_stream():
    rng, twin = stream(41), stream(41)
    generator = rng.numpy()
    assert isinstance(generator, np.random.Generator)
    assert generator is rng.numpy()
    mixed = [generator.random(), rng.random(), *generator.random(3), rng.random()]
    assert mixed == [twin.random() for _ in range(6)]
    numbers = generator.standard_cauchy(20_000)
    assert stats.kstest(numbers, stats.cauchy().cdf).pvalue > FALSE_ALARM
    assert (
        stream(41).numpy().normal(size=9) == stream(41).numpy().normal(size=9)
    ).all()
    orphan = stream(41).numpy()  # keeps the words of its stream alive
    junk = [stream(k) for k in range(1000)]
    assert orphan.random() == mixed[0]
    assert len(junk) == 1000


# --- at the door --------------------------------------------------------------


def die(state, action, rng):
    return rng.choice([1, 2, 3, 4, 5, 6]) / 6.0, state


def problem(step):
    return sc.MDP(
        step, num_actions=1, discount=0.0, operator=sc.Max(), initial_state=0
    )


@pytest.mark.parametrize(
    "step, method", [(die, "smoothcruiser"), (njit(die), "certified")]
)
def test_a_die_is_worth_three_and_a_half(step, method):
    """The mean is 3.5 / 6; a weighted index, which ``choice`` once was, has
    mean 70 / 21 / 6.
    """
    estimate = sc.plan(problem(step), epsilon=0.02, delta=0.01, method=method)
    low, high = estimate.interval
    assert low <= 3.5 / 6.0 <= high
    assert low > 70.0 / 21.0 / 6.0


def test_the_list_of_methods_is_complete():
    public = {name for name in vars(Stream) if not name.startswith("_")}
    listed = {part.split("(")[0] for part in METHODS.replace("), ", ")|").split("|")}
    assert listed == public - {
        *("numpy", "address", "words", "generator", "share", "signed_mask"),
        "entry_name",
    }


# --- outside their domains, one sentence with a remedy in both forms ----------


# by sentence: arguments that it refuses
WRONG = {
    "rng.integers(n) needs n from 1 to 2**63": (
        *("0", "-5", "-(2**63)", "np.uint64(2**63 + 1)"),
    ),
    "rng.integers(low, high) needs -2**63 <= low < high": (
        *("3, 3", "4, -4", "1, np.uint64(2**63 + 1)"),
    ),
    "rng.uniform(low, high) needs finite numbers with low <= high": (
        *("2.0, 1.0", "0.0, math.inf", "math.nan, 1.0"),
    ),
    "rng.normal(loc, scale) needs a finite loc and a finite scale": (
        *("0.0, -1.0", "math.nan", "scale=math.nan"),
    ),
    "rng.exponential(scale) needs a finite scale >= 0": ("-1", "math.inf"),
    "rng.gamma(shape, scale) needs finite shape >= 0": ("-0.5", "1.0, math.nan"),
    "rng.beta(a, b) needs a and b > 0": ("0.0, 1.0", "1.0, math.nan"),
    "rng.poisson(lam) needs a mean lam >= 0 (at most 1e15)": (
        *("-1e-9", "math.nan", "1e18"),
    ),
    "rng.binomial(n, p) needs n >= 0": ("-1, 0.5", "3, 1.1", "3, math.nan"),
    "rng.geometric(p) needs a probability 0 < p <= 1": ("0.0", "1.5"),
    "rng.categorical(weights) needs weights >= 0": ("[1.0, -0.5]", "[1.0, math.nan]"),
    "rng.categorical(weights) needs weights with a finite sum > 0": (
        *("[0.0, 0.0]", "[1.0, math.inf]", "np.zeros(0)"),
    ),
    "rng.choice(a, p) needs at least one element": (
        *("0", "np.zeros(0)", "np.zeros(0), np.zeros(0)"),
    ),
    "rng.choice(a, p) needs probabilities p that sum to 1 (rng.categorical(weights)": (
        *("[1, 2], [0.5, 0.4]", "[1, 2], [0.0, 0.0]"),
    ),
    "rng.choice(a, p) needs probabilities p >= 0": (
        *("[1, 2], [1.5, -0.5]", "[1, 2], [1.0, math.nan]"),
    ),
    "rng.choice(a, p) needs one probability in p for every element": (
        "3, [0.5, 0.5]",
    ),
    "rng.permutation(n) needs n >= 0": ("-1",),
}
CASES = [
    (f"{sentence.partition('(')[0]}({arguments})", sentence)
    for sentence, refused in WRONG.items()
    for arguments in refused
]


@pytest.fixture(scope="module")
def fail():
    """``fail(rng, case)`` makes the call number ``case``."""
    lines = [
        f"    if case == {i}:\n        {call}\n" for i, (call, _) in enumerate(CASES)
    ]
    scope = {"np": np, "math": math}
    exec("def fail(rng, case):\n" + "".join(lines), scope)
    return njit(scope["fail"])


@pytest.mark.parametrize("case", range(len(CASES)), ids=[call for call, _ in CASES])
def test_arguments_outside_the_domain_are_errors_in_both_forms(fail, case):
    rng = stream(0)
    before = rng.words.tolist()
    for function in (fail, fail.py_func):
        with pytest.raises(ValueError) as caught:
            function(rng, case)
        assert str(caught.value).startswith(CASES[case][1])
        assert ("got" in str(caught.value)) == (function is fail.py_func)
    assert rng.words.tolist() == before


@pytest.mark.parametrize(
    "method, arguments, said",
    [
        ("integers", (2.5,), "integers(low, high) takes whole numbers, got 2.5"),
        ("binomial", (2.5, 0.5), "binomial(n, p) takes a whole number as n, got"),
        ("choice", ("abc",), "choice(a, p) takes a whole number or a list"),
        ("choice", ({1, 2},), "choice(a, p) takes a whole number or a list"),
        ("permutation", (2.5,), "permutation(x) takes a whole number or a list"),
        ("shuffle", ((1, 2),), "shuffle(x) takes an array or a list, got tuple"),
    ],
)
def test_arguments_of_the_wrong_kind_are_errors(method, arguments, said):
    with pytest.raises(TypeError) as caught:
        getattr(stream(0), method)(*arguments)
    assert str(caught.value).startswith(f"rng.{said}")
    with pytest.raises(ValueError, match="needs n >= 0"):
        stream(0).binomial(10**30, 0.5)  # beyond what compiled code can hold


def cauchy(state, action, rng):
    return rng.standard_cauchy(), state


def generator_inside(state, action, rng):
    return rng.numpy().random(), state


def sized(state, action, rng):
    return rng.random(5)[0], state


def mixed(state, action, rng):
    return rng.choice((0, 0.5)), state


def negative(state, action, rng):
    return 0.5 + 0.0 * rng.poisson(-1.0), state


@pytest.mark.parametrize("method", ["smoothcruiser", "certified"])
def test_a_missing_method_is_answered_with_those_there_are(method):
    said = f"rng has no method 'standard_cauchy'; it has {METHODS}"
    for step, error in ((cauchy, sc.OracleError), (njit(cauchy), sc.InvalidInput)):
        with pytest.raises(error) as caught:
            sc.plan(problem(step), epsilon=0.1, delta=0.1, method=method)
        assert said in str(caught.value)
        assert "drop numba.njit" not in str(caught.value)


SIZED = f"rng.random does not take the arguments (Literal[int](5)); rng has {METHODS}"


@pytest.mark.parametrize(
    "step, said, drop",
    [
        (generator_inside, "rng.numpy() works in plain Python only", True),
        (mixed, "rng.choice(a, p) takes tuples whose elements have one type", True),
        (sized, SIZED, False),
    ],
)
def test_what_compiled_code_cannot_do_is_said_with_a_remedy_that_helps(
    step, said, drop
):
    with pytest.raises(sc.InvalidInput) as caught:
        sc.plan(problem(njit(step)), epsilon=0.1, delta=0.1)
    assert said in str(caught.value)
    assert ("drop numba.njit" in str(caught.value)) == drop


@pytest.mark.parametrize("step", [negative, njit(negative)], ids=["plain", "compiled"])
def test_a_wrong_argument_arrives_as_one_sentence_with_its_place(step):
    with pytest.raises(sc.OracleError, match="at state 0, action 0") as caught:
        sc.plan(problem(step), epsilon=0.1, delta=0.1, method="smoothcruiser")
    said = "ValueError: rng.poisson(lam) needs a mean lam >= 0 (at most 1e15)"
    assert said in str(caught.value)
