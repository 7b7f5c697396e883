"""The shared library of platform wheels, and the hook that puts it into them.

  python build_library.py FOLDER [--only schedule]
  python build_library.py --check

Requests of several kinds run once in this process. Every kernel that they asked for
(``smoothcruiser.jit.library``) is compiled for the processors that all wheels of the
platform share, and linked by ``cc``. Of Numba and llvmlite only public names are used:
``numba.cfunc(...).inspect_llvm()``, and ``parse_assembly``, ``create_target_machine`` and
``emit_object`` of ``llvmlite.binding``.

Kernels in the library return codes, never raise, and never allocate. One that refers to
the allocator is left out, and so is one with an argument that has no form. Functions of
Python and Numba's runtime that only raised exceptions reach are stubs that do nothing:
such a call would not come to its end, and ``jit.library`` says so.

``--check`` runs the requests with the library of the installed package and with
interpreted or compiled kernels: values and calls have to be the same to the last bit.

The hook runs where ``SMOOTHCRUISER_LIBRARY=build`` is set (as cibuildwheel does), with
Numba and a C compiler at hand. Every other build is the pure wheel, and so is an editable
installation.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

VARIABLE = "SMOOTHCRUISER_LIBRARY"
PACKAGE_FOLDER = "smoothcruiser/jit"
SUFFIXES = {"darwin": ".dylib", "win32": ".dll"}
# Functions of Python and of Numba's runtime that raised exceptions reach, or the end of
# memory that Numba counts (kernels get none).
STUBS = re.compile(
    r"_?(Py|_Py)\w+|numba_\w+|NRT_(incref|decref|MemInfo_call_dtor|Free)"
)
ALLOCATORS = re.compile(r"NRT_\w*(alloc|Allocate|new|realloc)\w*", re.IGNORECASE)


# --- requests -------------------------------------------------------------------------


Answer = tuple[str, float, int]  # request, value, calls


def run_schedules() -> Iterator[Answer]:
    """Schedules over tables: plain or not, the inlined operator or any."""
    import smoothcruiser as sc

    for text in ("garnet:states=5,actions=2", "random-game:states=4,actions=2"):
        for operator in (sc.Entropy(1.0), sc.Sparsemax(1.0)):
            problem = sc.make(text, discount=0.3, operator=operator)
            estimate = sc.plan(
                problem,
                epsilon="30%",
                delta=0.1,
                method="smoothcruiser",
                executor="compiled",
            )
            yield f"schedule, {text}", estimate.value, estimate.num_calls


def run_user_steps() -> Iterator[Answer]:
    """Users' compiled steps, called by address: schedules and certified search."""
    import numba

    import smoothcruiser as sc

    @numba.njit
    def step_number(state: int, action: int, rng: Any) -> tuple[float, int]:
        return 0.5 * (state % 2), (state + action + rng.integers(3)) % 5

    @numba.njit
    def step_pair(
        state: tuple[int, int], action: int, rng: Any
    ) -> tuple[float, tuple[int, int]]:
        place = (state[0] + action + rng.integers(3)) % 5
        return 0.5 * (place % 2), (place, 1 - state[1])

    for step, state in ((step_number, 0), (step_pair, (0, 0))):
        for operator in (sc.Entropy(1.0), sc.Sparsemax(1.0)):
            problem = sc.MDP(
                step,
                num_actions=2,
                discount=0.3,
                operator=operator,
                initial_state=state,
            )
            for method in ("smoothcruiser", "certified"):
                estimate = sc.plan(problem, epsilon="30%", delta=0.1, method=method)
                yield f"step, {method}", estimate.value, estimate.num_calls


