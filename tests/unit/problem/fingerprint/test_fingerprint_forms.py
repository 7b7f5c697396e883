"""Fingerprints of problems in every form that an oracle can take.

Laws: closures, objects, tables, compiled and batched functions are read to the
bottom; reading runs no code of the user; it ends, and never raises; data that the
code changes itself, and all that nobody can see, is named and not compared.
"""

import collections
import functools
import importlib
import operator
import os
import random
import sys
import threading
import types
from array import array
from decimal import Decimal
from unittest import mock

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.problem.fingerprint import fingerprint


def seen(step, **options):
    return fingerprint(mdp(step, **({"operator": sc.Max()} | options)))


def holding(value):
    """A step whose only data is ``value``."""

    def step(state, action, rng):
        return value, state

    return step


# --- the five forms of issue 15's measurement ---------------------------------

PRICE = 0.5


def constant_step(state, action, rng):
    return PRICE * rng.random(), state


def other_helper(x):
    return x * 0.25


class Simulator:
    def __init__(self, price):
        self.price = price

    def step(self, state, action, rng):
        return self.price * rng.random(), state

    def __call__(self, state, action, rng):
        return self.step(state, action, rng)


@pytest.mark.parametrize("form", [lambda s: s, lambda s: s.step, lambda s: s.__call__])
def test_a_field_of_an_object(form):
    before = seen(form(Simulator(0.5)))
    found = seen(form(Simulator(0.75))).changes(before.parts)
    assert found == ("step: the field price",)


@pytest.mark.parametrize("array_, index", [("prob", 1), ("reward", 3), ("legal", 1)])
def test_a_table(array_, index):
    P = np.array([[[0.5, 0.5], [0.25, 0.75]], [[1.0, 0.0], [0.5, 0.5]]])
    legal = np.array([[True, False], [True, True]])
    problem = sc.tabular(
        P, [[0.0, 1.0], [0.5, 0.25]], legal=legal, discount=0.5, operator=sc.Max()
    )
    before = fingerprint(problem)
    getattr(problem.tables, array_).reshape(-1)[index] += 1
    found = fingerprint(problem).changes(before.parts)
    assert found[0] == f"tables: the field {array_}"


# --- values -------------------------------------------------------------------


class Thing:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class Named(str):
    pass


Pair = collections.namedtuple("Pair", "a b")
Other = collections.namedtuple("Other", "a b")
NAN = np.array([0x7FF8000000000001], dtype=np.uint64).view(float)[0].item()

DIFFERENT = [
    1, 1.0, True, "1", b"1", 1 + 0j, None, (1,), [1], {1}, frozenset({1}), {1: 1},
    0.0, -0.0, float("nan"), NAN, 10**40, -(10**40), "", (), [], {}, set(), ((),),
    ("ab", "c"), ("a", "bc"), ("abc",), (("a",), "bc"), ["a", ["b"]], [["a"], "b"],
    {"a": 1, "b": 2}, {"b": 2, "a": 1}, {1: "a", 2: "b"}, [1, 2, 3], [1, 3, 2],
    range(3), range(4), slice(1), Ellipsis, bytearray(b"1"), memoryview(b"1"),
    list(range(20)), [float(i) for i in range(20)], tuple(range(20)),
    [str(i) for i in range(20)], ["x" * i for i in range(20)], [2**70] * 20,
    array("d", [1.0]), array("f", [1.0]), Decimal("1"), Decimal("1.0"),
    np.zeros(3), np.zeros(3, dtype="f4"), np.zeros((3, 1)), np.zeros((1, 3)),
    np.array([0.0, 0.0, -0.0]), np.array([None, 1]), np.array([None, 2]),
    np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
    np.array([(1, 2.5)], dtype=[("a", "i4"), ("b", "f8")]),
    *(np.array(["a", x], dtype="T") for x in "bc" if hasattr(np.dtypes, "StringDType")),
    np.array(["a", "b"]),
    np.float64(1.0), np.float32(1.0), np.int64(1), np.array(1.0), np.bool_(True),
    np.ma.masked_array([1.0, 2.0], [True, False]), np.ma.masked_array([1.0, 2.0]),
    np.arange(6).reshape(2, 3), np.arange(6).reshape(2, 3).T, np.dtype("f8"),
    Thing(a=1), Thing(b=1), Thing(a=2), Thing(), Named("1"), Pair(1, 2), Other(1, 2),
    types.SimpleNamespace(a=1), types.MappingProxyType({"a": 1}),
    collections.OrderedDict(a=1), collections.defaultdict(int, a=1),
    collections.defaultdict(float, a=1), collections.Counter("a"),
    collections.deque([1]), collections.deque([1], maxlen=3),
    functools.partial(max, 1), functools.partial(max, 2), functools.partial(min, 1),
    functools.partial(max, key=abs), abs, len, str.upper, str.lower, np.sin, np.cos,
    np.mean, int, float, Thing, Simulator(1), Simulator(2), Simulator(1).step,
    operator.itemgetter(1), operator.itemgetter(2), operator.attrgetter("a"),
]  # fmt: skip


