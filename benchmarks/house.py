"""The house in numbers: files, lines, names, sentences, paths through the code, cycles.

  python -m benchmarks.house [--root FOLDER] [--out FILE --label before] [--files FILE ...]

Every figure is counted from the source by this file, so a change is seen as it is; no
limit stands here. ``--out`` keeps a table with one column per label, goals beside them.

Readings of the measures:
  code line      a line with a token that is neither comment nor docstring
  small file     below 80 lines, and no member of a table (``TABLES``) or ``__init__``
  assigned name  a target of an assignment, loop, ``with`` or ``:=`` inside a function;
                 each function counts a name once
  generic name   one of ``GENERIC``, alone
  participle     a function whose name is one word that ends in -ed, or is irregular
  walk           functions of the package entered by one request, their files, and the
                 changes of folder in the order of first entries; the second call, but
                 the first one for the README's shop
  cycle          a strongly connected set of modules, late and typing imports counted
  one line       the source printed anew, without a limit on the length of a line
  internals      lines that name Numba's core, LLVM, or CPython's private interfaces
  private read   an attribute with a leading underscore of anything but self and cls
                 (``_replace`` and the like of named tuples included)
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GENERIC_WORDS = (
    "found made held kept known asked rest other each given place room told seen shown "
    "drawn taken done named said heard spoken thing things item items what one two all "
    "every some any more most less least first last next own whole part parts way ways "
    "here there it that this these those"
)
PARTICIPLES = (
    "found made held kept known told seen shown drawn taken done said heard spoken given "
    "begun built bound run read sent put set cut met lent spent gone grown thrown"
)
GENERIC = frozenset(GENERIC_WORDS.split())
IRREGULAR = frozenset(PARTICIPLES.split())
# the public interface of named tuples
NAMED_TUPLE = frozenset(("_replace", "_fields", "_asdict", "_make", "_field_defaults"))
TABLES = re.compile(
    r"(operators|schedule/kinds|adapters(/\w+)?|problem/zoo|cli|certified/bounds|"
    r"tree/evaluators|engines/pools|reproduce|plots)$"
)
INTERNALS = re.compile(
    r"numba\.core|numba\.np|numba\._|numba\.extending|llvmlite|from numba import (types|typeof)"
    r"|_dispatcher|\.py_func|\.overloads|\._cache|PyThreadState|pythonapi|sys\._getframe"
    r"|\.co_code|\bdis\.|\bopcode\b"
)
WALKS = {
    "certified, chain of 4": (
        "p = sc.make('chain:n=4', discount=0.5, temperature=1.0)",
        "sc.plan(p, method='certified', epsilon=0.3, delta=0.1)",
        2,
    ),
    "uct, chain of 4": (
        "p = sc.make('chain:n=4', discount=0.5, temperature=1.0)",
        "sc.plan(p, method='uct', budget=200)",
        2,
    ),
    "evaluate, chain of 4": (
        "p = sc.make('chain:n=4', discount=0.5, temperature=1.0); s = sc.solve(p)",
        "sc.evaluate(p, s, budget=500)",
        2,
    ),
    "README's shop, first call": (
        "import importlib.util, re, sys, pathlib\n"
        "text = pathlib.Path('README.md').read_text()\n"
        "code = re.search(r'```python\\n(.*?)```', text, re.S)[1].split('if __name__')[0]\n"
        "space = {'__name__': 'shop'}; exec(compile(code, 'shop', 'exec'), space)\n"
        "p = space['problem']",
        "sc.plan(p, epsilon='5%', delta=0.1)",
        1,
    ),
}
GOALS = {
    "source files": "300",
    "code lines of the source": "52,000",
    "small files": "25",
    "most files in one folder": "15",
    "file names that occur twice": "base, kernel, __init__",
    "generic names, % of assigned": "3",
    "names of two words, %": "at least 25",
    "functions named by a participle, %": "3",
    "what, who, whose per 1,000 words": "3",
    "modules in the largest import cycles": "3",
    "lines of internals": "60 in jit",
    "code lines of the tests": "30,000",
    "test files that import internals": "90",
    "walk: certified, chain of 4": "200 / 30 / 30",
    "walk: uct, chain of 4": "150 / 25 / 30",
    "walk: README's shop, first call": "600 / 70 / -",
}


def code_lines(path: Path) -> int:
    """Lines with code: neither blank, comment nor docstring."""
    text = path.read_text("utf-8")
    strings = set()
    for node in ast.walk(ast.parse(text)):
        constant = node.value if isinstance(node, ast.Expr) else None
        if isinstance(constant, ast.Constant) and isinstance(constant.value, str):
            strings.update(range(node.lineno, (node.end_lineno or 0) + 1))
    lines: set[int] = set()
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT)
    skipped = (*skipped, tokenize.DEDENT, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - strings)


def statement_lines(path: Path) -> int:
    """Lines with code if every statement stood in one line, however long.

    No line width and no formatter can go below: only less code can.
    """
    tree = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            is_text = [
                isinstance(line, ast.Expr)
                and isinstance(line.value, ast.Constant)
                and isinstance(line.value.value, str)
                for line in body
            ]
            code = [line for line, text in zip(body, is_text, strict=True) if not text]
            node.body = code or [ast.Pass()]  # type: ignore[attr-defined]
    return sum(bool(line.strip()) for line in ast.unparse(tree).splitlines())


def functions(trees: list[ast.Module]) -> Iterator[Any]:
    """Every function and method."""
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node


def assigned_names(function: ast.AST) -> set[str]:
    """Names that a function binds, without its arguments."""
    return {
        node.id
        for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def is_participle(name: str) -> bool:
    """Whether a name is one participle and nothing else."""
    word = name.strip("_")
    return "_" not in word and (word in IRREGULAR or word.endswith("ed"))


def name_figures(trees: list[ast.Module]) -> dict[str, str]:
    """Shares of generic names, of names of two words, of participles."""
    names: Counter[str] = Counter()
    titles = []
    for function in functions(trees):
        names.update(assigned_names(function))
        titles.append(function.name)
    total = sum(names.values())
    generic = sum(n for name, n in names.items() if name.strip("_") in GENERIC)
    double = sum(n for name, n in names.items() if "_" in name.strip("_"))
    plain = [t for t in titles if not t.startswith("__")]
    common = ", ".join(f"{a} {n}" for a, n in names.most_common() if a in GENERIC)
    return {
        "generic names, % of assigned": f"{100 * generic / total:.1f}",
        "the most frequent of them": common[:60],
        "names of two words, %": f"{100 * double / total:.1f}",
        "functions named by a participle, %": (
            f"{100 * sum(map(is_participle, plain)) / len(plain):.1f}"
        ),
    }


def sentence_figures(trees: list[ast.Module]) -> dict[str, str]:
    """Words that avoid the noun, in docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    words: list[str] = []
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, documented):
                words += re.findall(r"[A-Za-z']+", ast.get_docstring(node) or "")
    avoiding = sum(word.lower() in ("what", "who", "whose") for word in words)
    return {
        "what, who, whose per 1,000 words": f"{1000 * avoiding / len(words):.1f}",
        "words of docstrings": f"{len(words):,}",
    }


