"""Which files a name stands for: domains of rddlrepository, or one's own.

    rddl:SysAdmin_MDP_ippc2011,1          a domain of rddlrepository and its instance
    rddl:domain.rddl,instance.rddl        two files

The domains of rddlrepository are folders of its package, each with a description, a
domain and instances. They are read as files here. The package's own manager would do
the same through a list that it first writes into its folder; that fails where packages
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
from smoothcruiser.problem.arguments import shorten_value

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
    folders = {}
    for path in Path(rddlrepository.__file__).parent.rglob("domain.rddl"):
        description_file = path.with_name("__init__.py")
        if description_file.exists() and (
            description := _read_description(
                description_file.read_text("utf-8", "replace")
            )
        ):
            domain_name, context = description.get("name"), description.get("context")
            folders[f"{domain_name}_{context}" if context else f"{domain_name}"] = (
                path.parent
            )
    return dict(sorted(folders.items()))


def _read_description(text: str) -> dict[str, Any]:
    """The dict ``info`` of a domain's description."""
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "info":
            description: dict[str, Any] = ast.literal_eval(line.value)
            return description
    return {}


def instances(folder: Path) -> list[str]:
    """The numbers of a domain's instances, in order."""
    instance_numbers = (
        path.stem.removeprefix("instance") for path in folder.glob("instance*.rddl")
    )
    return sorted(instance_numbers, key=lambda name: (len(name), name))


def texts(domain: str, instance: Any) -> Texts:
    """The files that a domain and an instance name."""
    if domain.endswith(".rddl"):
        if not isinstance(instance, str):
            raise InvalidInput(
                f"{domain} is a domain; name the file of an instance too, as in "
                "rddl:domain.rddl,instance.rddl."
            )
        return Texts(_read_text(domain), _read_text(instance))
    folder = domains().get(domain)
    if folder is None:
        raise InvalidInput(
            "rddlrepository has no domain "
            f"{shorten_value(domain)}{_suggest_domains(domain)}; your own files are "
            "written rddl:domain.rddl,instance.rddl."
        )
    instance_numbers = instances(folder)
    if isinstance(instance, str) and instance.endswith(".rddl"):
        return Texts(
            (folder / "domain.rddl").read_text("utf-8", "replace"), _read_text(instance)
        )
    if str(instance) not in instance_numbers:
        fault = (
            "needs the number of an instance"
            if instance is None
            else f"has no instance {shorten_value(instance)}"
        )
        raise InvalidInput(
            f"{domain} {fault}; it has {', '.join(instance_numbers)}, as in "
            f"rddl:{domain},{instance_numbers[0]}."
        )
    return Texts(
        _read_text(str(folder / "domain.rddl")),
        _read_text(str(folder / f"instance{instance}.rddl")),
    )


def _suggest_domains(name: str) -> str:
    """Which domains may have been meant."""
    lower_names = {domain_name.lower(): domain_name for domain_name in domains()}
    close_names = difflib.get_close_matches(name.lower(), lower_names, n=4, cutoff=0.4)
    close_names = (
        close_names
        or [domain_name for domain_name in lower_names if name.lower() in domain_name][
            :4
        ]
    )
    suggestions = ", ".join(lower_names[domain_name] for domain_name in close_names)
    return (
        f" (did you mean {suggestions}?)"
        if suggestions
        else f"; it has {len(lower_names)} others"
    )


def _read_text(path: str) -> str:
    try:
        return Path(path).expanduser().read_text("utf-8", "replace")
    except OSError as error:
        raise InvalidInput(
            f"The RDDL file {shorten_value(path)} cannot be read: {error}."
        ) from error
