"""What stands between the files, measured: one name for one thing, few parameters, tables.

Laws of docs/extending.md and DEVELOPING.md that a linter does not check.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

from benchmarks import house

import smoothcruiser as sc

SOURCE = Path(__file__).parents[2] / "src" / "smoothcruiser"
FILES = sorted(SOURCE.rglob("*.py"))
MOST_PARAMETERS = 8
MOST_FILES, FEWEST_LINES, MOST_LINES = 15, 80, 600
# Words of the surface (a ``Prepared`` runs, ``sc.batched``), and names that several classes
# share with fields of results.
OLD_PARTICIPLES = {
    *("annotated", "asked", "assumed", "batched", "elapsed", "finished", "installed"),
    *(
        "kept",
        "looked",
        "opened",
        "randomized",
        "read",
        "refused",
        "run",
        "seen",
        "set",
    ),
    *("stopped", "unregularized", "widened"),
}
LINE_P90 = 80
# Private members of other libraries, each for want of a public one.
LIBRARY_MEMBERS = {
    "os._exit": "ends a forked worker without the parent's handlers",
    "sys._current_frames": "the stack of a thread that hangs",
    "sys._getframe": "the caller's code, to tell a user's comparison from another",
    "_np_random": "Gymnasium: the generator of a space, shared by its copies",
    "_N": "PettingZoo: the size of a Go board",
    "_varname_from_oparg": "CPython: a local variable's name, in byte code",
    "_cache": "Numba: whether and where a function is cached",
    "_final_module": "Numba: the machine code of a library",
    "_getvalue": "Numba: the structure of an array that is built",
}
MOST_IN_CYCLE = 3
# Who may switch on the members of a closed set: its own table, and engines on kinds.
TABLES = ("engines/", "operators/", "schedule/kinds/")
SWITCH = re.compile(r"\.code ==|== Kind\.|engine\.name ==")


def place(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_no_class_name_means_two_things():
    found: dict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                found[node.name].append(place(path))
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_functions_outside_kernels_have_few_parameters():
    many = []
    for path in FILES:
        if path.stem.endswith("kernel"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
                names += [a.arg for a in node.args.kwonlyargs]
                names = names[1:] if names[:1] in (["self"], ["cls"]) else names
                if len(names) > MOST_PARAMETERS:
                    many.append(f"{place(path)}: {node.name} has {len(names)}")
    assert many == []


def test_nobody_but_the_tables_switches_on_members():
    switches = [
        f"{place(path)}:{number}"
        for path in FILES
        if not place(path).startswith(TABLES)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if SWITCH.search(line)
    ]
    assert switches == []


def test_most_lines_are_short_and_only_kernels_are_laid_out_by_hand():
    lengths = sorted(
        len(line)
        for path in FILES
        for line in path.read_text().splitlines()
        if line.strip()
    )
    assert lengths[int(0.9 * len(lengths))] <= LINE_P90
    by_hand = [
        place(path)
        for path in FILES
        if "# fmt: skip" in path.read_text() and not path.stem.endswith("kernel")
    ]
    assert by_hand == []


def test_a_folder_has_at_most_15_files():
    folders = Counter(path.parent.relative_to(SOURCE).as_posix() for path in FILES)
    assert {name: n for name, n in folders.items() if n > MOST_FILES} == {}


def test_files_outside_kernels_have_80_to_600_lines():
    """Members of a table (``house.TABLES``) and heads of packages may be short."""
    sizes = {path: len(path.read_text().splitlines()) for path in FILES}
    long = {
        place(path): lines
        for path, lines in sizes.items()
        if lines > MOST_LINES and not path.stem.endswith("kernel")
    }
    short = {
        place(path): lines
        for path, lines in sizes.items()
        if lines < FEWEST_LINES
        and not path.stem.startswith("__")
        and not house.TABLES.search(path.parent.relative_to(SOURCE).as_posix())
    }
    assert (long, short) == ({}, {})


def test_a_file_name_means_one_thing():
    stems = Counter(path.stem for path in FILES)
    allowed = {"__init__", "base", "kernel"}
    assert {s: n for s, n in stems.items() if n > 1 and s not in allowed} == {}


def test_a_participle_alone_is_no_name():
    """A function is a verb and its object, a property a noun."""
    named = {
        f"{place(path)}: {function.name}"
        for path in FILES
        for function in house.functions([ast.parse(path.read_text())])
        if house.is_participle(function.name) and not function.name.startswith("__")
    }
    assert sorted(x for x in named if x.split(": ")[1] not in OLD_PARTICIPLES) == []


def private_members(path: Path) -> list[str]:
    """The private members and names that a file takes from outside."""
    tree = ast.parse(path.read_text())
    public = house.NAMED_TUPLE | {name.split(".")[-1] for name in LIBRARY_MEMBERS}
    imports = [
        f"{node.lineno}: {node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    return [
        f"{place(path)}:{text}"
        for text in house.private_reads(tree, public) + imports
        if "super()." not in text  # a class may read those of its bases
    ]


def test_no_class_reads_private_members_of_another():
    """A collaborator has public members; what is private stays in its class."""
    outside = [text for path in FILES for text in private_members(path)]
    assert outside == []


def test_an_import_cycle_has_at_most_3_modules():
    """Imports inside functions and for types count."""
    large = [
        members
        for members in house.cycles(house.import_graph(SOURCE))
        if len(members) > MOST_IN_CYCLE
    ]
    assert large == []


def test_the_map_names_every_room():
    """docs/architecture.md lists the folders; its five files are a short read."""
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rooms = {path.parent.relative_to(SOURCE).as_posix() for path in FILES}
    table = page.split("```")[1]
    missing = {
        room
        for room in rooms - {"."}
        if not room.startswith("adapters/")
        and not re.search(rf"(^|\s){room.split('/')[-1]}(/|\s)", table)
    }
    assert missing == set()
    listed = re.findall(r"^\d\. `([\w/.]+)`", page, re.M)
    sizes = [len((SOURCE / name).read_text().splitlines()) for name in listed]
    assert len(sizes) == 5
    assert sum(sizes) < 1_500


def test_a_plan_enters_the_rooms_in_the_order_of_the_map():
    """First entries of functions, of a plan that samples by the reference engine."""
    page = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    rooms = re.search(r"^\w+ → .*$", page, re.M)[0].split(" → ")
    problem = sc.MDP(
        lambda state, action, rng: (rng.random(), state),
        num_actions=2,
        discount=0.31,
        operator=sc.Max(),
        initial_state=0,
    )
    entered: dict[str, None] = {}

    def enter(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(SOURCE):
            entered.setdefault(path.relative_to(SOURCE).parts[0].removesuffix(".py"))

    request = {"delta": 0.1, "method": "smoothcruiser", "executor": "reference"}
    sc.plan(problem, epsilon="9%", **request)  # modules are imported
    profiler = sys.getprofile()
    sys.setprofile(enter)
    try:
        sc.plan(problem, epsilon="7.3%", **request)
    finally:
        sys.setprofile(profiler)
    assert " → ".join(entered) == " → ".join(rooms)
