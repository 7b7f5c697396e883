"""The source text of functions: their form, the names that they use, and their writes.

A function is known by its text, parsed by ``ast``: comments, blank lines, docstrings
and the place in the file mean nothing. The text counts only where it is the function's
own: its file, compiled again, must contain the running code. So a file that was
edited after its import speaks for nobody. A function without such text (a prompt,
``exec``, code made by hand) is known by the public attributes of its code, as bytes
that nobody interprets.

Where values come from is read off the text: a variable and the attributes on the way
(``Place``), also through local names (``items = self.items``). Writes of functions
without text are not seen: data that they change counts as data that was edited.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import os
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any, NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
ELEMENT = "[]"  # a step of a path: an element of a container
_STARRED = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
MOST_VALUES = 4  # of a local name that are followed
# methods that change a built-in container
_CHANGING = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "extendleft"),
    *("fill", "insert", "pop", "popitem", "popleft", "put", "remove", "reverse"),
    *("rotate", "setdefault", "sort", "update"),
}


class Place(NamedTuple):
    """Where a value comes from: a variable, then attributes or ``ELEMENT``."""

    name: str
    path: tuple[str, ...] = ()


class Reading(NamedTuple):
    """The text of a function or a module, read."""

    form: tuple[Any, ...]  # all that it computes with, besides values of its variables
    names: tuple[str, ...]  # variables that may be global, in order of their use
    mentioned: frozenset[str]  # all names: variables, attributes, texts for getattr
    imports: tuple[
        tuple[str, str | None, str], ...
    ] = ()  # (module, member, local name)
    chains: tuple[Place, ...] = ()  # attributes that are read
    stored: tuple[Place, ...] = ()  # variables of others that are rebound
    # (place, whether an attribute is set there; otherwise a container is changed)
    writes: tuple[tuple[Place, bool], ...] = ()


def inner_codes(code: CodeType) -> list[CodeType]:
    """A code object and all code inside it."""
    codes = [code]
    for outer_code in codes:
        codes += [value for value in outer_code.co_consts if type(value) is CodeType]
    return codes


# --- text ---------------------------------------------------------------------


@lru_cache(maxsize=64)
def _parse_text(
    text: str,
) -> tuple[frozenset[CodeType], dict[int, list[Function]]] | None:
    """The code that a text compiles to, and its functions by their first lines."""
    try:
        tree = ast.parse(text)
        codes = inner_codes(compile(text, "source", "exec", dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    functions: dict[int, list[Function]] = {}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            decorators = getattr(node, "decorator_list", [])
            first_line = (decorators or [node])[0].lineno
            functions.setdefault(first_line, []).append(node)
    return frozenset(codes), functions


def source_node(function: FunctionType) -> Function | None:
    """The parsed source of a function; None where its own text is not at hand."""
    code = function.__code__
    linecache.lazycache(code.co_filename, function.__globals__)
    return _find_node(code, code.co_filename)


def is_everywhere(function: FunctionType) -> bool:
    """Whether other processes have a function's text: a notebook's cell has it here alone."""
    file_name = function.__code__.co_filename
    origin = getattr(function.__globals__.get("__spec__"), "origin", None)
    return origin == file_name or os.path.isfile(file_name)


@lru_cache(maxsize=4096)  # also: the text as it was when the function was first read
def _find_node(code: CodeType, file_name: str) -> Function | None:
    linecache.checkcache(file_name)
    parsed = _parse_text("".join(linecache.getlines(file_name)))
    if parsed is None or code not in parsed[0]:
        return None
    nodes = [
        node
        for node in parsed[1].get(code.co_firstlineno, ())
        if getattr(node, "name", "<lambda>") == code.co_name
    ]
    if len(nodes) > 1:  # lambdas of one line: the innermost around the code's places
        nodes = [node for node in nodes if _is_around(node, code)][-1:]
    return nodes[0] if nodes else None


def _is_around(node: Any, code: CodeType) -> bool:
    """Whether all instructions have their place in the text of a lambda's body."""
    begin = node.body.lineno, node.body.col_offset
    end = node.body.end_lineno, node.body.end_col_offset
    places = [
        (line, column)
        for line, _, column, end_column in code.co_positions()
        if line is not None and column is not None and (column or end_column)
    ]
    return bool(places) and all(begin <= place <= end for place in places)


def named_values(function: FunctionType) -> dict[str, Any]:
    """The values of the globals and closure variables that a function may use."""
    names = {name for code in inner_codes(function.__code__) for name in code.co_names}
    values = {
        name: function.__globals__[name]
        for name in names.intersection(function.__globals__)
    }
    for name, cell in zip(
        function.__code__.co_freevars, function.__closure__ or (), strict=True
    ):
        with suppress(ValueError):  # a cell that is not filled yet
            values[name] = cell.cell_contents
    return values


# --- reading ------------------------------------------------------------------


