"""The answer of a policy at one state, as probabilities of the K actions.

  a whole number           that action; 1.0, NumPy's numbers and arrays of one whole
                           number too
  a text                   the action with this label
  K numbers                probabilities, which sum to 1; never action values
  a dict                   from actions or labels to probabilities; others have 0
  (any of these, None)     as ``predict`` of Stable-Baselines3 returns it

K numbers that are [0, 1] for K = 2 are probabilities too: action 1. True and False are
refused, since they may be an action or the answer to a question. Anything else is
refused in a sentence that names the answer and the accepted forms.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping
from typing import Any

import numpy as np

from smoothcruiser.errors import InvalidInput
from smoothcruiser.problem.arguments import shorten_value
from smoothcruiser.problem.problem import Problem

# how far probabilities may be from summing to 1, as printed decimals are
SUM_TOLERANCE = 1e-6

WAITING = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)


class PolicyAnswer:
    """The answer of a policy at ``state``; ``source`` is its name in sentences."""

    def __init__(self, problem: Problem, state: Any, source: str) -> None:
        self.problem, self.state, self.source = problem, state, source

    def shares(self, answer: Any) -> list[float]:
        """The probabilities of all K actions, checked and not yet scaled."""
        if isinstance(answer, tuple) and len(answer) == 2 and answer[1] is None:
            answer = answer[0]
        if isinstance(answer, str):
            return self.only_action(self.find_labelled(answer))
        if isinstance(answer, Mapping):
            return self._check_shares(self._list_shares(answer), answer)
        number_array = self._numbers(answer)
        K = self.problem.num_actions
        if number_array.ndim == 0 or (
            number_array.shape == (1,)
            and K > 1
            and not isinstance(answer, list | tuple)
        ):
            return self.only_action(self._action_number(number_array.item(), answer))
        if number_array.shape != (K,):
            raise self.refusal(answer, f"it has shape {number_array.shape}")
        return self._check_shares([float(share) for share in number_array], answer)

    def only_action(self, action: int) -> list[float]:
        """All probability on one action, which must be legal."""
        self._require_legal(action)
        shares = [0.0] * self.problem.num_actions
        shares[action] = 1.0
        return shares

    def find_labelled(self, label: str) -> int:
        """The number of the action with this label."""
        labels = self.problem.labels(self.state)
        if labels is None:
            raise self.refusal(
                label,
                "the actions of this problem have no labels; give actions= to the "
                "problem, or return numbers",
            )
        if label not in labels:
            label_text = ", ".join(repr(name) for name in labels[:12])
            raise self.refusal(label, f"the labels are {label_text}")
        if labels.count(label) > 1:
            raise self.refusal(label, "more than one action has this label there")
        return labels.index(label)

    def refusal(self, answer: Any, why: str) -> InvalidInput:
        """The sentence for an answer that cannot be read."""
        K = self.problem.num_actions
        label_hint = "" if self.problem.labels(self.state) is None else " or its label"
        return InvalidInput(
            f"{self.source} must be an action (0 to {K - 1}{label_hint}), {K} probabilities "
            f"or a dict from actions to probabilities, got {shorten_value(answer)}: {why}"
            f"{'' if why.endswith('?') else '.'}"
        )

    def _numbers(self, answer: Any) -> Any:
        """An array of numbers, as NumPy sees it."""
        if answer is None:
            raise self.refusal(answer, "is a return missing?")
        if isinstance(answer, bool | np.bool_):
            raise self.refusal(answer, "write int(…) if it is the number of an action")
        if isinstance(answer, WAITING):
            type_name = type(answer).__name__
            if isinstance(answer, types.CoroutineType):
                answer.close()
            raise self.refusal(
                answer, f"a {type_name} is no answer; drop yield or async"
            )
        plain_answer = answer.detach().cpu() if hasattr(answer, "detach") else answer
        try:
            number_array = np.asarray(plain_answer)
        except Exception:
            number_array = np.asarray(None)
        if number_array.dtype.kind not in "iufb" or (
            number_array.dtype.kind == "b" and number_array.ndim == 0
        ):
            type_name = type(answer).__name__
            raise self.refusal(
                answer, f"it is of type {type_name}, which is none of these"
            )
        return number_array

    def _action_number(self, number: Any, answer: Any) -> int:
        """The number of an action."""
        K = self.problem.num_actions
        if isinstance(number, float) and not number.is_integer():
            reason = "it is NaN" if math.isnan(number) else "it is not a whole number"
            raise self.refusal(answer, reason)
        if not 0 <= number < K:
            raise self.refusal(answer, "there is no such action")
        return int(number)

    def _list_shares(self, answer: Mapping[Any, Any]) -> list[float]:
        """The probabilities of a dict, in the order of the actions."""
        shares = [0.0] * self.problem.num_actions
        key_of_action: dict[int, Any] = {}
        for key, share in answer.items():
            if isinstance(key, str):
                action = self.find_labelled(key)
            elif isinstance(key, int | float | np.generic) and not isinstance(
                key, bool | np.bool_
            ):
                action = self._action_number(np.asarray(key).item(), answer)
            else:
                raise self.refusal(answer, f"{key!r} is no action")
            if action in key_of_action:
                raise self.refusal(
                    answer, f"{key_of_action[action]!r} and {key!r} are one action"
                )
            key_of_action[action] = key
            try:
                shares[action] = float(share)
            except (TypeError, ValueError):
                raise self.refusal(answer, f"{share!r} is no probability") from None
        return shares

    def _check_shares(self, shares: list[float], answer: Any) -> list[float]:
        """Probabilities, which must be those of legal actions."""
        if any(math.isnan(share) for share in shares):
            raise self.refusal(answer, "it holds NaN")
        if any(not 0.0 <= share < math.inf for share in shares):
            raise self.refusal(
                answer,
                "probabilities are not negative; of action values return the best one's "
                "number",
            )
        share_sum = math.fsum(shares)
        if abs(share_sum - 1.0) > SUM_TOLERANCE:
            raise self.refusal(
                answer,
                f"it sums to {share_sum:.6g} and not to 1; of action values return the best "
                "one's number",
            )
        if self.problem.legal is not None:
            legal_actions = set(self.problem.legal_actions(self.state))
            for action, share in enumerate(shares):
                if share > SUM_TOLERANCE and action not in legal_actions:
                    self._require_legal(action)
        return shares

    def _require_legal(self, action: int) -> None:
        if self.problem.legal is None:
            return
        legal_actions = self.problem.legal_actions(self.state)
        if action not in legal_actions:
            label_names = self.problem.labels(self.state)
            label_text = "" if label_names is None else f" ({label_names[action]!r})"
            raise InvalidInput(
                f"{self.source} plays action {action}{label_text}, which is not legal at state "
                f"{self.state!r}; legal are {legal_actions}."
            )
