"""Models as NumPy arrays: a sparse matrix, who may do what, the goal, and what is asked.

    data, indices, indptr   CSR of shape (S*A, S); row s*A + a belongs to the pair (s, a)
    legal                   (S, A): the allowed actions
    goal                    (S,): states whose probability of being reached is asked for
    initial                 a state
    maximize                whether the best policy is meant, or the worst
    reference               optional: the published value; it is not used

An ``.npz`` file is a zip archive of arrays. Nothing is unpickled, and the size of every
array is compared with its header before it is read. What this file leaves out: rewards,
players, other labels (UMB has them).
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.files import DAMAGED, check_size, damaged
from smoothcruiser.adapters.verification.model import (
    MOST_PAIRS,
    Explicit,
    check_starts,
    check_targets,
)
from smoothcruiser.errors import InvalidInput

NEEDED = ("data", "indices", "indptr", "legal", "goal", "initial", "maximize")
OPTIONAL = ("reference",)


def read(path: Path, file: str) -> tuple[Explicit, dict[str, Any]]:
    """The model of an ``.npz`` file, and the objective that it names.

    Args:
        path: where it is.
        file: what sentences call it.
    """
    arrays = _arrays(path, file)
    missing = [name for name in NEEDED if name not in arrays]
    extra = sorted(set(arrays) - {*NEEDED, *OPTIONAL})
    if missing or extra:
        wrong = f"has no {missing[0]!r}" if missing else f"has {extra[0]!r} too"
        raise InvalidInput(
            f"{file} must hold the arrays {', '.join(NEEDED)} and nothing else (but "
            f"{OPTIONAL[0]}), and it {wrong}."
        )
    legal = arrays["legal"]
    if legal.ndim != 2 or 0 in legal.shape or legal.size > MOST_PAIRS:
        raise InvalidInput(
            f"legal of {file} must have shape (S, A) with at most {MOST_PAIRS:,} "
            f"entries, got {legal.shape}."
        )
    size = legal.shape[0]
    shapes = {"goal": (size,), "initial": (), "maximize": ()}
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise InvalidInput(
                f"{name} of {file} must have shape {shape}, got {arrays[name].shape}."
            )
    start, target = (_whole(file, name, arrays) for name in ("indptr", "indices"))
    prob = arrays["data"]
    if len(start) != legal.size + 1 or prob.shape != target.shape or prob.ndim != 1:
        raise InvalidInput(
            f"{file} is damaged: {legal.size:,} pairs need an indptr of one more, and "
            f"data as long as indices; got {len(start):,}, {prob.shape} and "
            f"{target.shape}."
        )
    check_starts(file, "entries of its rows", start, len(prob))
    check_targets(file, target, size)
    initial = _whole(file, "initial", arrays)
    goal = arrays["goal"].astype(np.bool_)
    model = Explicit(
        file=file,
        start=start,
        target=target,
        prob=prob.astype(np.float64),
        legal=legal.astype(np.bool_),
        initial=(int(initial),),
        labels={"goal": goal},
        rewards={},
        deadlock=~legal.astype(np.bool_).any(axis=1),
    )
    asked = {"reach": "goal", "opt": "max" if bool(arrays["maximize"]) else "min"}
    return model, asked | {"initial": int(initial)}


def _whole(file: str, name: str, arrays: dict[str, Any]) -> Any:
    if arrays[name].dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} of {file} must hold whole numbers, got {arrays[name].dtype}."
        )
    return arrays[name].astype(np.int64)


def _arrays(path: Path, file: str) -> dict[str, Any]:
    """The arrays by name; none is larger than it says, and none is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_size(f"{file}, unpacked,", sum(each.file_size for each in members))
            return {
                each.filename.removesuffix(".npy"): _array(archive, each, file)
                for each in members
            }
    except InvalidInput:
        raise
    except DAMAGED as error:
        raise damaged(file, error) from error


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: str) -> Any:
    """One array, whose header is read first."""
    form = np.lib.format
    with archive.open(member) as stream:
        version = form.read_magic(stream)
        read = {(1, 0): form.read_array_header_1_0, (2, 0): form.read_array_header_2_0}
        if version not in read:
            raise ValueError(f"{member.filename} has version {version}")
        shape, columns_first, dtype = read[version](stream)
        if dtype.kind not in "biuf":
            raise InvalidInput(
                f"{member.filename} of {file} holds {dtype}, and only plain numbers are "
                "read: nothing is unpickled."
            )
        body = stream.read()
        if len(body) != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"{member.filename} has {len(body)} bytes for {shape}")
        flat = np.frombuffer(body, dtype=dtype)
        return flat.reshape(shape, order="F" if columns_first else "C")