def run_certified() -> Iterator[Answer]:
    """Certified search over a table and over a plain step."""
    import smoothcruiser as sc

    def step(state: int, action: int, rng: Any) -> tuple[float, int]:
        return 0.5 * (state % 2), (state + action + int(rng.integers(3))) % 5

    entropy = sc.Entropy(0.1)
    table = sc.make("garnet:states=5,actions=2", discount=0.5, operator=entropy)
    simulator = sc.MDP(
        step, num_actions=3, discount=0.5, operator=entropy, initial_state=0
    )
    for name, problem in (("table", table), ("step", simulator)):
        estimate = sc.plan(problem, epsilon="10%", delta=0.1, method="certified")
        yield f"certified, {name}", estimate.value, estimate.num_calls


def run_exact() -> Iterator[Answer]:
    """The exact solver, greedy and not."""
    import smoothcruiser as sc

    for operator in (sc.Max(), sc.Entropy(0.5)):
        problem = sc.make("garnet:states=5,actions=2", discount=0.5, operator=operator)
        estimate = sc.plan(problem, method="exact")
        yield f"exact, {operator}", estimate.value, estimate.num_calls


REQUESTS = {
    "schedule": run_schedules,
    "user": run_user_steps,
    "certified": run_certified,
    "exact": run_exact,
}


def run_requests(names: list[str], *, compiled: bool | None) -> list[Answer]:
    """All answers; ``compiled``: the form of kernels, None for the library's."""
    from smoothcruiser.certified.sampling.step_loops import STEP_LOOPS, TABLE_LOOPS
    from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
    from smoothcruiser.exact.model import EXACT
    from smoothcruiser.problem.model.tabular import ALIAS

    with contextlib.ExitStack() as forms:
        for family in (CERTIFIED, EXACT, ALIAS, STEP_LOOPS, TABLE_LOOPS):
            forms.enter_context(family.use_form(compiled=compiled))
        return [answer for name in names for answer in REQUESTS[name]()]


# --- kernels --------------------------------------------------------------------------


class NoForm(Exception):
    """A type that no argument or result of the library has."""


class BlockReader:
    """The source of expressions that read arguments from a block of words."""

    def __init__(self) -> None:
        self.num_words = 0
        self.scope: dict[str, Any] = {}

    def read(self, kind: Any) -> tuple[str, str]:
        """(form, expression) of the next argument."""
        from numba import types
        from numba.np.numpy_support import as_dtype

        from smoothcruiser.jit.library import array_form
        from smoothcruiser.jit.memory import array_at
        from smoothcruiser.jit.random.stream_type import STREAM

        if isinstance(kind, types.BaseTuple):
            members = [self.read(member) for member in kind]
            expressions = ", ".join(expression for _, expression in members)
            form = f"({''.join(form for form, _ in members)})"
            if isinstance(kind, types.BaseNamedTuple):
                return form, f"{self._name(kind.instance_class)}({expressions})"
            return form, f"({expressions},)" if members else "()"
        if kind == types.int64:
            return "i", self._word("int_at")
        if kind == types.uint64:
            self.scope["uint64"] = types.uint64
            return "u", f"uint64({self._word('int_at')})"
        if kind == types.boolean:
            return "b", f"({self._word('int_at')} != 0)"
        if kind == types.float64:
            return "f", self._word("float_at")
        if kind == STREAM:
            return "s", f"stream_at({self._word('int_at')})"
        is_array = isinstance(kind, types.Array) and kind.layout == "C"
        if is_array and kind.mutable and kind.aligned:
            form = array_form(as_dtype(kind.dtype), kind.ndim)
            address = self._word("int_at")
            lengths = ", ".join(self._word("int_at") for _ in range(kind.ndim))
            return form, f"{self._name(array_at(kind))}({address}, ({lengths},))"
        raise NoForm(str(kind))

    def _word(self, reader: str) -> str:
        self.num_words += 1
        return f"{reader}(block, {self.num_words - 1})"

    def _name(self, value: Any) -> str:
        name = f"part_{len(self.scope)}"
        self.scope[name] = value
        return name


