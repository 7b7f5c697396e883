"""Tree searches as data: frozen, self-checking parameters that one engine runs.

Each method is a point in the same space. At a node s with visits N(s) and
action values Q(s,a) it needs a policy to descend by, a value to pass up, and an
action to recommend:

  method  descends by                           passes up                 recommends
  UCT     argmax Q + c sqrt(log N(s) / N(s,a))  the mean return           most visited
  MENTS   (1-l) softmax(Q/t) + l/|A|            t log sum exp(Q/t)        argmax Q
  RENTS   (1-l) pi_0 exp(Q/t)/Z + l/|A|         t log sum pi_0 exp(Q/t)   argmax Q
  TENTS   (1-l) sparsemax(Q/t) + l/|A|          the Tsallis maximum of Q  argmax Q
  BTS     (1-l) softmax(Q/a) + l/|A|            max Q                     argmax Q
  DENTS   (1-l) softmax((Q + b(N) H)/a) + l/|A| max Q, and the entropy H  argmax Q

legend  symbol, name, where
  c     ``exploration`` (UCT): Kocsis and Szepesvari 2006; None: the largest |Q| of the
        node (Keller and Eyerich 2012)
  t     ``temperature``: MENTS: Xiao et al. 2019; RENTS, TENTS: Dam et al. 2021
  l     min(1, e |A| / log(N+1)): E2W exploration of those papers, e = ``exploration``
  a     ``search_temperature``: BTS, DENTS: Painter et al. 2023, where
        l = min(1, e / log(N + exp 1))
  b(N)  ``entropy_temperature`` / log(N + exp 1): the weight of the entropy, which
        decays to nothing

The shared parameters of all methods are in ``Search``. ``expansion``, the nodes added
per simulation, is 1 as in most of the literature; None adds the whole path, as in
Painter.
Not in this file: the use of the numbers (``selection``, ``tree``).

Checks of the parameters that tree searches share.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar

from smoothcruiser.displayable import Shown
from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import KL, Entropy, Max, Operator, Sparsemax
from smoothcruiser.problem.arguments import is_number, is_whole
from smoothcruiser.tree.evaluators import LeafEvaluator, evaluator_of
from smoothcruiser.tree.evaluators.functions import check_leaves
from smoothcruiser.tree.pruning import check_bounds
from smoothcruiser.tree.search_numbers import (
    BEST,
    BOLTZMANN,
    MEAN,
    NO_PRIOR,
    PRIORS,
    SMOOTH,
    UPPER,
    TreeRule,
)


def check_widening(method: Any, name: str) -> None:
    """Check a pair (k, alpha), which may come as a list (JSON); it is kept as a tuple."""
    value = getattr(method, name)
    if value is None:
        return
    is_pair = isinstance(value, tuple | list) and len(value) == 2
    is_pair = is_pair and all(
        is_number(number) and math.isfinite(number) for number in value
    )
    if not is_pair or not (value[0] > 0.0 and 0.0 <= value[1] <= 1.0):
        raise InvalidInput(
            f"{method.name}: {name} must be a pair (k, alpha) with k above 0 and alpha "
            f"between 0 and 1, or None, got {value!r}."
        )
    object.__setattr__(method, name, (float(value[0]), float(value[1])))


def check_finite(
    method: Any,
    name: str,
    *,
    optional: bool = False,
    above: float | None = None,
    least: float | None = None,
) -> None:
    """Refuse a parameter that is no finite number within its bounds."""
    value = getattr(method, name)
    if value is None and optional:
        return
    is_valid = is_number(value) and math.isfinite(value)
    is_valid = (
        is_valid
        and (above is None or value > above)
        and (least is None or value >= least)
    )
    if not is_valid:
        bound_text = (
            f" above {above:g}"
            if above is not None
            else f" of at least {least:g}"
            if least is not None
            else ""
        )
        raise InvalidInput(
            f"{method.name}: {name} must be a finite "
            f"number{bound_text}{' or None' if optional else ''}, got {value!r}."
        )


# In units of reward, as in Dam et al. 2021. It is used where the problem itself
# has no temperature.
DEFAULT_TEMPERATURE = 0.1
MOST_TREES = 4096  # as many as there may be workers


@dataclass(frozen=True, kw_only=True)
class Search(ABC):
    """The shared parameters of all tree searches. Use one of the methods below."""

    depth: int | None = None  # None: the horizon, or as far as the discount reaches
    expansion: int | None = 1
    # a number, or one value per action in a form of ``evaluators``
    initial_q: Any = None
    # None: as many as fit in 1 GiB with states of one word, but at most a million.
    max_nodes: int | None = None
    # (k, alpha): at its n-th visit a move has at most ceil(k n^alpha) next states
    widening: tuple[float, float] | None = None
    samples: int | None = None  # the most samples of one move (sparse UCT)
    # (k, alpha): at its n-th decision a node considers its first ceil(k n^alpha) actions
    action_widening: tuple[float, float] | None = None
    # whether values are proven where there is no chance (``tree.proofs``)
    solve: bool = False
    trees: int = 1  # independent trees that are added up (``tree.forest``)
    # rollouts from a new leaf; their mean is its value. For slow simulators, which
    # workers run at once
    leaf_rollouts: int = 1
    value: Any = None  # of a leaf, for the max player; None: a rollout
    mix: float = 0.0  # the weight of a rollout beside ``value``
    leaf_batch: int = 1  # leaves that are evaluated at once
    # subtracted from the value of an action for each visit that waits for its value
    virtual_loss: float = 0.0
    # a Certified or a Solution, which may exclude actions (``tree.pruning``)
    bounds: Any = None
    name: ClassVar[str] = "search"
    # a rule's own descent: ``pick(rule, x, n, size, visits, rng)`` returns the slot to
    # descend by, from signed values and visits of ``size`` actions (``selection``)
    pick: ClassVar[Any] = None

    def __post_init__(self) -> None:
        for name in ("depth", "expansion", "max_nodes", "samples", "leaf_batch"):
            value = getattr(self, name)
            is_default = value is None and name != "leaf_batch"
            if not is_default and (not is_whole(value) or value < 1):
                raise InvalidInput(
                    f"{self.name}: {name} must be a whole number of at least 1 or "
                    f"None, got {value!r}."
                )
        check_widening(self, "widening")
        check_widening(self, "action_widening")
        if self.widening is not None and self.samples is not None:
            raise InvalidInput(
                f"{self.name}: widening and samples are two limits on the next states "
                "of a move; give one of them."
            )
        for name in ("trees", "leaf_rollouts"):
            value = getattr(self, name)
            if not is_whole(value) or not 1 <= value <= MOST_TREES:
                raise InvalidInput(
                    f"{self.name}: {name} must be a whole number from 1 to "
                    f"{MOST_TREES:,}, got {value!r}."
                )
        if not isinstance(self.solve, bool):
            raise InvalidInput(
                f"{self.name}: solve must be True or False, got {self.solve!r}."
            )
        if not is_number(self.initial_q):
            self._read_evaluator("initial_q")
        else:
            check_finite(self, "initial_q", optional=True)
        self._read_evaluator("value")
        check_finite(self, "mix", least=0.0)
        check_finite(self, "virtual_loss", least=0.0)
        check_leaves(self)
        if self.bounds is not None:
            check_bounds(self)

    def _read_evaluator(self, name: str) -> None:
        """Replace the user's object of a parameter by its evaluator."""
        evaluator = evaluator_of(self.name, name, getattr(self, name))
        object.__setattr__(self, name, evaluator)

    @cached_property
    def evaluators(self) -> dict[str, LeafEvaluator]:
        """The evaluators at leaves, by the name of their parameter."""
        names = ("value", "prior", "network", "initial_q")
        parameters = {name: getattr(self, name, None) for name in names}
        return {
            n: evaluator
            for n, evaluator in parameters.items()
            if isinstance(evaluator, LeafEvaluator)
        }

    @property
    def asks(self) -> bool:
        """Whether its leaves wait for an evaluator, or its nodes keep a prior."""
        return bool(self.evaluators)

    @abstractmethod
    def operator(self, problem_operator: Operator) -> Operator:
        """The operator that the search estimates the value of."""

    def estimates(self, problem_operator: Operator) -> str:
        """The name of the operator that the search estimates the value of."""
        return self.operator(problem_operator).label

    @abstractmethod
    def rule(self, problem_operator: Operator) -> TreeRule:
        """The numbers that the engine runs."""

    def _rule_of(self, **numbers: Any) -> TreeRule:
        """The rule with these numbers, and the assumed value of untried actions."""
        initial_q = self.initial_q
        is_warm = isinstance(initial_q, LeafEvaluator)
        # where nodes keep values of their own, the number is not used
        initial_value = (
            0.0 if is_warm else math.nan if initial_q is None else float(initial_q)
        )
        return TreeRule(initial=initial_value, warm=is_warm, **numbers)

    def with_options(self, options: dict[str, Any]) -> Search:
        """The same method with some parameters replaced."""
        if not options:
            return self
        parameter_names = [field.name for field in fields(self)]
        unknown_names = sorted(set(options) - set(parameter_names))
        if unknown_names:
            raise InvalidInput(
                f"{self.name} has no parameter {unknown_names[0]!r}; it has "
                f"{', '.join(parameter_names)}."
            )
        return replace(self, **options)

    def __str__(self) -> str:
        set_parameters = [
            f"{field.name}={_brief(getattr(self, field.name))}"
            for field in fields(self)
            if getattr(self, field.name) != field.default
        ]
        return (
            f"{self.name}({', '.join(set_parameters)})"
            if set_parameters
            else self.name
        )