def test_values_that_differ_have_digests_that_differ():
    found = {}
    for i, value in enumerate(DIFFERENT):
        digest = seen(holding(value)).digest
        assert digest not in found, (value, DIFFERENT[found[digest]])
        found[digest] = i


def test_copies_have_one_digest():
    """Equal contents in other objects, and one object twice, are the same."""
    pairs = [
        ([1, [2]], [1, [2]]),
        ({"a": [1.5]}, {"a": [1.5]}),
        ({"x", "y", "z", 1, (2, "q")}, {1, "z", (2, "q"), "y", "x"}),
        (np.arange(6.0).reshape(2, 3).T, np.arange(6.0).reshape(2, 3).T.copy()),
        (Thing(a=1, b=2), Thing(b=2, a=1)),
        ([shared := [1], shared], [[1], [1]]),
    ]
    for one, other in pairs:
        assert seen(holding(one)).digest == seen(holding(other)).digest, one


def test_cycles_depth_and_length_end():
    loop = [1]
    loop.append(loop)
    other = [2]
    other.append(other)
    assert seen(holding(loop)).digest != seen(holding(other)).digest
    thing = Thing(a=1)
    thing.me = {"again": [thing]}
    assert seen(holding(thing)).unseen == ()

    def chain(length, last):
        node = Thing(value=last)
        for _ in range(length):
            node = Thing(next=node)
        return node

    deep = [seen(holding(chain(2000, last))) for last in (1, 1, 2)]
    assert deep[0].digest == deep[1].digest != deep[2].digest
    assert deep[0].unseen == ()
    long = [float(i) for i in range(300_000)]
    before = seen(holding(long)).digest
    long[123_456] = -1.0
    assert seen(holding(long)).digest != before


# --- functions in other clothes -----------------------------------------------


def compiled_inside(numba, amount):
    inner = numba.njit(lambda x: x * amount)

    @numba.njit
    def step(state, action, rng):
        return inner(rng.random()), state

    return step


def decorated(amount):
    inner = holding(amount)
    return functools.wraps(inner)(lambda *arguments: inner(*arguments))


@pytest.mark.compiles
def test_wrapped_functions_are_read():
    numba = pytest.importorskip("numba")
    forms = {
        "njit": lambda x: compiled_inside(numba, x),
        "ufunc": lambda x: holding(numba.vectorize(lambda y: x * y)),
        "callback": lambda x: holding(numba.cfunc("f8(f8)")(lambda y: x * y)),
        "fast": lambda x: numba.njit(holding(0.5), fastmath=x > 0.5),
        "cached": lambda x: holding(functools.lru_cache(lambda y: x * y)),
        "batched": lambda x: sc.batched(holding(x)),
        "partial": lambda x: functools.partial(lambda a, s, b, rng: (a, s), x),
        "decorated": decorated,
    }
    for name, form in forms.items():
        one, same, other = (seen(form(amount)) for amount in (0.5, 0.5, 0.75))
        assert one.parts == same.parts, name
        assert one.digest != other.digest, name
        assert one.unseen == (), name


