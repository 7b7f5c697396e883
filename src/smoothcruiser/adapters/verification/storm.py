"""Models in the PRISM and JANI languages, built by Storm through stormpy.

Storm explores the model and writes it as a UMB file, which ``umb`` reads: states,
choices, labels, rewards and players are Storm's own, with probabilities as doubles.
Parameters of a name that are no part of the objective are constants of the model.
``reach`` and ``avoid`` are labels, combinations of them (``labels``), or expressions
over the model's variables.

stormpy is under the GPL, version 3. It is no part of this package, and nothing else
imports it: installing it is a choice of its licence. Written for stormpy 2.0.

Out of scope: properties inside JANI files, models with parameters that are left open,
and everything that ``umb`` refuses (continuous time, POMDPs, intervals).
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.model_files import ExplicitModel
from smoothcruiser.adapters.verification.objective import NoCombination, combine_labels
from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.problem.arguments import shorten_value

try:
    import stormpy
    import stormpy.io
    from stormpy import developer
except ImportError as error:
    raise MissingExtra(
        "Models in PRISM and JANI need stormpy 2.0 (GPL-3) and umbi: "
        "pip install 'smoothcruiser[storm]'."
    ) from error

from smoothcruiser.adapters.verification import umb

BUILT_IN = ("init", "deadlock")  # labels that Storm adds
PARSERS = {
    "prism": stormpy.parse_prism_program,
    "jani": lambda path: stormpy.parse_jani_model(path)[0],
}


def read_model(
    path: Path,
    file: str,
    language: str,
    constants: dict[str, Any],
    words: Iterable[str],
) -> ExplicitModel:
    """The model of a file in one of the two languages.

    Args:
        path: where it is.
        file: its name in sentences.
        language: "prism" or "jani".
        constants: values of the model's constants.
        words: labels or expressions of the objective, which become labels.
    """
    try:
        with _quiet():
            description = PARSERS[language](str(path))
            description = _instantiate_constants(file, description, constants)
            labels = {word: _label(file, description, word) for word in words}
            properties = [
                label_property
                for _, label_properties in labels.values()
                for label_property in label_properties
            ]
            model = _build_model(file, description, properties)
    except (InvalidInput, MemoryError):
        raise
    except Exception as error:  # Storm's errors are those of many C++ classes
        raise InvalidInput(
            f"Storm cannot build {file}: {describe_error(error)}."
        ) from error
    named_labels = {
        word: model.labels[label]
        for word, (label, _) in labels.items()
        if label in model.labels
    }
    return replace(model, labels={**model.labels, **named_labels}, constants=constants)


def _instantiate_constants(
    file: str, description: Any, constants: dict[str, Any]
) -> Any:
    """The model with values for its constants."""
    known_names = [constant.name for constant in description.constants]
    for name in constants:
        if name not in known_names:
            constants_text = (
                f"its constants are {', '.join(known_names)}"
                if known_names
                else "it has none"
            )
            raise InvalidInput(
                f"{file} has no constant {name!r}, and no objective has that word; "
                f"{constants_text}."
            )
    undefined_names = [c.name for c in description.constants if not c.defined]
    missing_names = [name for name in undefined_names if name not in constants]
    if missing_names:
        raise InvalidInput(
            f"The constant {missing_names[0]!r} of {file} has no value; add "
            f"{missing_names[0]}=VALUE to the name."
        )
    return stormpy.instantiate_constants(description, constants)[0]


def _label(file: str, description: Any, word: str) -> tuple[str, list[Any]]:
    """Storm's name for the states of a label or expression, and properties for it."""
    labels = getattr(description, "labels", ())  # JANI has expressions alone
    known_labels = {name: np.zeros(1, np.bool_) for name in BUILT_IN}
    known_labels |= {model_label.name: np.zeros(1, np.bool_) for model_label in labels}
    if word in known_labels or (
        '"' in word and _is_label_combination(word, known_labels)
    ):
        return word, []  # ``objective`` combines labels
    try:
        label_property = stormpy.parse_property(f"P=? [F ({word})]", description)
    except Exception as error:
        if _is_label_combination(word, known_labels):  # a shell took the quotes away
            return word, []
        raise InvalidInput(
            f"{shorten_value(word)} is neither a label of {file} nor an expression over "
            f"its variables ({describe_error(error)})."
        ) from error
    return str(label_property.get_raw_formula().subformula.subformula), [
        label_property
    ]


def _is_label_combination(word: str, known_labels: dict[str, Any]) -> bool:
    """Whether a text is a combination of labels."""
    try:
        combine_labels(word, known_labels)
    except NoCombination:
        return False
    return True


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Storm's own lines on standard output: its exceptions say the same."""
    log_level = developer.get_log_level()
    developer.set_log_level(developer.LogLevel.OFF)
    try:
        yield
    finally:
        developer.set_log_level(log_level)


def _build_model(file: str, description: Any, properties: list[Any]) -> ExplicitModel:
    options = stormpy.BuilderOptions(properties)
    options.set_build_all_labels()
    options.set_build_all_reward_models()
    options.set_build_choice_labels(True)
    storm_model = stormpy.build_model(description, options=options)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.umb"
        stormpy.io.export_to_umb(storm_model, str(path))
        return umb.read_model(path, file)
