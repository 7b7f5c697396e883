"""How types of fields become JSON, whatever version of NumPy names its arrays."""

import types

import numpy as np
from numpy.typing import NDArray

from smoothcruiser.records.json_shapes import Array, shape_of


class Alias:
    """What ``type NDArray[S] = np.ndarray[…]`` of NumPy 2.5 is, on every Python."""

    __value__ = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def test_an_array_is_an_array_by_its_own_name_and_by_an_alias():
    assert isinstance(shape_of(NDArray[np.float64]), Array)
    assert isinstance(shape_of(types.GenericAlias(Alias(), (np.float64,))), Array)