def test_attacks_on_methods_and_names(monkeypatch):
    """Patches of libraries, builtins and subclasses are seen."""

    class Child(Simulator):
        def step(self, state, action, rng):
            return 0.0, state

    assert seen(Child(0.5)).digest != seen(Simulator(0.5)).digest

    import statistics

    def step(state, action, rng):
        return min(statistics.fmean([1.0]), 0.5), state

    before = seen(step).digest
    monkeypatch.setattr(statistics, "fmean", lambda values: 0.25)
    middle = seen(step).digest
    monkeypatch.setitem(globals(), "min", lambda *values: 0.125)
    assert len({before, middle, seen(step).digest}) == 3

    counter = collections.Counter("a")
    before = seen(holding(counter)).digest
    monkeypatch.setattr(collections.Counter, "total", lambda self: 7, raising=False)
    assert seen(holding(counter)).digest != before


# --- what is not run ----------------------------------------------------------


class Trap:
    """Runs nothing unless somebody asks it something."""

    def __init__(self):
        object.__setattr__(self, "value", 1)

    def _trapped(self, *arguments, **options):
        raise SystemExit("the user's code was run")

    __getattr__ = __getattribute__ = __setattr__ = __call__ = _trapped
    __eq__ = __len__ = __iter__ = __bool__ = __repr__ = __str__ = _trapped
    __getstate__ = __reduce__ = __reduce_ex__ = __sizeof__ = __dir__ = _trapped
    __instancecheck__ = __contains__ = __getitem__ = __array__ = __index__ = _trapped
    __float__ = __int__ = __copy__ = __deepcopy__ = __format__ = _trapped
    prop = property(_trapped)

    def __hash__(self):
        return 3


class TrapList(list):
    __iter__ = __len__ = __getitem__ = __repr__ = __eq__ = Trap._trapped


class TrapDict(dict):
    __iter__ = __len__ = __getitem__ = items = keys = values = Trap._trapped


def test_no_code_of_the_user_is_run():
    def step(state, action, rng):
        raise SystemExit("the step was run")

    trap = Trap()
    values = [trap, {trap}, [trap], {"a": trap}, TrapList([1]), TrapDict(a=1)]
    for value in values:
        step.held = value
        assert seen(step).unseen == (), value
    one, other = (seen(holding(TrapList([x]))).digest for x in (1, 2))
    assert one != other


class Liar:
    __slots__ = ("a",)
    __module__ = 7
    __mro__ = ()


class Strange(type):
    def __getattribute__(cls, name):
        raise RuntimeError(name)


def test_nothing_makes_it_raise():
    nothing = types.FunctionType(
        holding(1).__code__, {}, "f", None, (types.CellType(),)
    )
    module = types.ModuleType("nobody")
    module.__spec__ = module.__file__ = 3
    odd = [
        Liar(), Strange("S", (), {}), Strange("S", (), {})(), mock.Mock(), mock.MagicMock(),
        threading.Lock(), object(), nothing, module, iter([1]), (i for i in ()), sys,
        dict(list(sys.modules.items())[:60]), type, object, super(Simulator, Simulator(1)),
        np.random.default_rng(0), random.Random(1), open(__file__), "\ud800", sc,  # noqa: SIM115
        memoryview(bytearray(8))[::2], np.array(["a", "\ud800"]), ValueError("x"),
        np.zeros((0, 3)), np.array([], dtype=object), np.datetime64("2020-01-01"),
    ]  # fmt: skip
    for value in odd:
        assert len(seen(holding(value)).digest) == 32


# --- what cannot be seen ------------------------------------------------------