def write_result(kind: Any) -> tuple[str, list[str]]:
    """(form, statements) of a result, after the word that says it is complete."""
    from numba import types

    if kind == types.none:
        return "", []
    members = list(kind) if isinstance(kind, types.BaseTuple) else [kind]
    codes = {types.int64: "i", types.boolean: "b", types.float64: "f"}
    if not all(member in codes for member in members):
        raise NoForm(str(kind))
    form = "".join(codes[member] for member in members)
    if not isinstance(kind, types.BaseTuple):
        form, values = form, ["result"]
    else:
        form, values = f"({form})", [f"result[{i}]" for i in range(len(members))]
    statements = []
    for i, (code, value) in enumerate(zip(form.strip("()"), values, strict=True), 1):
        writer = "put_float" if code == "f" else "put_int"
        statements.append(f"{writer}(results, {i}, {value})")
    return form, statements


def compile_entry(kernel: Any, signature: Any) -> tuple[str, str, str, str]:
    """(form, form of the result, symbol, LLVM's text) of a kernel's entry."""
    import numba
    from numba import types

    from smoothcruiser.jit import memory
    from smoothcruiser.jit.random.stream_type import stream_at

    reader = BlockReader()
    arguments = [reader.read(kind) for kind in signature]
    return_type = kernel.overloads[signature].signature.return_type
    result_form, statements = write_result(return_type)
    body = [
        f"result = kernel({', '.join(expression for _, expression in arguments)})",
        *statements,
        "put_int(results, 0, 1)",
    ]
    scope = reader.scope | {
        "kernel": kernel,
        "stream_at": stream_at,
        **{
            x: getattr(memory, x)
            for x in ("int_at", "float_at", "put_int", "put_float")
        },
    }
    exec("def entry(block, results):\n    " + "\n    ".join(body), scope)
    types_of_entry = types.void(types.int64, types.int64)
    entry = numba.cfunc(types_of_entry, error_model="numpy")(scope["entry"])
    form = f"({''.join(form for form, _ in arguments)})"
    return form, result_form, entry.native_name, entry.inspect_llvm()


def list_kernels() -> Iterator[tuple[str, Any, Any]]:
    """(name, compiled kernel, signature) of all that the requests asked for."""
    from smoothcruiser.jit.library import list_machines

    for machine in list_machines():
        for signature in getattr(machine.compiled, "signatures", ()):
            yield machine.name, machine.compiled, signature


# --- the library ----------------------------------------------------------------------


def build(folder: Path, kernels: Iterable[tuple[str, Any, Any]]) -> Path:
    """The library of kernels (name, compiled form, signature), in ``folder``."""
    from llvmlite import binding

    from smoothcruiser.jit.library import TABLE, file_digest

    binding.initialize_all_asmprinters()
    target_machine = binding.Target.from_default_triple().create_target_machine(
        cpu="x86-64" if binding.get_default_triple().startswith("x86_64") else "",
        opt=3,
        reloc="pic",
        codemodel="small",
    )
    table, objects, stubs = [], [], set()
    with tempfile.TemporaryDirectory() as temporary_folder:
        scratch = Path(temporary_folder)
        for name, kernel, signature in kernels:
            try:
                form, result_form, symbol, text = compile_entry(kernel, signature)
            except NoForm as error:
                print(f"left out, {error} has no form: {name}", file=sys.stderr)
                continue
            module = binding.parse_assembly(text)
            foreign = {x.name for x in module.functions if x.is_declaration}
            foreign |= {x.name for x in module.global_variables if x.is_declaration}
            if any(map(ALLOCATORS.fullmatch, foreign)):
                print(f"left out, it allocates: {name}", file=sys.stderr)
                continue
            stubs |= {x for x in foreign if STUBS.fullmatch(x)}
            number = len(objects)
            text = text.replace(symbol, f"smoothcruiser_kernel_{number}")
            module = binding.parse_assembly(text)
            objects.append(scratch / f"kernel_{number}.o")
            objects[-1].write_bytes(target_machine.emit_object(module))
            table.append((name, form, result_form, f"smoothcruiser_kernel_{number}"))
        source = scratch / "stubs.c"
        # Hidden, or the linker would take Python's own, which need the GIL.
        own = (
            "" if sys.platform == "win32" else '__attribute__((visibility("hidden")))'
        )
        lines = [f"{own} void *{stub}(void) {{ return 0; }}" for stub in sorted(stubs)]
        lines.append(f"const char {TABLE}[] = {json.dumps(json.dumps(table))};")
        source.write_text("\n".join(lines) + "\n")
        library = scratch / "library"
        compiler = os.environ.get("CC", "cc").split()
        text_relocations = ["-Wl,-z,text,-z,defs"] if sys.platform == "linux" else []
        command = [*compiler, "-O2", "-shared", "-fPIC", "-w", *text_relocations]
        command += ["-o", library, source, *objects, "-lm"]
        subprocess.run([str(word) for word in command], check=True)
        contents = library.read_bytes()
        suffix = SUFFIXES.get(sys.platform, ".so")
        path = folder / f"machines-{file_digest(contents)}{suffix}"
        path.write_bytes(contents)
        path.chmod(0o755)
    print(
        f"{path.name}: {len(table)} kernels, {len(contents):,} bytes", file=sys.stderr
    )
    return path


