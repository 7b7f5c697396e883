"""The adapter of bsuite, DeepMind's set of small experiments.

``make("bsuite:catch/0", …)`` is the environment that ``bsuite.load_from_id`` makes, as
a ``dm_env`` environment (``adapters.dm_env``). The ranges below were read in the source
of bsuite 0.3.6; its variants with noise or scaled rewards need ``reward_low=`` and
``reward_high=``. mnist downloads its pictures, which is left to bsuite.
"""

from __future__ import annotations

import contextlib
import difflib
import io
from typing import Any

from smoothcruiser.errors import InvalidInput, MissingExtra, describe_error
from smoothcruiser.operators import Operator
from smoothcruiser.problem.adapter_protocol import register
from smoothcruiser.problem.problem import Problem

# (low, high) of every reward, by experiment
RANGES = {
    "bandit": (0.0, 1.0),
    "cartpole": (0.0, 1.0),
    "catch": (-1.0, 1.0),
    "discounting_chain": (0.0, 1.1),
    "memory_len": (-1.0, 1.0),
    "memory_size": (-1.0, 1.0),
    "mountain_car": (-1.0, 0.0),
    "umbrella_distract": (-1.0, 1.0),
    "umbrella_length": (-1.0, 1.0),
}


class BsuiteAdapter:
    """Experiments by their names."""

    name = "bsuite"
    summary = "an experiment of bsuite"
    example = "catch/0"
    needs = "smoothcruiser[bsuite]"
    modules = ("bsuite", "gymnasium")
    declares = True

    def build(
        self,
        text: str,
        parameters: dict[str, Any],
        *,
        discount: float,
        operator: Operator,
    ) -> Problem:
        """The problem of ``bsuite:text``."""
        try:
            import bsuite  # noqa: F401
        except ImportError as error:
            raise MissingExtra(
                f"bsuite's experiments need bsuite: pip install '{self.needs}'."
            ) from error
        from smoothcruiser.adapters.dm_env.timesteps import build_problem

        known_range = RANGES.get(text.partition("/")[0])
        given_options = {
            "reward_range",
            "reward_low",
            "reward_high",
        } & parameters.keys()
        if known_range is not None and not given_options:
            parameters["reward_range"] = known_range
        return build_problem(
            "bsuite", text, _load_experiment, parameters, discount, operator
        )


def _load_experiment(text: str, parameters: dict[str, Any]) -> Any:
    """The environment of an experiment; bsuite has no parameters beside its name."""
    import bsuite
    from bsuite import sweep

    if parameters:
        raise InvalidInput(
            f"{text} has no parameter {next(iter(parameters))!r}; drop it."
        )
    if text not in sweep.SWEEP:
        close_matches = difflib.get_close_matches(text, sweep.SWEEP, 1, 0.5)
        suggestion = (
            f"; did you mean {close_matches[0]}?"
            if close_matches
            else ", such as catch/0."
        )
        raise InvalidInput(f"bsuite has no experiment {text!r}{suggestion}")
    try:
        with contextlib.redirect_stdout(
            io.StringIO()
        ):  # it prints the name that it loads
            return bsuite.load_from_id(text)
    except Exception as error:
        raise InvalidInput(
            f"bsuite cannot load {text!r}: {describe_error(error)}; choose another experiment."
        ) from error


register(BsuiteAdapter())
