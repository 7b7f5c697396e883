"""The shared library: the bits of Numba's form, and refused wherever it does not fit."""

import json
import shutil
import subprocess

import build_library
import numba
import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.engines.compiled import kernel
from smoothcruiser.jit import build, library
from smoothcruiser.jit.random.streams import stream

pytestmark = pytest.mark.compiles  # most start a C compiler
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


def test_edited_sources_find_nothing(monkeypatch):
    name = build.name_on_disk(kernel.run_shard, None)
    monkeypatch.setattr(build, "_digest", lambda path: b"edited")
    build.source_fingerprint.cache_clear()
    try:
        assert build.name_on_disk(kernel.run_shard, None) != name
    finally:
        build.source_fingerprint.cache_clear()


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