def build_apart(folder: Path) -> Path:
    """``build`` in a process that compiles for all processors and caches nothing."""
    root = Path(__file__).resolve().parent
    with tempfile.TemporaryDirectory() as cache_folder:
        environment = os.environ | {
            "PYTHONPATH": str(root / "src"),
            "NUMBA_CACHE_DIR": cache_folder,
            "NUMBA_CPU_NAME": "generic",
            "NUMBA_CPU_FEATURES": "",
            VARIABLE: "0",
        }
        command = [sys.executable, str(root / "build_library.py"), str(folder)]
        subprocess.run(command, env=environment, check=True)
    (path,) = folder.glob("machines-*")
    return path


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # a process that only builds the library
    BuildHookInterface = object


class LibraryHook(BuildHookInterface):
    """Hatch's hook: a wheel of this platform, for every version of Python."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the library into a wheel, where that was asked for."""
        if version == "editable" or os.environ.get(VARIABLE) != "build":
            return
        self.folder = tempfile.TemporaryDirectory()
        path = build_apart(Path(self.folder.name))
        platform_tag = re.sub(r"\W", "_", sysconfig.get_platform())
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform_tag}"
        build_data["force_include"][str(path)] = f"{PACKAGE_FOLDER}/{path.name}"

    def finalize(
        self, version: str, build_data: dict[str, Any], artifact: str
    ) -> None:
        """Remove the folder of the library."""
        if hasattr(self, "folder"):
            self.folder.cleanup()


def check(requests: list[str]) -> None:
    """Compare the installed library with the other forms; SystemExit if they differ."""
    from smoothcruiser.jit import forms, library

    if not library.load_library():
        raise SystemExit("this package has no library that fits")
    forms.LIBRARY_LOADING = -1.0  # from the first call on
    answers = run_requests(requests, compiled=None)
    num_calls = sum(machine.num_calls for machine in library.list_machines())
    os.environ[VARIABLE] = "0"
    library.load_library.cache_clear()
    others = run_requests(requests, compiled=False)
    num_more = (
        sum(machine.num_calls for machine in library.list_machines()) - num_calls
    )
    for answer, other in zip(answers, others, strict=True):
        if answer != other:
            raise SystemExit(f"the library answers {answer}, other forms {other}")
    if num_calls == 0 or num_more:
        raise SystemExit(f"the library was called {num_calls} and {num_more} times")
    print(f"{len(answers)} answers are the same; {num_calls:,} calls of the library")


def main() -> None:
    """Build or check, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument(
        "--only", nargs="+", choices=list(REQUESTS), default=list(REQUESTS)
    )
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        check(options.only)
    elif options.folder is None:
        parser.error("name a folder, or --check")
    else:
        run_requests(options.only, compiled=True)
        build(options.folder, list_kernels())


if __name__ == "__main__":
    main()
