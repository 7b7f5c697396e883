"""Models as NumPy arrays: a sparse matrix, legal actions, the goal, the objective.

    data, indices, indptr   CSR of shape (S*A, S); row s*A + a belongs to the pair (s,
                            a)
    legal                   (S, A): the allowed actions
    goal                    (S,): states; the probability of reaching them is the value
    initial                 a state
    maximize                whether the best policy is meant, or the worst
    reference               optional: the published value; it is not used

An ``.npz`` file is a zip archive of arrays. Nothing is unpickled, and the size of every
array is compared with its header before it is read. Out of scope: rewards, players,
other labels (UMB has them).
"""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from smoothcruiser.adapters.verification.files import DAMAGED, check_size, damage_error
from smoothcruiser.adapters.verification.model import (
    MAX_PAIRS,
    ExplicitModel,
    check_starts,
    check_targets,
)
from smoothcruiser.errors import InvalidInput

NEEDED_ARRAYS = ("data", "indices", "indptr", "legal", "goal", "initial", "maximize")
OPTIONAL_ARRAYS = ("reference",)


def read_model(path: Path, file: str) -> tuple[ExplicitModel, dict[str, Any]]:
    """The model of an ``.npz`` file, and the objective that it names.

    Args:
        path: where it is.
        file: its name in sentences.
    """
    arrays = _read_arrays(path, file)
    missing_names = [
        array_name for array_name in NEEDED_ARRAYS if array_name not in arrays
    ]
    extra_names = sorted(set(arrays) - {*NEEDED_ARRAYS, *OPTIONAL_ARRAYS})
    if missing_names or extra_names:
        fault = (
            f"has no {missing_names[0]!r}"
            if missing_names
            else f"has {extra_names[0]!r} too"
        )
        raise InvalidInput(
            f"{file} must hold the arrays {', '.join(NEEDED_ARRAYS)} and nothing else "
            f"(but {OPTIONAL_ARRAYS[0]}), and it {fault}."
        )
    legal = arrays["legal"]
    if legal.ndim != 2 or 0 in legal.shape or legal.size > MAX_PAIRS:
        raise InvalidInput(
            f"legal of {file} must have shape (S, A) with at most {MAX_PAIRS:,} "
            f"entries, got {legal.shape}."
        )
    num_states = legal.shape[0]
    expected_shapes = {"goal": (num_states,), "initial": (), "maximize": ()}
    for array_name, shape in expected_shapes.items():
        if arrays[array_name].shape != shape:
            raise InvalidInput(
                f"{array_name} of {file} must have shape {shape}, got "
                f"{arrays[array_name].shape}."
            )
    row_starts, next_states = (
        _whole_numbers(file, array_name, arrays) for array_name in ("indptr", "indices")
    )
    probabilities = arrays["data"]
    if (
        len(row_starts) != legal.size + 1
        or probabilities.shape != next_states.shape
        or probabilities.ndim != 1
    ):
        raise InvalidInput(
            f"{file} is damaged: {legal.size:,} pairs need an indptr of one more, and "
            f"data as long as indices; got {len(row_starts):,}, {probabilities.shape} "
            f"and {next_states.shape}."
        )
    check_starts(file, "entries of its rows", row_starts, len(probabilities))
    check_targets(file, next_states, num_states)
    initial_state = _whole_numbers(file, "initial", arrays)
    goal = arrays["goal"].astype(np.bool_)
    model = ExplicitModel(
        file=file,
        start=row_starts,
        target=next_states,
        prob=probabilities.astype(np.float64),
        legal=legal.astype(np.bool_),
        initial=(int(initial_state),),
        labels={"goal": goal},
        rewards={},
        deadlock=~legal.astype(np.bool_).any(axis=1),
    )
    objective = {"reach": "goal", "opt": "max" if bool(arrays["maximize"]) else "min"}
    return model, objective | {"initial": int(initial_state)}


def _whole_numbers(file: str, name: str, arrays: dict[str, Any]) -> Any:
    if arrays[name].dtype.kind not in "iu":
        raise InvalidInput(
            f"{name} of {file} must hold whole numbers, got {arrays[name].dtype}."
        )
    return arrays[name].astype(np.int64)


def _read_arrays(path: Path, file: str) -> dict[str, Any]:
    """The arrays by name; none is larger than it says, and none is unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            check_size(
                f"{file}, unpacked,", sum(member.file_size for member in members)
            )
            return {
                member.filename.removesuffix(".npy"): _read_array(archive, member, file)
                for member in members
            }
    except InvalidInput:
        raise
    except DAMAGED as error:
        raise damage_error(file, error) from error


def _read_array(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: str) -> Any:
    """One array; its header is read first."""
    npy_format = np.lib.format
    with archive.open(member) as stream:
        version = npy_format.read_magic(stream)
        header_readers = {
            (1, 0): npy_format.read_array_header_1_0,
            (2, 0): npy_format.read_array_header_2_0,
        }
        if version not in header_readers:
            raise ValueError(f"{member.filename} has version {version}")
        shape, columns_first, dtype = header_readers[version](stream)
        if dtype.kind not in "biuf":
            raise InvalidInput(
                f"{member.filename} of {file} holds {dtype}, and only plain numbers "
                "are read: nothing is unpickled."
            )
        array_bytes = stream.read()
        if len(array_bytes) != math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"{member.filename} has {len(array_bytes)} bytes for {shape}"
            )
        flat_array = np.frombuffer(array_bytes, dtype=dtype)
        return flat_array.reshape(shape, order="F" if columns_first else "C")
