"""The problem of a stored run, rebuilt or passed again: it must be the same.

A store may come from elsewhere, so nothing that it names is imported without
trust (docs/security.md).
"""

from __future__ import annotations

from typing import Any

from smoothcruiser.errors import InvalidInput, SmoothcruiserError, describe_error
from smoothcruiser.problem.fingerprint import fingerprint
from smoothcruiser.problem.problem import Problem
from smoothcruiser.problem.spec import from_spec, imports_of
from smoothcruiser.store.record import StoredRun


def same_problem(
    stored: StoredRun, problem: Problem | None, trust: bool
) -> tuple[Problem, tuple[str, ...]]:
    """The problem of a stored run, built from its spec or passed again; and notes.

    Its fingerprint must be the stored one. The notes name the parts that no fingerprint
    sees.
    """
    if problem is None:
        if stored.spec is None:
            raise InvalidInput(
                f"Run {stored.id} is of a problem made in Python ({stored.problem}); "
                "pass the same problem to resume()."
            )
        imports = imports_of(stored.spec)
        if imports is not None and not trust:
            raise InvalidInput(
                f"To rebuild its problem, run {stored.id} would import and run "
                f"{imports}; if you trust the store, say so with "
                "trust=True, or pass the problem."
            )
        problem = _rebuild_problem(stored.spec)
    problem_fingerprint = fingerprint(problem)
    changes = problem_fingerprint.changes(stored.fingerprint)
    if changes:
        raise InvalidInput(
            f"Run {stored.id} was made for another problem than this one: "
            f"{_list_names(changes)} changed; pass the problem it was started with, or "
            "start a new run."
        )
    if not problem_fingerprint.unseen:
        return problem, ()
    return problem, (
        "Resumed without being able to compare "
        f"{_list_names(problem_fingerprint.unseen)} with the first session: if that "
        "changed, the answer is of two problems.",
    )


def _rebuild_problem(spec: dict[str, Any]) -> Problem:
    try:
        return from_spec(spec)
    except SmoothcruiserError:
        raise
    except Exception as error:  # of the user's module, or of a name that is none
        raise InvalidInput(
            f"The problem {spec['problem']!r} could not be made again: {describe_error(error)}."
        ) from error


def _list_names(names: tuple[str, ...]) -> str:
    """Names in a sentence, the first few of many."""
    first_names = ", ".join(names[:5])
    return (
        first_names if len(names) <= 5 else f"{first_names} and {len(names) - 5} more"
    )