def private_reads(tree: ast.Module, public: frozenset[str] = frozenset()) -> list[str]:
    """Attributes with a leading underscore that are read from another object."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr.startswith("_")
        and not node.attr.startswith("__")
        and node.attr not in public
        and not (isinstance(node.value, ast.Name) and node.value.id in ("self", "cls"))
    ]


def imports_of(tree: ast.Module, module: str, known: set[str]) -> set[str]:
    """Modules of the package that a module imports, anywhere in its text."""
    targets: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                targets.add(inner if inner in known else node.module)
    return {t for t in targets if t in known and t != module}


def cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected sets of more than one module, largest first."""
    order: list[str] = []
    seen: set[str] = set()
    for root in graph:
        stack = [(root, iter(graph[root]))] if root not in seen else []
        seen.add(root)
        while stack:
            node, targets = stack[-1]
            target = next((t for t in targets if t not in seen), None)
            if target is None:
                order.append(node)
                stack.pop()
            else:
                seen.add(target)
                stack.append((target, iter(graph[target])))
    reverse: dict[str, set[str]] = defaultdict(set)
    for node, targets in graph.items():
        for target in targets:
            reverse[target].add(node)
    components: list[list[str]] = []
    placed: set[str] = set()
    for root in reversed(order):
        members: list[str] = []
        queue = [root] if root not in placed else []
        placed.update(queue)
        while queue:
            members.append(queue.pop())
            for node in reverse[members[-1]] - placed:
                placed.add(node)
                queue.append(node)
        components.append(sorted(members))
    return sorted((c for c in components if len(c) > 1), key=len, reverse=True)