def read_function(function: FunctionType) -> Reading:
    """The text of a function, or what its code says about itself, read."""
    code = function.__code__
    node = source_node(function) if is_everywhere(function) else None
    codes = inner_codes(code)
    code_names = dict.fromkeys(name for inner in codes for name in inner.co_names)
    if node is not None:
        body = node.body if isinstance(node.body, list) else [node.body]
        with suppress(RecursionError, ValueError):  # text without end, numbers too
            reading = read_text(body)
            names = tuple(
                name for name in code_names if _is_named(name, reading.names)
            )
            # assertions depend on __debug__
            form = (type(node).__name__, __debug__, _arguments(code), *reading.form)
            return reading._replace(names=names, form=form)
    form = tuple(map(_opaque_form, codes))
    return Reading(form, tuple(code_names), frozenset(code_names))


def _is_named(name: str, text_names: tuple[str, ...]) -> bool:
    """Whether a text has the name, or a private one that stands for it in a class."""
    return name in text_names or any(
        name.endswith(text_name) for text_name in text_names if text_name[:2] == "__"
    )


def _arguments(code: CodeType) -> tuple[Any, ...]:
    flags = code.co_flags & _STARRED
    num_names = code.co_argcount + code.co_kwonlyargcount + flags.bit_count()
    counts = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    return flags, counts, code.co_varnames[:num_names]


def _opaque_form(code: CodeType) -> tuple[Any, ...]:
    """The public attributes of code, as data that nobody interprets."""
    constants = tuple(value for value in code.co_consts if type(value) is not CodeType)
    variables = code.co_names, code.co_freevars, code.co_cellvars
    behaviour = code.co_code, code.co_exceptiontable, code.co_flags
    return *behaviour, constants, variables, _arguments(code)


def read_text(body: list[Any]) -> Reading:
    """The text of statements, or of one expression."""
    nodes = [inner for statement in body for inner in ast.walk(statement)]
    names = dict.fromkeys(inner.id for inner in nodes if isinstance(inner, ast.Name))
    mentioned = set(names)
    for inner in nodes:
        if isinstance(inner, ast.Attribute):
            mentioned.add(inner.attr)
        elif isinstance(inner, ast.Constant) and "getattr" in names:
            mentioned |= {inner.value} if isinstance(inner.value, str) else set()
    return Reading(
        tuple(filter(None, map(_text_form, body))),
        tuple(names),
        frozenset(mentioned),
        tuple(_list_imports(nodes)),
        *_Places(nodes).read(),
    )


def _text_form(node: ast.AST) -> str:
    """The normalized text, without docstrings and other statements that are texts."""
    if _is_text(node):
        return ""
    for inner in ast.walk(node):
        body = getattr(inner, "body", None)
        if isinstance(body, list):
            body[:] = [statement for statement in body if not _is_text(statement)]
    return ast.dump(node)


def _is_text(statement: ast.AST) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _list_imports(nodes: list[Any]) -> Iterator[tuple[str, str | None, str]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            for module in node.names:
                top_name = module.name.partition(".")[0]
                yield module.name, None, module.asname or top_name
        elif isinstance(node, ast.ImportFrom):
            for member in node.names:
                module_name = "." * node.level + (node.module or "")
                yield module_name, member.name, member.asname or member.name


class _Places:
    """Places that are read, rebound or written to, in a list of nodes."""

    def __init__(self, nodes: list[Any]) -> None:
        self.nodes = nodes
        self.aliases: dict[str, list[Any]] = {}
        for node in nodes:
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
                targets = (
                    node.targets if isinstance(node, ast.Assign) else [node.target]
                )
                for target in targets:
                    if isinstance(target, ast.Name) and node.value is not None:
                        self.aliases.setdefault(target.id, []).append(node.value)

    def read(self) -> tuple[Any, Any, Any]:
        """(chains, stored, writes) of a ``Reading``."""
        chains: dict[Place, None] = {}
        stored: dict[Place, None] = {}
        writes: dict[tuple[Place, bool], None] = {}
        outer_names: set[str] = set()
        for node in self.nodes:
            if isinstance(node, ast.Global | ast.Nonlocal):
                outer_names.update(node.names)
        for node in self.nodes:
            if isinstance(node, ast.Name):
                if node.id in outer_names and not isinstance(node.ctx, ast.Load):
                    stored[Place(node.id)] = None
            elif isinstance(node, ast.Attribute):
                chains |= dict.fromkeys(self.places(node))
                if not isinstance(node.ctx, ast.Load):
                    writes |= {(place, True): None for place in self.places(node)}
                elif node.attr in _CHANGING:
                    writes |= {
                        (place, False): None for place in self.places(node.value)
                    }
            elif isinstance(node, ast.Subscript) and not isinstance(
                node.ctx, ast.Load
            ):
                writes |= {(place, False): None for place in self.places(node.value)}
        return tuple(chains), tuple(stored), tuple(writes)

    def places(self, node: Any, expanded: frozenset[str] = frozenset()) -> list[Place]:
        """The places that the value of an expression may come from."""
        if isinstance(node, ast.Name):
            places = [Place(node.id)]
            if node.id not in expanded:
                for value in self.aliases.get(node.id, ())[:MOST_VALUES]:
                    places += self.places(value, expanded | {node.id})
            return places
        if isinstance(node, ast.Attribute | ast.Subscript):
            step = node.attr if isinstance(node, ast.Attribute) else ELEMENT
            return [
                Place(place.name, (*place.path, step))
                for place in self.places(node.value, expanded)
            ]
        return []
