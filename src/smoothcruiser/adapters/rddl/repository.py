"""Which files a name stands for: domains of rddlrepository, or one's own.

    rddl:SysAdmin_MDP_ippc2011,1          a domain of rddlrepository and its instance
    rddl:domain.rddl,instance.rddl        two files

The domains of rddlrepository are folders of its package, each with a description, a
domain and instances. They are read as files here. The package's own manager would do the
same through a list that it first writes into its folder; that fails where packages
cannot be written to, and two processes that begin at once read half a list.
"""

from __future__ import annotations

import ast
import difflib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from smoothcruiser.errors import InvalidInput, MissingExtra
from smoothcruiser.problem.arguments import shortened

try:
    import rddlrepository
except ImportError as error:
    raise MissingExtra(
        "RDDL problems need pyRDDLGym and rddlrepository: "
        "pip install 'smoothcruiser[rddl]'."
    ) from error


@dataclass(frozen=True)
class Texts:
    """The text of a domain and of an instance."""

    domain: str
    instance: str


@lru_cache(maxsize=1)
def domains() -> dict[str, Path]:
    """The folders of rddlrepository's domains, by name."""
    found = {}
    for path in Path(rddlrepository.__file__).parent.rglob("domain.rddl"):
        about = path.with_name("__init__.py")
        if about.exists() and (
            described := _described(about.read_text("utf-8", "replace"))
        ):
            name, context = described.get("name"), described.get("context")
            found[f"{name}_{context}" if context else f"{name}"] = path.parent
    return dict(sorted(found.items()))


def _described(text: str) -> dict[str, Any]:
    """The dict ``info`` of a domain's description."""
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "info":
            found: dict[str, Any] = ast.literal_eval(line.value)
            return found
    return {}


def instances(folder: Path) -> list[str]:
    """The numbers of a domain's instances, in order."""
    found = (
        path.stem.removeprefix("instance") for path in folder.glob("instance*.rddl")
    )
    return sorted(found, key=lambda name: (len(name), name))


def texts(domain: str, instance: Any) -> Texts:
    """The files that a domain and an instance name."""
    if domain.endswith(".rddl"):
        if not isinstance(instance, str):
            raise InvalidInput(
                f"{domain} is a domain; name the file of an instance too, as in "
                "rddl:domain.rddl,instance.rddl."
            )
        return Texts(_text(domain), _text(instance))
    folder = domains().get(domain)
    if folder is None:
        raise InvalidInput(
            f"rddlrepository has no domain {shortened(domain)}{_near(domain)}; your own "
            "files are written rddl:domain.rddl,instance.rddl."
        )
    there = instances(folder)
    if isinstance(instance, str) and instance.endswith(".rddl"):
        return Texts(
            (folder / "domain.rddl").read_text("utf-8", "replace"), _text(instance)
        )
    if str(instance) not in there:
        lacks = (
            "needs the number of an instance"
            if instance is None
            else f"has no instance {shortened(instance)}"
        )
        raise InvalidInput(
            f"{domain} {lacks}; it has {', '.join(there)}, as in "
            f"rddl:{domain},{there[0]}."
        )
    return Texts(
        _text(str(folder / "domain.rddl")),
        _text(str(folder / f"instance{instance}.rddl")),
    )


def _near(name: str) -> str:
    """Which domains may have been meant."""
    lower = {each.lower(): each for each in domains()}
    near = difflib.get_close_matches(name.lower(), lower, n=4, cutoff=0.4)
    near = near or [each for each in lower if name.lower() in each][:4]
    found = ", ".join(lower[each] for each in near)
    return f" (did you mean {found}?)" if found else f"; it has {len(lower)} others"


def _text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidInput(
            f"The RDDL file {shortened(path)} cannot be read: {error}."
        ) from error
