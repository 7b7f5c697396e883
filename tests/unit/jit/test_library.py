"""Forms of a kernel: interpreted, compiled, from a wheel's library; and functions by address."""

from __future__ import annotations

import json
import math
import shutil
import struct
import subprocess
from pathlib import Path

import build_library
import numba
import numpy as np
import pytest
from numba import njit

import smoothcruiser as sc
from smoothcruiser.engines.compiled import kernel
from smoothcruiser.exact import model
from smoothcruiser.jit import build as jit
from smoothcruiser.jit import library
from smoothcruiser.jit.build import compile_function, is_compiled, source_fingerprint
from smoothcruiser.jit.random.streams import stream
from smoothcruiser.operators import dispatch as operators

pytestmark = pytest.mark.compiles


needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no cc"
)
KERNELS = """
void sum_row(const long long *block, long long *results) {
    const double *row = (const double *)block[0];
    double total = 0.0;
    for (long long i = 0; i < block[1]; i++) total += row[i];
    ((double *)results)[1] = total;
    results[2] = block[2] == 1;
    results[0] = 1;
}
void no_end(const long long *block, long long *results) {}
"""
TABLE = [("sum", "([<f8:1:w](b))", "(fb)", "sum_row"), ("fails", "()", "i", "no_end")]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    """Each test reads the library that it names, and leaves none."""
    monkeypatch.setenv(library.VARIABLE, "0")
    library.load_library.cache_clear()
    yield
    library.load_library.cache_clear()


def use(path, monkeypatch):
    monkeypatch.setenv(library.VARIABLE, str(path))
    library.load_library.cache_clear()
    return library.load_library()


def name_file(path):
    """The file under the name that a library of these contents has."""
    digest = library.file_digest(path.read_bytes())
    return path.rename(path.with_name(f"machines-{digest}.so"))


def link(folder, table=TABLE):
    source = folder / "kernels.c"
    text = json.dumps(json.dumps(table))
    source.write_text(f"{KERNELS}const char {library.TABLE}[] = {text};\n")
    command = ["cc", "-shared", "-fPIC", "-o", folder / "kernels.so", source]
    subprocess.run([str(word) for word in command], check=True)
    return name_file(folder / "kernels.so")


@numba.njit
def fail_seldom(state, action, rng):
    reward = rng.random()
    if reward < 0.002:
        raise ValueError("so small")
    return reward, (state + 1) % 5


def refuse():
    raise AssertionError("the library has it, and Numba compiles nothing")


@needs_compiler
def test_a_schedule_over_a_table_has_the_bits_of_numbas_form(tmp_path, monkeypatch):
    problem = sc.make("garnet:states=5,actions=2", discount=0.3, temperature=1.0)

    def plan():
        promise = {"epsilon": "30%", "delta": 0.1, "seed": 3}
        answer = sc.plan(
            problem, method="smoothcruiser", executor="compiled", **promise
        )
        return answer.value, answer.q_values, answer.interval, answer.num_calls

    expected = plan()
    (machine,) = (
        x for x in library.list_machines() if x.name.endswith("operator_plain")
    )
    kernels = [
        (machine.name, machine.compiled, s) for s in machine.compiled.signatures
    ]
    path = build_library.build(tmp_path, kernels)
    assert len(use(path, monkeypatch)) == len(kernels) > 0
    num_calls = machine.num_calls
    assert plan() == expected
    assert machine.num_calls > num_calls


@needs_compiler
def test_a_kernel_gets_words_and_returns_words(tmp_path, monkeypatch):
    use(link(tmp_path), monkeypatch)
    machine = library.LibraryMachine("sum", refuse)
    assert machine(np.array([1.0, 2.0, 0.25]), (True,)) == (3.25, True)
    assert machine(np.zeros(0), (False,)) == (0.0, False)
    assert machine.num_calls == 2


@needs_compiler
@pytest.mark.parametrize(
    "arguments",
    [
        (np.array([1, 2]), (True,)),
        (np.array([[1.0]]), (True,)),
        (np.array([1.0, 2.0, 3.0])[::2], (True,)),
        (np.array([1.0]), (1,)),
        (np.array([1.0]), True),
        (np.array([1.0]), ("1",)),
        (np.array([1.0]),),
    ],
)
def test_arguments_of_another_form_go_to_numba(tmp_path, monkeypatch, arguments):
    use(link(tmp_path), monkeypatch)
    machine = library.LibraryMachine("sum", lambda: lambda *arguments: "compiled")
    assert machine(*arguments) == "compiled"
    assert machine.num_calls == 0