def _brief(value: Any) -> Any:
    """A parameter in few words: an object with a page of its own by its class name."""
    return type(value).__name__ if isinstance(value, Shown) else value


@dataclass(frozen=True, kw_only=True)
class UCT(Search):
    """Upper confidence bounds on mean returns: the unregularized classic.

    It converges to max Q, slowly where the best path is hard to find.
    """

    exploration: float | None = None
    name: ClassVar[str] = "uct"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "exploration", optional=True, least=0.0)

    def operator(self, problem_operator: Operator) -> Operator:  # noqa: D102
        return Max()

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        c = math.nan if self.exploration is None else float(self.exploration)
        return self._rule_of(
            descent=UPPER, up=MEAN, code=Max.code, exploration=c, most_visited=True
        )


@dataclass(frozen=True, kw_only=True)
class _Regularized(Search):
    """E2W: the operator's own policy descends, and its value is passed up.

    Uniform exploration is mixed into the policy, with a weight that decays.
    """

    # None: the problem's own, or 0.1 where it has none
    temperature: float | None = None
    exploration: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "temperature", optional=True, above=0.0)
        check_finite(self, "exploration", least=0.0)

    def _temperature(self, problem_operator: Operator) -> float:
        if self.temperature is not None:
            return float(self.temperature)
        return problem_operator.strength or DEFAULT_TEMPERATURE

    def _rule(
        self, problem_operator: Operator, code: int, prior: int = NO_PRIOR
    ) -> TreeRule:
        return self._rule_of(
            descent=BOLTZMANN,
            up=SMOOTH,
            code=code,
            exploration=float(self.exploration),
            most_visited=False,
            temperature=self._temperature(problem_operator),
            counts_actions=True,
            prior=prior,
        )


