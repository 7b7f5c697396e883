"""Environments of other packages that register themselves with Gymnasium.

``gymnasium.make("MiniGrid-Empty-5x5-v0")`` knows the name only after ``import
minigrid``. Here the beginning of a name says which package to import, and which extra
installs it where it is missing. Two more things are known of some families: that they
cannot be planned in, and in which range their rewards lie.

  Box2D      bodies of a compiled physics engine: they are neither copied nor put back
  MiniGrid   pays 1 - 0.9 step/max_steps at the goal and 0 elsewhere (MiniGrid 3.2;
             DynamicObstacles pays -1 for a collision); its state is plain Python, so
             its key is all that it holds (``whole``)

What this file leaves out: families that Gymnasium registers itself.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from smoothcruiser.errors import InvalidInput, MissingExtra

# what a name begins with: the module that registers it, and the extra
FAMILIES = {
    "ALE/": ("ale_py", "ale"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
}


def package(text: str) -> tuple[str, str] | None:
    """The module that registers ``text`` and its extra; None for Gymnasium's own."""
    return next((at for begin, at in FAMILIES.items() if text.startswith(begin)), None)


def missing(text: str, module: str, extra: str) -> MissingExtra:
    """The sentence for a package that is not installed."""
    return MissingExtra(
        f"{text} needs the package {module}: pip install 'smoothcruiser[{extra}]'."
    )


def registered(text: str) -> None:
    """Import the package that registers ``text``, and refuse what cannot work."""
    import gymnasium

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it greets on stdout
    family = package(text)
    if family is not None:
        try:
            gymnasium.register_envs(import_module(family[0]))
        except ImportError as error:
            raise missing(text, *family) from error
    spec = gymnasium.registry.get(text)
    if spec is not None and str(spec.entry_point).startswith("gymnasium.envs.box2d"):
        raise InvalidInput(
            f"{text} runs on Box2D, whose bodies can neither be copied nor put back, so "
            "it cannot be planned in; environments of MuJoCo, classic control, ALE and "
            "MiniGrid can."
        )


def _is_minigrid(env: Any) -> bool:
    return type(env).__module__.startswith("minigrid.envs.")


def family_range(env: Any) -> tuple[float, float] | None:
    """(low, high) of the rewards of an environment of a known family, or None."""
    if not _is_minigrid(env):
        return None
    names = [kind.__name__ for kind in type(env).__mro__]
    return (-1.0 if "DynamicObstaclesEnv" in names else 0.0, 1.0)


def family_key(env: Any) -> str | None:
    """The key that snapshots of a known family have by default."""
    return "contents" if _is_minigrid(env) else None