def test_forms_of_arguments():
    rng, row = stream(0), np.zeros((2, 3), np.int64)
    row_words = [row.ctypes.data, 2, 3]
    assert library.pack((1, True, 0.5, rng)) == ("(ibfs)", [1, 1, 0.5, rng.address])
    assert library.pack((row, ())) == ("([<i8:2:w]())", row_words)
    assert library.pack(np.uint64(2**64 - 1)) == ("u", [-1])
    row.flags.writeable = False
    for value in (None, 2**63, np.int32(1), row, row.astype(">i8")):
        assert library.pack(value)[0] not in ("i", "[<i8:2:w]")


@needs_compiler
def test_a_kernel_that_does_not_come_to_its_end_is_an_error(tmp_path, monkeypatch):
    use(link(tmp_path), monkeypatch)
    with pytest.raises(RuntimeError, match="fails did not come to its end"):
        library.LibraryMachine("fails", refuse)()


def test_an_error_in_a_users_step_is_told_as_numbas_form_tells_it(monkeypatch):
    """The library's kernels only say that they did not come to their end."""
    problem = sc.MDP(
        fail_seldom,
        num_actions=2,
        discount=0.5,
        operator=sc.Entropy(1.0),
        initial_state=0,
    )

    def plan():
        with pytest.raises(sc.OracleError) as error:
            sc.plan(problem, method="certified", epsilon="10%", delta=0.1)
        return str(error.value)

    expected, run = plan(), library.LibraryMachine.__call__

    def run_library(machine, *arguments):
        try:
            return run(machine, *arguments)
        except ValueError as error:
            raise library.UnfinishedKernel(machine.name) from error

    monkeypatch.setattr(library.LibraryMachine, "__call__", run_library)
    assert plan() == expected
    assert "so small" in expected


@needs_compiler
def test_a_kernel_that_raises_ends_without_python(tmp_path, monkeypatch):
    """Its stubs stand for Python's functions, which would end the process."""

    @numba.njit
    def divide(x):
        if x == 0:
            raise ValueError("zero")
        return 1.0 / x

    divide.compile((numba.int64,))
    signature = divide.signatures[0]
    use(build_library.build(tmp_path, [("divide", divide, signature)]), monkeypatch)
    machine = library.LibraryMachine("divide", refuse)
    assert machine(4) == 0.25
    with pytest.raises(library.UnfinishedKernel, match="divide"):
        machine(0)


