"""The price of a promise, as a page: sliders over a grid of what ``explain`` prints.

Every number on the page is one that ``smoothcruiser explain`` prints for the command that
the page shows; between the points of the grid there is nothing, so nothing is
interpolated. The page holds its data and its script and asks nobody for anything.

    python docs/price/build.py --out docs/_build/html/price.html   # from prices.json
    python docs/price/build.py --fresh                             # computes the grid anew

``prices.json`` keeps the grid, so that the page is built in seconds: a grid of all points
takes some CPU minutes. Each build compares ``--check`` points with ``explain`` as it is
now, and ends with an error if one differs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import smoothcruiser as sc
from smoothcruiser.display.plans import rivals_blocks
from smoothcruiser.display.price_text import (
    ALTERNATIVES_ABOVE,
    COMPILED_SPEED,
    rivals,
    time_sentence,
)
from smoothcruiser.schedule.number_text import compact, short
from smoothcruiser.schedule.schedule import Schedule
from smoothcruiser.schedule.text import (
    describe_price,
    describe_promise,
    describe_root,
    picture,
)

HERE = Path(__file__).parent
DATA, TEMPLATE = HERE / "prices.json", HERE / "page.html"
PLACE = "/*DATA*/null"  # in the template; the data stand there

# The axes, in the order of the sliders. A point that takes longer than some seconds to
# compile (a discount near 1 with little regularization) costs more than anybody can pay.
AXES: dict[str, tuple[Any, ...]] = {
    "discount": (0.2, 0.5, 0.7, 0.9),
    "temperature": (0.1, 1, 10, 50),
    "actions": (2, 4, 10),
    "epsilon": ("20%", "10%", "5%"),
    "delta": (0.1, 0.01),
}
START = {
    "discount": 0.5,
    "temperature": 1,
    "actions": 4,
    "epsilon": "10%",
    "delta": 0.1,
}
COMMAND = (
    "smoothcruiser explain garnet:actions={actions} --discount {discount} "
    "--temperature {temperature} --epsilon {epsilon} --delta {delta}"
)
QUICK = 0.5  # up to this discount a point is compiled within about a second
# what is frequent in the texts, the longer ones first
FREQUENT = re.compile(
    " {3,}|[├└│→] ?| draws of each of | actions; bound: |; bets on the data may stop it early "
    "at | checkpoints from draw |at most | oracle calls; about | expected |, as the data may "
    "allow an early stop| on one core at 50 M calls/s .compiled; --calibrate measures yours.|"
    " rollout| plug-in| random| blind| constant| oracle calls on average, as corrections "
    "are made by chance; more than | with a chance below 1e-9|the value and every action "
    "value within | with probability | of the value span | times"
)


class Point(NamedTuple):
    """One position of all sliders."""

    discount: float
    temperature: float
    actions: int
    epsilon: str
    delta: float

    @property
    def key(self) -> str:
        """Its name in the data."""
        return " ".join(f"{x}" for x in self)

    @property
    def command(self) -> str:
        """What prints its numbers."""
        return COMMAND.format(**self._asdict())

    def explained(self) -> Schedule:
        """The plan that ``explain`` prints for it."""
        problem = sc.make(
            f"garnet:actions={self.actions}",
            discount=self.discount,
            temperature=self.temperature,
        )
        found = sc.explain(problem, epsilon=self.epsilon, delta=self.delta)
        assert isinstance(found, Schedule)
        return found


def points() -> list[Point]:
    """All positions of the sliders."""
    return [Point(*values) for values in itertools.product(*AXES.values())]


def entry(point: Point) -> dict[str, Any]:
    """What the page shows at a point: texts, as ``explain`` prints them."""
    schedule = point.explained()
    calls = schedule.num_calls
    expected = compact(schedule.expected_calls)
    if schedule.randomized:  # then the price's sentence has the mean
        expected = short(schedule.mean_calls)
    (grid,) = rivals_blocks(schedule, rivals(schedule))
    return {
        "calls": short(calls),
        "expected": expected,
        "randomized": schedule.randomized,
        "payable": calls <= ALTERNATIVES_ABOVE,
        "promise": describe_promise(schedule),
        "price": describe_price(schedule),
        "time": time_sentence(calls, COMPILED_SPEED, measured=False),
        "root": describe_root(schedule),
        "plan": picture(schedule),
        "rivals": [list(row) for row in grid.rows[1:]],
    }


# --- the grid -----------------------------------------------------------------------


def computed(fresh: bool) -> dict[str, dict[str, Any]]:
    """The entries of all points: those of the file, the others computed and kept."""
    known = {} if fresh or not DATA.exists() else json.loads(DATA.read_text())
    missing = [point for point in points() if point.key not in known]
    for i, point in enumerate(missing, 1):
        print(f"{i} of {len(missing)}: {point.command}", file=sys.stderr, flush=True)
        known[point.key] = entry(point)
        if i % 6 == 0:
            _keep(known)
    found = {point.key: known[point.key] for point in points()}
    if missing:
        _keep(found)
    return found


def _keep(entries: dict[str, dict[str, Any]]) -> None:
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in entries.items()
    ]
    DATA.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def differing(entries: dict[str, dict[str, Any]], chosen: list[Point]) -> list[str]:
    """The commands among ``chosen`` that now print something else."""
    return [p.command for p in chosen if entry(p) != entries[p.key]]


# --- the page -----------------------------------------------------------------------


def packed(entries: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The data of the page: each text once, what is frequent in it as one character."""
    texts: dict[str, int] = {}

    def place(x: Any) -> Any:
        if isinstance(x, str):
            return texts.setdefault(x, len(texts))
        return [place(y) for y in x] if isinstance(x, list) else x

    placed = {
        key: [place(value) for value in x.values()] for key, x in entries.items()
    }
    codes = _codes("".join(texts))
    return {
        "axes": AXES,
        "command": COMMAND,
        "start": {name: AXES[name].index(x) for name, x in START.items()},
        "fields": list(next(iter(entries.values()))),
        "codes": {code: phrase for phrase, code in codes.items()},
        "points": placed,
        "texts": [FREQUENT.sub(lambda found: codes[found[0]], text) for text in texts],
    }


def _codes(texts: str) -> dict[str, str]:
    """A character that no text has for each frequent phrase, the most useful first."""
    gains = Counter(FREQUENT.findall(texts))
    phrases = sorted(gains, key=lambda x: -gains[x])
    free = [chr(c) for c in (*range(33, 127), *range(0x100, 0x180))]
    free = [c for c in free if c not in texts and c not in '"\\<&']
    return dict(zip(phrases, free, strict=False))


def page(entries: dict[str, dict[str, Any]]) -> str:
    """The whole page, with its data in it."""
    data = json.dumps(packed(entries), ensure_ascii=False, separators=(",", ":"))
    template = TEMPLATE.read_text()
    assert template.count(PLACE) == 1
    return template.replace(PLACE, data.replace("<", "\\u003c"))


def main() -> None:
    """Build the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--out", type=Path, help="where to write the page")
    parser.add_argument("--fresh", action="store_true", help="compute the grid anew")
    parser.add_argument("--check", type=int, default=3, help="points to compare")
    asked = parser.parse_args()
    entries = computed(asked.fresh)
    quick = [point for point in points() if point.discount <= QUICK]
    if wrong := differing(entries, random.Random(0).sample(quick, asked.check)):
        sys.exit(
            f"{DATA.name} is out of date: {wrong[0]} prints something else now. "
            "Compute it anew with: python docs/price/build.py --fresh"
        )
    if asked.out:
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        asked.out.write_text(page(entries))


if __name__ == "__main__":
    main()