def import_graph(source: Path) -> dict[str, set[str]]:
    """The modules below a package's folder, each with those that it imports."""
    modules = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        module = ".".join(part for part in parts if part != "__init__")
        modules[module] = ast.parse(path.read_text("utf-8"))
    return {m: imports_of(tree, m, set(modules)) for m, tree in modules.items()}


WALK_PROGRAM = """
import sys, os
import smoothcruiser as sc
root = os.path.dirname(sc.__file__)
{setup}
for _ in range({calls} - 1):
    {request}
seen, files = set(), []
def enter(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and code.co_name[0] != "<":
        key = (code.co_filename, code.co_firstlineno)
        if key not in seen:
            seen.add(key)
            files.append(code.co_filename)
sys.setprofile(enter)
{request}
sys.setprofile(None)
folders = [os.path.dirname(f) for f in files]
print(len(seen), "/", len(set(files)), "/", sum(a != b for a, b in zip(folders, folders[1:])))
"""


def walk_figures(root: Path) -> dict[str, str]:
    """Functions, files and changes of folder of four requests."""
    figures = {}
    for name, (setup, request, calls) in WALKS.items():
        program = WALK_PROGRAM.format(setup=setup, request=request, calls=calls)
        ended = subprocess.run(
            [sys.executable, "-c", program],
            cwd=root,
            env={
                "PYTHONPATH": str(root / "src"),
                "PATH": "",
                "HOME": str(Path.home()),
            },
            capture_output=True,
            text=True,
            check=False,
        )
        lines = ended.stdout.split("\n")
        figures[f"walk: {name}"] = lines[-2] if len(lines) > 1 else "failed"
    return figures


def source_figures(root: Path) -> dict[str, str]:
    """Files, lines, folders, names, sentences, cycles and internals of the source."""
    source = root / "src" / "smoothcruiser"
    files = sorted(source.rglob("*.py"))
    trees = [ast.parse(path.read_text("utf-8")) for path in files]
    sizes = {path: len(path.read_text("utf-8").splitlines()) for path in files}
    small = [
        path
        for path, lines in sizes.items()
        if lines < 80
        and path.name not in ("__init__.py", "__main__.py")
        and not TABLES.search(path.parent.relative_to(source).as_posix())
    ]
    folders = Counter(path.parent.relative_to(source).as_posix() for path in files)
    stems = Counter(path.stem for path in files)
    twice = {s: n for s, n in stems.items() if n > 1 and s != "__init__"}
    internals = {
        path: n
        for path in files
        if (n := len(INTERNALS.findall(path.read_text("utf-8"))))
    }
    return {
        "source files": f"{len(files):,}",
        "code lines of the source": f"{sum(map(code_lines, files)):,}",
        "the same, one line per statement": f"{sum(map(statement_lines, files)):,}",
        "small files": f"{len(small)}",
        "most files in one folder": ", ".join(
            f"{name} {n}" for name, n in folders.most_common(4)
        ),
        "file names that occur twice": f"{len(twice)} names, {sum(twice.values())} files",
        **name_figures(trees),
        **sentence_figures(trees),
        "modules in the largest import cycles": ", ".join(
            str(len(members)) for members in cycles(import_graph(source))[:5]
        ),
        "private members read from outside": f"{sum(len(private_reads(tree)) for tree in trees)}",
        "lines of internals": f"{sum(internals.values())} in {len(internals)} files",
    }


