"""Environments of other packages that register themselves with Gymnasium.

``gymnasium.make("MiniGrid-Empty-5x5-v0")`` knows the name only after ``import
minigrid``. Here the beginning of a name says which package to import, and which extra
installs it where it is missing. One more thing is known of Box2D: bodies of a compiled
physics engine are neither copied nor put back, so it cannot be planned in.

Out of scope: families that Gymnasium registers itself, and known facts of environments
that can be planned in (``known``).
"""

from __future__ import annotations

import os
from importlib import import_module

from smoothcruiser.errors import InvalidInput, MissingExtra

# the beginning of a name: the module that registers it, and the extra
FAMILIES = {
    "ALE/": ("ale_py", "ale"),
    "MiniGrid-": ("minigrid", "minigrid"),
    "BabyAI-": ("minigrid", "minigrid"),
}


def find_family(text: str) -> tuple[str, str] | None:
    """The module that registers ``text`` and its extra; None for Gymnasium's own."""
    return next(
        (
            family
            for name_prefix, family in FAMILIES.items()
            if text.startswith(name_prefix)
        ),
        None,
    )


def missing_package(text: str, module: str, extra: str) -> MissingExtra:
    """The sentence for a package that is not installed."""
    return MissingExtra(
        f"{text} needs the package {module}: pip install 'smoothcruiser[{extra}]'."
    )


def register_family(text: str) -> None:
    """Import the package that registers ``text``; refuse unsupported families."""
    import gymnasium

    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")  # it greets on stdout
    family = find_family(text)
    if family is not None:
        try:
            gymnasium.register_envs(import_module(family[0]))
        except ImportError as error:
            raise missing_package(text, *family) from error
    env_spec = gymnasium.registry.get(text)
    if env_spec is not None and str(env_spec.entry_point).startswith(
        "gymnasium.envs.box2d"
    ):
        raise InvalidInput(
            f"{text} runs on Box2D, whose bodies can neither be copied nor put back, "
            "so it cannot be planned in; environments of MuJoCo, classic control, ALE "
            "and MiniGrid can."
        )