@dataclass(frozen=True, kw_only=True)
class MENTS(_Regularized):
    """Maximum entropy tree search: optimal for the entropy-regularized value.

    That value may prefer another action than the plain one does.
    """

    name: ClassVar[str] = "ments"

    def operator(self, problem_operator: Operator) -> Operator:  # noqa: D102
        return Entropy(self._temperature(problem_operator))

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        return self._rule(problem_operator, Entropy.code)


@dataclass(frozen=True, kw_only=True)
class RENTS(_Regularized):
    """Relative entropy to a previous policy, which moves with the search.

    ``prior`` says which. ``"visits"`` is the shares of the node's own visits:
    the policy so far, as in early code of the authors. It settles on the best
    action, so the value converges to max Q. ``"parent"`` is the descent policy
    of the node above (Painter et al.).
    """

    prior: str = "visits"
    name: ClassVar[str] = "rents"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior not in PRIORS:
            raise InvalidInput(
                f"{self.name}: prior must be 'visits' or 'parent', got {self.prior!r}."
            )

    def operator(self, problem_operator: Operator) -> Operator:
        """Max for the prior of visits, which settles; KL for the parent's.

        The parent's policy has no fixed operator. KL to the uniform policy
        bounds its values.
        """
        return (
            Max()
            if self.prior == "visits"
            else KL(self._temperature(problem_operator))
        )

    def estimates(self, problem_operator: Operator) -> str:  # noqa: D102
        return (
            "max" if self.prior == "visits" else "its moving prior (no fixed operator)"
        )

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        return self._rule(problem_operator, KL.code, PRIORS[self.prior])