COUNT = 0
MEMO = {}
RNG = np.random.default_rng(0)
SIMULATOR = Simulator(0.5)
SIMULATOR.state = 0


class Walker:
    """Keeps its position, a count and a memo, all changed by its steps."""

    def __init__(self, speed):
        self.speed, self.position, self.calls, self.memo = speed, 0, 0, {}
        self.inner = Thing(speed=speed, place=0)
        self.build()

    def step(self, state, action, rng):
        self.put(state)
        self.calls += 1
        self.memo[state] = self.speed
        self.inner.place = state
        return 0.5, state

    def put(self, state):
        self.position = state

    def build(self):
        self.prices = {"a": 1.0}
        self.prices.update(b=self.speed)

    def set_speed(self, speed):
        self.speed = speed


def counting(state, action, rng):
    global COUNT
    COUNT += 1
    return 0.5, state


def remembering(state, action, rng):
    MEMO[state] = MEMO.get(state, 0) + PRICE
    return 0.5, state


def setting(state, action, rng):
    SIMULATOR.state = state
    return SIMULATOR.price, state


def put(simulator, state):
    simulator.state = state


def setting_by_helper(state, action, rng):
    put(SIMULATOR, state)
    return SIMULATOR.price, state


def of_function(state, action, rng):
    of_function.calls += 1
    return 0.5, state


of_function.calls = 0


def defaulting(state, action, rng, memo={}):  # noqa: B006
    memo[state] = 1
    return 0.5, state


def closed():
    count, held = 0, [0]

    def step(state, action, rng):
        nonlocal count
        count += 1
        held[0] += 1
        return 0.5, state

    return step


@pytest.mark.parametrize(
    "step, name",
    [
        (counting, "the global COUNT, which step changes"),
        (remembering, "the global MEMO, which step changes"),
        (setting, "the field state of Simulator, which steps change"),
        (setting_by_helper, "the field state of Simulator, which steps change"),
        (closed(), "the closure variable held, which step changes"),
        (closed(), "the closure variable count, which step changes"),
        (Walker(1.0).step, "the field position of Walker, which steps change"),
        (Walker(1.0).step, "the field memo of Walker, which steps change"),
        (Walker(1.0).step, "the field place of Thing, which steps change"),
        (defaulting, "the default of memo in defaulting, which step changes"),
        (of_function, "of_function.calls, which step changes"),
    ],
)
def test_data_that_the_code_changes_is_named_and_not_compared(step, name):
    before = seen(step)
    for state in range(3):
        step(state, 0, None)
    after = seen(step)
    assert after.parts == before.parts
    assert name in before.unseen


def test_data_beside_it_is_still_compared():
    before, after = seen(Walker(1.0).step), seen(Walker(2.0).step)
    assert "step: the field speed" in after.changes(before.parts)
    assert "step: the field speed of inner" in after.changes(before.parts)
    # set by a method that only the constructor calls
    assert "step: the field prices" in after.changes(before.parts)


def reading(state, action, rng):
    with open("prices.txt") as file:
        return float(file.read()), state


def evaluating(state, action, rng):
    return eval("PRICE"), globals()["PRICE"]


def clocked(state, action, rng):
    import time
    from os import environ

    return time.time(), environ


def sampling(state, action, rng):
    return RNG.random() + np.random.rand() + random.random(), state  # noqa: NPY002


def hashing(state, action, rng):
    return hash(state) + id(state), np.load("x.npy")


