"""Questions of one tree at its leaves: the evaluators of its search on its problem.

An answer is a row of 1 + 2 K numbers: the value, K prior weights, K first values of
actions. Numbers that no evaluator gives are 0. Compiled functions and arrays of
tabular problems are asked inside the compiled tree, everything else in Python, a
batch at a time.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.problem import Problem
from smoothcruiser.tree.evaluators import LeafEvaluator, Leaves
from smoothcruiser.tree.evaluators.base import Floats
from smoothcruiser.tree.search_numbers import IMPROVED, PRIOR_UPPER, LeafSetting
from smoothcruiser.tree.search_rules import Search

MOST_COLLISIONS = 8  # a batch closes once one in so many of its leaves waited already


class TreeEvaluators:
    """The evaluators of one tree."""

    def __init__(self, problem: Problem, search: Search, elapsed: int = 0) -> None:
        self.problem, self.search = problem, search
        self.evaluators: dict[str, LeafEvaluator] = search.evaluators
        K = problem.num_actions
        self.widths = {"value": 1, "prior": K, "network": 1 + K, "initial_q": K}
        self.first_columns = {"value": 0, "prior": 1, "network": 0, "initial_q": 1 + K}
        self.width = 1 + 2 * K
        self.tables = self._tables()
        self.machines = self._machines()
        self.leaf_setting = self._leaf_setting(elapsed)

    def _leaf_setting(self, elapsed: int) -> LeafSetting:
        search, problem, evaluators = self.search, self.problem, self.evaluators
        operator = search.operator(problem.operator)
        facts = problem.facts
        if operator != problem.operator:
            facts = replace(facts, operator=operator, given_bounds=None)
        value_low, value_high = facts.value_hull()
        asks_values = "value" in evaluators or "network" in evaluators
        rule = search.rule(problem.operator)
        depth_limit = search.depth
        steps_left = None if problem.horizon is None else problem.horizon - elapsed
        answers_inside = (
            self.machines is not None or self.tables is not None or not evaluators
        )
        return LeafSetting(
            batch=search.leaf_batch,
            collisions=max(1, search.leaf_batch // MOST_COLLISIONS),
            mix=float(search.mix) if asks_values else 1.0,
            loss=float(search.virtual_loss),
            low=float(value_low),
            high=float(value_high),
            values=asks_values,
            priors="prior" in evaluators or "network" in evaluators,
            firsts="initial_q" in evaluators,
            by_prior=rule.descent in (PRIOR_UPPER, IMPROVED),
            deep=asks_values
            and (
                steps_left is None
                or (depth_limit is not None and depth_limit < steps_left)
            ),
            inside=answers_inside,
        )

    def _tables(self) -> tuple[Floats, ...] | None:
        """(S, 1), (S, K) and (S, K) arrays where arrays answer everything."""
        problem, K = self.problem, self.problem.num_actions
        if (
            problem.tables is None
            or not self.evaluators
            or "network" in self.evaluators
        ):
            return None
        table_by_name = {
            name: evaluator.table(self.widths[name], name)
            for name, evaluator in self.evaluators.items()
        }
        if any(table is None for table in table_by_name.values()):
            return None
        for name, table in table_by_name.items():
            num_states = len(problem.tables.terminal)
            if table is not None and len(table) != num_states:
                raise InvalidInput(
                    f"{name} must have one row for each of the {num_states} states, "
                    f"got {len(table)}."
                )
        table_widths = {"value": 1, "prior": K, "initial_q": K}
        empty_tables = {
            name: np.zeros((0, width)) for name, width in table_widths.items()
        }
        return tuple(
            np.array(table_by_name.get(name, empty_tables[name]), order="C")
            for name in table_widths
        )

    def _machines(self) -> dict[str, Any] | None:
        """Compiled functions, where they answer everything."""
        compiled_functions = {
            name: evaluator.machine for name, evaluator in self.evaluators.items()
        }
        if not compiled_functions or any(
            function is None for function in compiled_functions.values()
        ):
            return None
        return compiled_functions

    def answers(self, leaves: Leaves) -> Floats:
        """Rows of answers; states unknown to a memory get the middle of the bounds."""
        answer_rows = np.zeros((leaves.count, self.width))
        for name, evaluator in self.evaluators.items():
            width, first_column = self.widths[name], self.first_columns[name]
            evaluator_rows = evaluator.ask(leaves, name, width)
            if evaluator.partial:
                middle_value = 0.5 * (self.leaf_setting.low + self.leaf_setting.high)
                evaluator_rows = np.where(
                    np.isnan(evaluator_rows), middle_value, evaluator_rows
                )
            answer_rows[:, first_column : first_column + width] = evaluator_rows
        return answer_rows

    def answer_error(
        self, state: Any, answer_row: Any, actions: list[int]
    ) -> InvalidInput:
        """The error of a row that cannot be used."""
        K = self.problem.num_actions
        name = next(
            n for n in ("network", "value", "prior", "initial_q") if self._has(n)
        )
        state_text = f"at state {state!r:.60}"
        if self.leaf_setting.values and not np.isfinite(answer_row[0]):
            name = "network" if self._has("network") else "value"
            return InvalidInput(
                f"{name} must be a finite number, got {float(answer_row[0])!r} "
                f"{state_text}."
            )
        prior_weights = [float(answer_row[1 + a]) for a in actions]
        if self.leaf_setting.priors and not (
            all(w >= 0.0 for w in prior_weights) and 0.0 < sum(prior_weights) < np.inf
        ):
            name = "network" if self._has("network") else "prior"
            return InvalidInput(
                f"{name} must give the legal actions weights of at least 0 with a "
                f"finite sum, not all 0, got {prior_weights!r:.80} {state_text}; "
                "exp(logits) has this form."
            )
        first_values = [float(answer_row[1 + K + a]) for a in actions]
        if self.leaf_setting.firsts and not all(np.isfinite(q) for q in first_values):
            return InvalidInput(
                f"initial_q must give the legal actions finite values, got "
                f"{first_values!r:.80} {state_text}."
            )
        return InvalidInput(
            f"{name} gave two different answers {state_text}; it must be a function of "
            "the state alone."
        )

    def _has(self, name: str) -> bool:
        return name in self.evaluators


def evaluates_limit(backend: Any) -> bool:
    """Whether values are asked for at the depth limit too."""
    evaluators = getattr(backend, "evaluators", None)
    return evaluators is not None and evaluators.leaf_setting.deep


def evaluator_notes(backend: Any) -> list[str]:
    """Notes on the answers of a tree's evaluators."""
    evaluators = getattr(backend, "evaluators", None)
    if evaluators is None:
        return []
    (num_evaluated, num_clipped), leaf_setting = (
        backend.evaluation_counts,
        evaluators.leaf_setting,
    )
    if not num_clipped:
        return []
    return [
        f"{num_clipped:,} of {num_evaluated:,} values lay outside "
        f"[{leaf_setting.low:.6g}, {leaf_setting.high:.6g}], what the rewards allow, "
        "and count as its nearer end."
    ]