def test_figures(root: Path) -> dict[str, str]:
    """Lines of the tests, and how many files reach behind a front door."""
    files = sorted((root / "tests").rglob("*.py"))
    texts = [path.read_text("utf-8") for path in files]
    inside = re.compile(r"^\s*(from|import) smoothcruiser\.\w+", re.M)
    return {
        "test files": f"{len(files)}",
        "code lines of the tests": f"{sum(map(code_lines, files)):,}",
        "test files that import internals": f"{sum(bool(inside.search(t)) for t in texts)}",
        "monkeypatch.setattr": f"{sum(t.count('monkeypatch.setattr') for t in texts)}",
        "benchmark files": f"{len(list((root / 'benchmarks').rglob('*.py')))}",
    }


def file_figures(path: Path) -> str:
    """Size, functions, documentation and imports of one file, of any package."""
    tree = ast.parse(path.read_text("utf-8"))
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    lengths = sorted(f.end_lineno - f.lineno + 1 for f in functions if f.end_lineno)
    documented = sum(ast.get_docstring(f) is not None for f in functions)
    most = max(
        (len(f.args.args) + len(f.args.kwonlyargs) for f in functions), default=0
    )
    middle, longest = (lengths[len(lengths) // 2], lengths[-1]) if lengths else (0, 0)
    return (
        f"{path.parent.name}/{path.name}: {code_lines(path)} code lines, "
        f"{len(functions)} functions (median {middle}, longest {longest} lines; "
        f"{documented} documented; at most {most} arguments)"
    )


def word_figures(root: Path) -> dict[str, str]:
    """Words of the documentation, with and without evidence."""
    pages = sorted((root / "docs").rglob("*.md"))
    counts = {path: len(path.read_text("utf-8").split()) for path in pages}
    evidence = sum(n for path, n in counts.items() if "evidence" in path.parts)
    return {
        "words of docs": f"{sum(counts.values()) - evidence:,}",
        "words of evidence": f"{evidence:,}",
    }


def measure(root: Path) -> dict[str, str]:
    """Every figure."""
    return (
        source_figures(root)
        | walk_figures(root)
        | test_figures(root)
        | word_figures(root)
    )


def merged(page: Path, label: str, figures: dict[str, str]) -> str:
    """The page with a column ``label``; other columns and the text below stay."""
    columns: dict[str, dict[str, str]] = {}
    remarks = ""
    if page.exists():
        page_text = page.read_text("utf-8")
        lines = [ln for ln in page_text.splitlines() if ln[:1] == "|"]
        remarks = page_text.rpartition("\n|")[2].partition("\n")[2]
        cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines]
        for i, name in enumerate(cells[0][1:-1], start=1):
            columns[name] = {row[0]: row[i] for row in cells[2:]}
    columns[label] = figures
    keys = dict.fromkeys(key for column in columns.values() for key in column)
    lines = [
        "# The house in numbers",
        "",
        "`make house` prints these figures; the readings of the measures are in the head "
        "of `benchmarks/house.py`.",
        "",
        f"| measure | {' | '.join(columns)} | goal |",
        "|---" * (len(columns) + 2) + "|",
        *(
            f"| {key} | {' | '.join(c.get(key, '') for c in columns.values())} "
            f"| {GOALS.get(key, '')} |"
            for key in keys
        ),
    ]
    return "\n".join(lines) + "\n" + remarks


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--files", type=Path, nargs="+", help="figures of single files"
    )
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--label", default="now")
    options = parser.parse_args()
    if options.files:
        print("\n".join(map(file_figures, options.files)))
        return
    figures = measure(options.root.resolve())
    width = max(map(len, figures))
    for key, value in figures.items():
        goal = f"   (goal {GOALS[key]})" if key in GOALS else ""
        print(f"{key:{width}}  {value}{goal}")
    if options.out:
        options.out.write_text(merged(options.out, options.label, figures), "utf-8")


if __name__ == "__main__":
    main()