@needs_compiler
@pytest.mark.parametrize(
    "fault", ["damaged", "truncated", "symbol", "table", "missing"]
)
def test_a_library_that_does_not_fit_is_not_loaded(tmp_path, monkeypatch, fault):
    missing = [("sum", "()", "", "no_such_symbol")]
    path = link(tmp_path, missing if fault == "symbol" else TABLE)
    if fault == "damaged":
        contents = bytearray(path.read_bytes())
        contents[len(contents) // 2] ^= 1
        path.write_bytes(contents)
    elif fault == "truncated":
        path.write_bytes(path.read_bytes()[:-1])
    elif fault == "table":
        path.write_bytes(path.read_bytes().replace(b'[["sum', b'[["su"'))
        path = name_file(path)
    elif fault == "missing":
        path.unlink()
    assert use(path, monkeypatch) == {}
    assert (
        library.LibraryMachine("sum", lambda: lambda *words: "compiled")(1)
        == "compiled"
    )


def test_a_file_of_another_platform_is_not_loaded(tmp_path, monkeypatch):
    (tmp_path / "other").write_bytes(b"MZ\x90\x00" + bytes(1000))
    assert use(name_file(tmp_path / "other"), monkeypatch) == {}


# --- compiled functions -------------------------------------------------------


def test_the_same_function_is_built_once():
    first = compile_function(operators.entropy_value)
    assert compile_function(operators.entropy_value) is first
    assert compile_function(first) is first
    assert is_compiled(first)
    assert not any(map(is_compiled, (math.sqrt, operators.entropy_value, None)))


@njit
def seven(data, state, action, rng):
    return 7.0, False


@njit
def eight(data, state, action, rng):
    return 8.0, False


def test_a_replacement_reaches_inner_calls_and_is_not_confused_with_another():
    """``leaf_total`` calls LEAF: each replacement gets its own machine, and
    neither is cached on disk.
    """
    from smoothcruiser.jit.random.streams import stream

    flag = np.zeros(1, np.int64)
    for step, reward in ((seven, 7.0), (eight, 8.0), (seven, 7.0)):
        leaf = compile_function(kernel.leaf_total, LEAF=step)
        total, status = leaf((), 0, 0, 3, 0.5, 0.0, 10.0, stream(0), flag.ctypes.data)
        assert (total, status) == (3 * (reward + 0.5), kernel.DONE)
        assert leaf.stats.cache_path is None
    assert compile_function(kernel.leaf_total, LEAF=seven) is leaf


def test_a_fingerprint_follows_the_sources_of_a_function(monkeypatch):
    """An edit of a file that a function is made of changes its name in the
    cache; of another file, it does not.
    """

    def prints():
        functions = operators.entropy_value, kernel.run_shard
        return [source_fingerprint.__wrapped__(function) for function in functions]

    before = prints()
    assert before[0] != before[1]
    original = jit._digest

    def edited(path):
        return b"edited" if path.name == "kernel.py" else original(path)

    monkeypatch.setattr(jit, "_digest", edited)
    after = prints()
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_every_compiled_module_the_kernel_reaches_is_in_its_fingerprint():
    """What the kernel reaches only through intrinsics or methods has to be
    named in ``jit._SHARED``.
    """
    root = Path(jit.__file__).parent.parent
    reached = (f.__code__.co_filename for f in jit._reachable(kernel.run_shard))
    covered = {Path(name).resolve() for name in reached}
    covered |= {root / name for name in jit._SHARED}
    random = ("stream_type", "distributions", "collection_samplers")
    names = {f"jit/random/{name}.py" for name in random} | {"jit/memory.py"}
    names |= {"engines/compiled/kernel.py", "operators/dispatch.py"}
    assert {root / name for name in names | {"operators/entropy.py"}} <= covered


# --- the choice of a form -----------------------------------------------------


@numba.njit
def middle_value(q):
    return q.mean()


@numba.njit
def middle_weights(q):
    return np.full(len(q), 1.0 / len(q))


def test_a_users_operator_never_stands_in_for_ours(monkeypatch):
    """Exact values of our entropy are the same after a solution by an operator of the
    user's, whose compiled functions take places in the same kernels.
    """
    ours = sc.make("garnet:states=6,actions=3", discount=0.5, temperature=0.4)
    mean = sc.CustomOperator(middle_value, middle_weights, 0.0, sums_to_one=True)
    own = sc.make("garnet:states=6,actions=3", discount=0.5, operator=mean)
    with model.EXACT.use_form(compiled=False):
        expected = sc.solve(ours).values
    monkeypatch.setattr(library, "_machines", {})
    model._built_in_kernels.cache_clear()
    with model.EXACT.use_form(compiled=True):
        assert np.all(sc.solve(own).values < expected)
        np.testing.assert_array_equal(sc.solve(ours).values, expected)


# --- functions of the C library -----------------------------------------------


NUMBERS = [0.0, -0.0, 1e-320, 0.3, 1.0, 2.5, 709.7, 710.0, 1e308, math.inf]


def bits(x: float) -> bytes:
    return b"nan" if math.isnan(x) else struct.pack("d", x)


def test_exp_and_log_of_compiled_code_have_the_bits_of_the_math_module() -> None:
    @njit
    def both(x):
        return math.exp(x), math.log(x)

    points = [*NUMBERS, *np.random.default_rng(0).uniform(1e-3, 50.0, 2000)]
    for x in [*points, *(-x for x in points), math.nan]:
        e, log = both(x)
        assert bits(e) == bits(math.exp(x) if not x >= 710.0 else math.inf)
        if x > 0.0:
            assert bits(log) == bits(math.log(x))
        else:
            assert log == -math.inf if x == 0.0 else math.isnan(log)
