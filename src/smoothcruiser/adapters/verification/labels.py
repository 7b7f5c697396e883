"""Labels combined as property files write them: ``"finished"&!"agree"``.

    states   "label" | label | true | false | !states | states&states | states|states
             | (states)

``!`` binds closest, then ``&``, then ``|``, as in PRISM and Storm. A label without its
quotes, which shells take away, is a word of letters, digits and ``_``. Out of scope:
expressions over variables, which only Storm knows (``storm``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

from smoothcruiser.problem.tabular import Bools

TOKEN = re.compile(r'\s*(?:"(?P<quoted>[^"]*)"|(?P<word>\w+)|(?P<sign>[!&|()]))')
DEEPEST = 100  # of brackets and negations


class NoCombination(Exception):
    """A text that is no combination of labels; its words say why."""


def combine_labels(text: str, labels: Mapping[str, Bools]) -> Bools:
    """(S,): where a combination of labels holds."""
    num_states = len(next(iter(labels.values()))) if labels else 0
    reader = _Reader(_tokens(text), labels, num_states)
    states = reader.read_alternatives(0)
    if reader.left:
        raise NoCombination(
            f"{reader.left[0][1]!r} comes where nothing more is expected"
        )
    return states


def is_combination(text: str) -> bool:
    """Whether a text is more than one label: it has a sign of the grammar."""
    return any(sign in text for sign in '!&|("')


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, position = [], 0
    while text[position:].strip():
        match = TOKEN.match(text, position)
        if match is None:
            raise NoCombination(f"{text[position:].strip()[:20]!r} is no part of it")
        token_kind = str(match.lastgroup)
        tokens.append((token_kind, match[token_kind]))
        position = match.end()
    return tokens


class _Reader:
    """The unread tokens of a text, and the rules of the grammar that read them."""

    def __init__(
        self, tokens: list[tuple[str, str]], labels: Mapping[str, Bools], size: int
    ) -> None:
        self.left, self.labels, self.size = tokens, labels, size

    def _accept_sign(self, sign: str) -> bool:
        """Whether a sign comes next; if so it is consumed."""
        if self.left[:1] != [("sign", sign)]:
            return False
        self.left = self.left[1:]
        return True

    def read_alternatives(self, depth: int) -> Bools:
        states = self.read_conjunction(depth)
        while self._accept_sign("|"):
            states = states | self.read_conjunction(depth)
        return states

    def read_conjunction(self, depth: int) -> Bools:
        states = self.read_term(depth)
        while self._accept_sign("&"):
            states = states & self.read_term(depth)
        return states

    def read_term(self, depth: int) -> Bools:
        if depth > DEEPEST:
            raise NoCombination("its brackets are nested too deeply")
        if self._accept_sign("!"):
            return ~self.read_term(depth + 1)
        if self._accept_sign("("):
            states = self.read_alternatives(depth + 1)
            if not self._accept_sign(")"):
                raise NoCombination("a bracket is not closed")
            return states
        if not self.left or self.left[0][0] == "sign":
            raise NoCombination("a label is missing")
        (token_kind, word), *self.left = self.left
        if token_kind == "word" and word in ("true", "false"):
            return np.full(self.size, word == "true")
        if word not in self.labels:
            raise NoCombination(f"there is no label {word!r}")
        return self.labels[word]