@dataclass(frozen=True, kw_only=True)
class TENTS(_Regularized):
    """Tsallis entropy tree search: its policy may drop bad actions altogether."""

    name: ClassVar[str] = "tents"

    def operator(self, problem_operator: Operator) -> Operator:  # noqa: D102
        return Sparsemax(self._temperature(problem_operator))

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        return self._rule(problem_operator, Sparsemax.code)


@dataclass(frozen=True, kw_only=True)
class _Boltzmann(Search):
    """Softmax descent over plain Bellman values, or over mean returns.

    Over mean returns the temperature decays: a(0)/log(N + exp 1).
    """

    # None: the problem's own temperature, or 0.1
    search_temperature: float | None = None
    exploration: float = 0.1
    # The AR- variants. Mean returns are those of the descent itself, so it has
    # to settle.
    average_returns: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "search_temperature", optional=True, above=0.0)
        check_finite(self, "exploration", least=0.0)
        if not isinstance(self.average_returns, bool):
            raise InvalidInput(
                f"{self.name}: average_returns must be True or False, got "
                f"{self.average_returns!r}."
            )

    def operator(self, problem_operator: Operator) -> Operator:
        return Max()

    def _descent_temperature(self, problem_operator: Operator) -> float:
        if self.search_temperature is not None:
            return float(self.search_temperature)
        return problem_operator.strength or DEFAULT_TEMPERATURE

    def _rule(self, problem_operator: Operator, entropy: float) -> TreeRule:
        return self._rule_of(
            descent=BOLTZMANN,
            up=MEAN if self.average_returns else BEST,
            code=Entropy.code,
            exploration=float(self.exploration),
            most_visited=False,
            temperature=self._descent_temperature(problem_operator),
            cools=self.average_returns,
            shift=math.e,
            entropy=entropy,
        )


@dataclass(frozen=True, kw_only=True)
class BTS(_Boltzmann):
    """Boltzmann tree search: it converges to max Q at any temperature."""

    name: ClassVar[str] = "bts"

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        return self._rule(problem_operator, entropy=0.0)


@dataclass(frozen=True, kw_only=True)
class DENTS(_Boltzmann):
    """Decaying entropy tree search: BTS with a descent that values the entropy below.

    The weight of the entropy decays to nothing.
    """

    # b(0); None: the search temperature, as in the paper's experiments
    entropy_temperature: float | None = None
    name: ClassVar[str] = "dents"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_finite(self, "entropy_temperature", optional=True, least=0.0)

    def rule(self, problem_operator: Operator) -> TreeRule:  # noqa: D102
        b = (
            self._descent_temperature(problem_operator)
            if self.entropy_temperature is None
            else float(self.entropy_temperature)
        )
        return self._rule(problem_operator, entropy=b)


TREE_SEARCHES: dict[str, Search] = {
    search.name: search
    for search in (UCT(), MENTS(), RENTS(), TENTS(), BTS(), DENTS())
}


def tree_search(method: str | Search, options: dict[str, Any] | None = None) -> Search:
    """The search of a name (with ``options``), or the object itself."""
    if isinstance(method, Search):
        return method.with_options(options or {})
    if method not in TREE_SEARCHES:
        raise InvalidInput(
            f"Unknown tree search {method!r}; choose one of {', '.join(TREE_SEARCHES)}."
        )
    return TREE_SEARCHES[method].with_options(options or {})
