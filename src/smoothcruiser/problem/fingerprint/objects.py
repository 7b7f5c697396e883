"""The contents of an object, read without running any code of its class.

Fields come from ``__dict__`` and from slots. Properties, ``__getattr__``,
``__getstate__`` and ``__reduce__`` are never called on an object of a user's class.
Objects of C types hold memory that is not visible from Python. What stands for it is a
public form (``STATES``) or, for a library's class, the data that it would pickle; the
objects of all others are opaque.
"""

from __future__ import annotations

import collections
import functools
import io
import logging
import os
import random
import re
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

# members of a class that describe its source, or follow from the other members
SKIPPED = {
    *("__module__", "__qualname__", "__doc__", "__firstlineno__"),
    *("__static_attributes__", "__annotations__", "__annotate__", "__annotate_func__"),
    *("__annotations_cache__", "__type_params__", "__orig_bases__", "__parameters__"),
    *("__dict__", "__weakref__", "__abstractmethods__", "_abc_impl"),
    *("__dataclass_params__", "__slotnames__"),  # copies leave the second
}
_WORD = 8  # bytes of a pointer


def is_a(value: Any, kinds: type | tuple[type, ...]) -> bool:
    """``isinstance`` that does not ask the object, which may answer with code."""
    return issubclass(type(value), kinds)


def is_number(value: Any) -> bool:
    """Whether a value has the same hash in every process."""
    if type(value) is tuple:
        return all(map(is_number, value))
    return type(value) in (int, float, bool, complex) or is_a(value, np.number)


class Layout(NamedTuple):
    """Where the objects of a class keep their contents."""

    slots: tuple[tuple[str, Any], ...]  # names and their descriptors
    cached: frozenset[str]  # fields that are computed from others when needed
    base: type | None  # the built-in type that the class extends
    moving: str | None  # a name for objects that change while programs run
    opaque: bool  # whether objects hold more memory than their base, slots and a dict
    described: bool  # whether the class has a ``__fingerprint__`` of its own
    public_form: Callable[[Any], Any] | None  # stands for memory that is not visible

    @property
    def is_plain(self) -> bool:
        """Whether objects are their fields and nothing else."""
        return not (self.base or self.moving or self.opaque or self.public_form)


def read_layout(cls: type) -> Layout:
    """The layout of a class, read from its bases."""
    slots: dict[str, Any] = {}
    cached, described, num_words = set(), False, 0
    for base in cls.__mro__:
        for name, member in vars(base).items():
            if type(member) is types.MemberDescriptorType:
                num_words += 1
                if not (name.startswith("__") and name.endswith("__")):  # of C types
                    slots.setdefault(name, member)
            elif type(member) is functools.cached_property:
                cached.add(name)
            elif name == "__fingerprint__":
                described = described or type(member) is types.FunctionType
    base_type = next((base for base in cls.__mro__ if base in BASES), None)
    # a dict between the header and the slots, not the one before it (-48, -1)
    num_words += cls.__dictoffset__ > 0 or cls.__dictoffset__ == -_WORD
    num_words += cls.__weakrefoffset__ > 0
    extra_bytes = cls.__basicsize__ - (base_type or object).__basicsize__
    return Layout(
        tuple(slots.items()),
        frozenset(cached),
        base_type,
        _moving_text(cls),
        extra_bytes > _WORD * num_words,
        described,
        str if issubclass(cls, PurePath) else STATES.get(cls),
    )


def read_fields(value: Any, slots: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """The fields of an object by name, in alphabetical order."""
    field_values = dict(dictionary(value))
    for name, member in slots:
        try:
            field_values.setdefault(name, member.__get__(value))
        except AttributeError:
            continue  # a slot that was never set
    return dict(sorted(field_values.items(), key=lambda item: str(item[0])))


def dictionary(value: Any) -> dict[str, Any]:
    """The ``__dict__`` of an object; empty if it has none."""
    try:
        own_dict = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return own_dict if type(own_dict) is dict else {}


def wrapped_function(value: Any) -> Any:
    """The function inside a wrapper that a library made; None if there is none.

    Numba, JAX and ``functools`` keep it in one of two places.
    """
    own_dict = dictionary(value)
    for name in ("py_func", "__wrapped__"):
        if name in own_dict:
            return own_dict[name]
        for cls in type(value).__mro__:
            member: Any = vars(cls).get(name)
            if is_a(member, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                return member.__get__(value)
    return None


# --- built-in types and their subclasses --------------------------------------

# the plain value of a built-in type inside an object of a subclass of it
BASES: dict[type, Callable[[Any], Any]] = {
    collections.OrderedDict: lambda value: list(collections.OrderedDict.items(value)),
    dict: lambda value: dict(dict.items(value)),
    list: lambda value: list(list.__iter__(value)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
    str: str.__str__,
    bytes: lambda value: bytes.__getitem__(value, slice(None)),
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
    int: int.__int__,
    float: float.__float__,
    np.ndarray: lambda value: np.ndarray.view(value, np.ndarray),
}


# a public form of objects with invisible memory, or with more memory than they mean
STATES: dict[type, Callable[[Any], Any]] = {
    functools.cached_property: lambda value: value.func,
    logging.Logger: lambda value: value.name,  # logging changes no answer
    logging.RootLogger: lambda value: value.name,
    type(threading.Lock()): lambda value: None,
    type(threading.RLock()): lambda value: None,
    memoryview: lambda value: (value.format, value.shape, value.tobytes()),
    property: lambda value: (value.fget, value.fset, value.fdel),
    re.Pattern: lambda value: (value.pattern, value.flags),
    staticmethod: lambda value: value.__func__,
    classmethod: lambda value: value.__func__,
    types.MappingProxyType: dict,
}
COMPILED = (
    types.BuiltinFunctionType,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_RANDOM = (
    random.Random,
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)
_WEAK = (
    weakref.ref,
    weakref.WeakKeyDictionary,
    weakref.WeakValueDictionary,
    weakref.WeakSet,
    weakref.ProxyType,
)


def _moving_text(cls: type) -> str | None:
    """A name for objects of ``cls`` that change while programs run; else None."""
    if issubclass(cls, _RANDOM):
        return f"the random numbers of a {cls.__name__}"
    if cls is type(os.environ):
        return "the environment of the process"
    if issubclass(cls, io.IOBase):
        return "an open file"
    if issubclass(cls, _WEAK):
        return f"the contents of a {cls.__name__}"
    if issubclass(cls, types.GeneratorType | types.CoroutineType):
        return f"a running {cls.__name__}"
    return None