@pytest.mark.parametrize(
    "step, phrases",
    [
        (reading, ["files that are opened (step)"]),
        (evaluating, ["code that eval runs (step)", "looked up in globals() (step)"]),
        (clocked, ["what time.time returns (step)", "what os.environ returns (step)"]),
        (sampling, ["random numbers of a Generator", "numbers of a RandomState"]),
        (sampling, ["the random numbers of a Random (step)"]),
        (hashing, ["hash(), which differs", "id(), which", "what numpy.load returns"]),
        (holding(threading.local()), ["a _thread._local (step: the closure variable value)"]),
        (holding(importlib.import_module), ["what importlib.import_module returns"]),
        (holding({"a", "b"}), ["the order of a set (step: the closure variable value)"]),
        (holding(os.environ), ["the environment of the process"]),
        (holding(open), []),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_named(step, phrases):
    found = seen(step)
    for phrase in phrases:
        assert any(phrase in each for each in found.unseen), found.unseen


NUMBERS = {1, 2, (3, 4.5)}


def test_an_ordinary_problem_has_nothing_unseen():
    def step(state, action, rng):
        if state in {"here", "there"} or state in NUMBERS:
            return 0.0, state
        return np.clip(rng.normal() * PRICE, 0.0, 1.0), state

    found = seen(step)
    assert found.unseen == ()
    assert {"the version of numpy", "the version of python"} <= set(found.parts)


def test_a_version_is_a_part(monkeypatch):
    from smoothcruiser.problem.fingerprint import walk

    def step(state, action, rng):
        return np.tanh(0.5), state

    before = seen(step)
    monkeypatch.setattr(walk, "version_of", lambda name: "99.0")
    assert "the version of numpy" in seen(step).changes(before.parts)


@pytest.mark.parametrize("local", [True, False])
def test_a_package_from_a_folder_is_read_and_one_from_an_index_is_not(
    local, tmp_path, monkeypatch
):
    name = f"shop_package_{local}".lower()
    folder = tmp_path / "site-packages"
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    (folder / f"{name}.py").write_text("def price(x):\n    return x * 0.5\n")
    if local:
        (info / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {}}')
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module(name)

    def step(state, action, rng):
        return module.price(1.0), state

    before = seen(step)
    assert (f"the version of {name}" in before.parts) is not local
    file = module.price.__code__.co_filename  # as if the package itself had changed
    code = other_helper.__code__.replace(co_filename=file)
    monkeypatch.setattr(module.price, "__code__", code)
    assert (seen(step).digest != before.digest) is local


def test_a_state_that_changes_itself_is_compared_as_an_initial_state():
    class Position:
        def __init__(self, x):
            self.x = x

        def move(self):
            self.x += 1

    def step(state, action, rng):
        after = Position(state.x)
        after.move()
        return 0.5, after

    one, other = (seen(step, initial_state=Position(x)) for x in (0, 1))
    assert other.changes(one.parts) == ("initial_state: the field x",)


# --- modules that are imported when the step runs -----------------------------


def test_lazy_imports_are_read_before_and_after_they_are_loaded(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "prices.py").write_text("from . import rates\nPRICE = rates.RATE\n")
    (package / "rates.py").write_text("RATE = 0.5\n")

    def step(state, action, rng):
        from lazy_package import prices

        return prices.PRICE, state

    before = seen(step)
    assert "lazy_package" not in sys.modules
    step(0, 0, None)
    assert "lazy_package.rates" in sys.modules
    assert seen(step) == before
    assert before.unseen == ()
    (package / "rates.py").write_text("RATE = 0.75  # edited\n")
    after = seen(step)
    assert after.changes(before.parts) == ("step: the module lazy_package.rates",)
    for name in [name for name in sys.modules if name.startswith("lazy_package")]:
        monkeypatch.delitem(sys.modules, name)

    def lost(state, action, rng):
        import there_is_no_such_module as nothing

        return nothing.PRICE, state

    assert seen(lost).unseen == (
        "the module there_is_no_such_module, which step imports",
    )


# --- fields of the problem ----------------------------------------------------


def test_a_users_operator_is_read():
    def value(q):
        return max(q)

    def made(share):
        return sc.CustomOperator(value, lambda q: [share for _ in q], 1.0)

    one, same, other = (
        seen(constant_step, operator=made(share)) for share in (1.0, 1.0, 0.5)
    )
    assert one == same
    assert other.changes(one.parts) == ("operator: the closure variable share",)
