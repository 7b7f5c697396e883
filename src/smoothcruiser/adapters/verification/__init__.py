"""Models of probabilistic verification, by the names of their files.

``make("umb:model.umb,reach=goal,opt=max")`` returns a problem: its value is the best
probability of reaching a state with that label. Each format is one adapter:

  umb         the unified Markov binary format, through umbi (MIT, an extra)
  npz         arrays of NumPy
  prism, jani models in these languages, through stormpy (GPL-3: yours to install)

  model       the form of every format: choices, branches, labels, rewards
  labels      labels combined
  objective   the objective of a model, as a problem
  ends        the ends of plays, by its graph
  files       files that may come from anywhere

Model checkers ask for plain maxima of undiscounted totals, so these names mean the same
where neither a discount nor an operator is given. Only ``umb`` imports umbi, and only
``storm`` imports stormpy; they are loaded when a problem is first built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import InvalidInput
from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter_protocol import register
from smoothcruiser.problem.declarations import DECLARATIONS, declare, pop_declarations
from smoothcruiser.problem.problem import Problem

if TYPE_CHECKING:
    from smoothcruiser.adapters.verification.model_files import ExplicitModel

    # a model, and the words of its objective
    ModelAndObjective = tuple[ExplicitModel, dict[str, Any]]


# possible declarations of a model; min_probability is a word of its objectives
WORDS = tuple(word for word in DECLARATIONS if word != "min_probability")


class FileAdapter(ABC):
    """Common part of all formats: read a file, and make a problem of its objective."""

    name: str
    has_discount = True
    default_operator = "max"
    declares = True

    @abstractmethod
    def read_model(self, text: str, parameters: dict[str, Any]) -> ModelAndObjective:
        """The model of a file, and its objective."""

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float | None,
        operator: Operator,
    ) -> Problem:
        """The problem of a file; parameters are the objective (``objective``)."""
        from smoothcruiser.adapters.verification.objective import problem_of

        declarations = pop_declarations(
            {k: parameters.pop(k) for k in WORDS if k in parameters}
        )
        if "horizon" in declarations:  # objectives call it bounded
            if "bounded" in parameters:
                raise InvalidInput("horizon= and bounded= say the same; drop one.")
            parameters["bounded"] = declarations.pop("horizon")
        model, objective = self.read_model(text, parameters)
        problem = problem_of(
            model, objective, prefix=self.name, discount=discount, operator=operator
        )
        return declare(problem, declarations)


class UmbAdapter(FileAdapter):
    """UMB files."""

    name = "umb"
    summary = "a model of verification in a UMB file"
    example = "model.umb,reach=goal,opt=max"
    needs = "smoothcruiser[umb]"
    modules = ("umbi",)

    def read_model(self, text: str, parameters: dict[str, Any]) -> ModelAndObjective:
        """The model of ``umb:text``."""
        from smoothcruiser.adapters.verification.model_files import find_file
        from smoothcruiser.adapters.verification.umb import read_model

        return read_model(find_file(text, self.name), text), parameters


class NpzAdapter(FileAdapter):
    """Arrays in an ``.npz`` file, with the objective that it names."""

    name = "npz"
    summary = "a model of verification as NumPy arrays"
    example = "model.npz"
    needs = ""

    def read_model(self, text: str, parameters: dict[str, Any]) -> ModelAndObjective:
        """The model of ``npz:text``; parameters replace the objective of the file."""
        from smoothcruiser.adapters.verification.model_files import (
            find_file,
            read_model,
        )

        model, objective = read_model(find_file(text, self.name), text)
        return model, objective | parameters


class StormAdapter(FileAdapter):
    """Models in a language that Storm reads."""

    needs = "smoothcruiser[storm]"
    modules = ("stormpy", "umbi")

    def __init__(self, name: str, summary: str, example: str) -> None:
        self.name, self.summary, self.example = name, summary, example

    def read_model(self, text: str, parameters: dict[str, Any]) -> ModelAndObjective:
        """A model; parameters that are no part of the objective are its constants."""
        from smoothcruiser.adapters.verification.model_files import find_file
        from smoothcruiser.adapters.verification.objective import WORDS, word
        from smoothcruiser.adapters.verification.storm import read_model

        objective = {
            word_name: parameters[word_name]
            for word_name in parameters
            if word_name in WORDS
        }
        constants = {
            word_name: parameters[word_name]
            for word_name in parameters
            if word_name not in WORDS
        }
        label_words = [
            word(objective[word_name])
            for word_name in ("reach", "avoid")
            if word_name in objective
        ]
        file_path = find_file(text, self.name)
        return read_model(
            file_path, text, self.name, constants, label_words
        ), objective


PRISM = StormAdapter(
    "prism",
    "a model in the PRISM language, built by Storm",
    "coin2.nm,K=2,reach=finished",
)
JANI = StormAdapter(
    "jani", "a model in the JANI language, built by Storm", "die.jani,reach=s=7&d=6"
)
for _adapter in (UmbAdapter(), NpzAdapter(), PRISM, JANI):
    register(_adapter)
