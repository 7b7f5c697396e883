"""The grammar behind ``command_lines``: valid lines, and what can be wrong with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

# A user's module, in the folder of the lines.
OWN = """
import sys
import smoothcruiser as sc

def step(state, action, rng):
    return 0.5 * rng.random() + 0.5 * action, (state + action + 1) % 7

def build(step=step, temperature=10.0, discount=0.2):
    facts = {"discount": discount, "operator": sc.Entropy(temperature)}
    return sc.MDP(step, num_actions=2, initial_state=0, **facts, name="own")

problem = build()

def hot(temperature=5.0, discount=0.2):
    return build(temperature=temperature, discount=discount)

def broken():
    raise RuntimeError("no licence\\x1b[31m\\r")

def leaves():
    sys.exit("goodbye")

def number():
    return 3

def raising():
    def step(state, action, rng):
        raise ValueError("\\x1b]8;;x\\x07 \\u202e of the simulator")
    return build(step)

def nan():
    return build(lambda state, action, rng: (float("nan"), state))

def first(state, problem, rng):
    return 0
"""

KEPT = "kept.db"  # a store that the warming fills


@dataclass(frozen=True)
class Line:
    """The words after ``smoothcruiser``."""

    arguments: tuple[str, ...]
    is_valid: bool = True

    @property
    def command(self) -> str:
        """The command, as far as the line names one."""
        first = self.arguments[0] if self.arguments else ""
        return first if first in COMMANDS else "none"

    @property
    def wants_json(self) -> bool:
        """Whether --json is asked for, and help is not."""
        asks_help = {"--help", "-h", "--version"} & set(self.arguments)
        return "--json" in self.arguments and not asks_help


Words = list[str]

# --- valid lines --------------------------------------------------------------

OPERATORS = ("entropy", "kl", "sparsemax", "square-root")
SMALL = (
    "chain:n=4",
    "chain:n=5",
    "chain",
    "gridworld:n=3",
    "garnet:states=6,actions=2",
    "garnet:states=5,seed=3",
    "random-game:states=6,actions=2,seed=1",
    "random-game:states=6,alternating=true",
)
LITERATURE = ("d-chain:d=5", "synthetic-tree:k=2,d=3", "sailing:n=3")
TREES = ("uct", "ments", "rents", "tents", "bts", "dents")


def world(chance: Random) -> Words:
    """A problem on which promises are cheap."""
    if chance.random() < 0.15:
        return ["own_world:problem"]
    if chance.random() < 0.1:
        return ["own_world:hot", "--temperature", chance.choice(["8", "12.5"])]
    words = [chance.choice(SMALL), "--discount", chance.choice(["0.1", "0.2", ".25"])]
    words += ["--temperature", chance.choice(["10", "20", "1e1"])]
    return words + ["--operator", chance.choice(OPERATORS)] * (chance.random() < 0.3)


def known_world(chance: Random) -> Words:
    """A problem with tables, of any discount and temperature."""
    if chance.random() < 0.25:
        words = [chance.choice(LITERATURE), "--discount", "1"]
    else:
        words = [
            chance.choice(SMALL),
            "--discount",
            chance.choice(["0", "0.5", "0.9"]),
        ]
    words += ["--temperature", chance.choice(["0.5", "1", "3"])]
    return words + ["--operator", chance.choice(OPERATORS)] * (chance.random() < 0.3)


def _some(chance: Random, *options: Words, share: float = 0.2) -> Words:
    """Each of the options with a chance of ``share``."""
    return [word for option in options if chance.random() < share for word in option]


def promise(chance: Random) -> Words:
    """An accuracy and a confidence that are cheap."""
    epsilon = chance.choice(["20%", "30%", "25.5%"])
    return ["--epsilon", epsilon, "--delta", chance.choice(["0.1", "0.2", "1e-1"])]


def _problems(chance: Random, cheap: bool) -> Words:
    return _some(chance, ["--json"], share=0.5)


def _explain(chance: Random, cheap: bool) -> Words:
    words = [*world(chance), *promise(chance)]
    method = chance.choice(["smoothcruiser", "auto", "sparse-sampling", "certified"])
    words += _some(chance, ["--method", method], ["--json"], share=0.4)
    return words + _some(chance, ["--target", "value"], ["--budget", "1e7"])


def _plan(chance: Random, cheap: bool) -> Words:
    ways = (
        (_scheduled, _exactly) if cheap else (_scheduled, _tree, _certified, _exactly)
    )
    seed = ["--seed", str(chance.randrange(100))]
    page = ["--report", "page.html"]
    more = _some(chance, ["--json"], seed, page) + _some(chance, ["--compare-exact"])
    return chance.choice(ways)(chance, cheap) + more


def _scheduled(chance: Random, cheap: bool) -> Words:
    method = chance.choice(["smoothcruiser", "sparse-sampling"])
    words = [*world(chance), *promise(chance), "--method", method]
    executors = ["reference"] if cheap else ["python", "reference"]
    if not cheap and not words[0].startswith("own"):
        executors += ["compiled", "batched"]
    if cheap or chance.random() < 0.7:
        words += ["--executor", chance.choice(executors)]
    elif chance.random() < 0.04:
        return [*words, "--executor", "processes", "--workers", "1"]
    words += _some(
        chance, ["--store", f"s{chance.randrange(5)}.db"], ["--shards", "3"]
    )
    return words + _some(chance, ["--state", "1"], ["--seconds", "500"])


def _exactly(chance: Random, cheap: bool) -> Words:
    method = _some(chance, ["--method", chance.choice(["auto", "exact"])], share=0.6)
    promised = [] if "exact" in method else promise(chance)
    return [*known_world(chance), *method, *promised]


def _tree(chance: Random, cheap: bool) -> Words:
    words = [*known_world(chance), "--method", chance.choice(TREES)]
    limit = ["--budget", "2e3"], ["--simulations", "150"], ["--seconds", "0.05"]
    return (
        words + chance.choice(limit) + _some(chance, ["--option", "exploration=1.5"])
    )


def _certified(chance: Random, cheap: bool) -> Words:
    words = [*world(chance), "--method", "certified", "--delta", "0.1"]
    limit = ["--epsilon", "30%"], ["--budget", "2e4"], ["--seconds", "0.1"]
    return words + chance.choice(limit)


def _exact(chance: Random, cheap: bool) -> Words:
    return known_world(chance) + _some(chance, ["--json"], ["--state", "1"], share=0.4)


def _runs(chance: Random, cheap: bool) -> Words:
    return ["--store", KEPT, *_some(chance, ["--json"], share=0.5)]


def _compare(chance: Random, cheap: bool) -> Words:
    chosen = ["exact", *chance.sample(TREES, 2), "certified"]
    words = [
        *known_world(chance)[:5],
        "--budget",
        "1000",
        "--methods",
        ",".join(chosen),
    ]
    return words + _some(chance, ["--json"], ["--repeats", "2"], ["--points", "2"])


def _play(chance: Random, cheap: bool) -> Words:
    words = [*known_world(chance)[:5], "--episodes", "2", "--steps", "3"]
    words += ["--method", chance.choice(TREES), "--budget", "300"]
    return words + _some(chance, ["--json"], ["--seed", "7"], ["--opponent", "random"])


def _check(chance: Random, cheap: bool) -> Words:
    return world(chance) + _some(
        chance, ["--json"], ["--call-seconds", "5"], ["--seed", "3"]
    )


def _resume(chance: Random, cheap: bool) -> Words:
    return ["--resume", "1", "--store", KEPT, *_some(chance, ["--json"])]


def _help(chance: Random, cheap: bool) -> Words:
    return [chance.choice(["--help", "-h"])]


Maker = Callable[[Random, bool], Words]

# how often, of cheap lines and of all; the command; the words after it
WEIGHTS: tuple[tuple[int, int, str, Maker], ...] = (
    (2, 2, "problems", _problems),
    (6, 16, "explain", _explain),
    (6, 45, "plan", _plan),
    (1, 2, "plan", _resume),
    (4, 10, "exact", _exact),
    (2, 4, "runs", _runs),
    (0, 4, "compare", _compare),
    (0, 5, "play", _play),
    (0, 5, "check", _check),
    (1, 2, "plan", _help),
    (1, 1, "reproduce", _help),
)
COMMANDS = tuple(dict.fromkeys(command for *_, command, _ in WEIGHTS))


def valid(chance: Random, *, cheap: bool) -> Line:
    """A line that must run."""
    weights = [light if cheap else full for light, full, *_ in WEIGHTS]
    ((*_, command, make),) = chance.choices(WEIGHTS, weights)
    return Line((command, *make(chance, cheap)))


def warming(*, cheap: bool) -> list[Line]:
    """Lines that compile everything that lines need, and fill the store."""
    chain = ["chain:n=5", "--discount", "0.2", "--temperature", "10"]
    asked = ["--epsilon", "20%", "--delta", "0.1", "--method", "smoothcruiser"]
    stored = ["plan", *chain, *asked, "--executor", "reference", "--store", KEPT]
    lines = [stored, ["exact", *chain]]
    if not cheap:
        for name in (*SMALL[3:7:2], "chain"):
            base = [name, *chain[1:]]
            for operator in OPERATORS:
                said = ["--operator", operator]
                lines.append(["plan", *base, *asked, *said])
                lines.append(["exact", *base, *said])
                lines.append(
                    ["plan", *base, *said, *asked[:4], "--method", "certified"]
                )
                for method in TREES:
                    tree = ["--method", method, "--budget", "100"]
                    lines.append(["plan", *base, *said, *tree])
        lines.append(["play", *chain, "--method", "uct", "--budget", "100"])
        lines.append(["check", *chain])
    return [Line(tuple(line)) for line in lines]


# --- faults -------------------------------------------------------------------

VALUES = (
    "", " ", "-1", "0", "-0.0", "1", "nan", "NaN", "inf", "-inf", "1e999", "1e308",
    "1e-300", "9" * 400, "9" * 5000, "1e400000000", "0x10", "1_000", "١٢", "½", "²",
    "5%", "5%%", "%", "-5%", "1e-9%", "true", "null", "None", "[]", "{}", "[1, 2]",
    "[" * 3000, '{"a": 1, "a": 2}', '"text"', "[NaN]", "\x1b[31mred\x1b[0m",
    "\x1b]8;;http://x\x07link", "a\rb", "a\bb", "\u202eabc", "a\u200bb", "💥", "é" * 50,
    "\udcff\udcfe", "a" * 5000, "a b", "a=b", "=", "a=", "--", "-", "-h", "..", "/",
    "/nonexistent/folder/file", ".", "page.html/x", "own_world.py", "%s%n", "$(reboot)",
    "'; drop table runs; --", "auto", "exact", "paper", "uct", "reference", "dask:x",
    "batched", "value", "kl", "max", "random", "own_world:first", "2", "1e5", "100000000",
)  # fmt: skip
PROBLEMS = (
    "", ":", "a:b", ":x", "x:", "maze", "chain:", "chain:n", "chain:n=", "chain:=5",
    "chain:n=1", "chain:n=-3", "chain:n=2.5", "chain:n=true", "chain:n=five",
    "chain:n=1e9", "chain:n=1000000000000", "chain:n=5,n=6", "chain:m=5", "chain:n=NaN",
    "chain:n=" + "9" * 400, "chain:n=" + "9" * 5000, "chain:n=[[[[1]]]]",
    "chain:horizon=0", "chain:horizon=1000000000000000000000", "gridworld:n=100000",
    "garnet:states=1000000000", "garnet:actions=1000000000000", "garnet:seed=-1",
    "garnet:branching=0", "random-game:alternating=maybe", "d-chain:d=10000000000000",
    "d-chain:final=inf", "frozen-lake:horizon=100000000", "sailing:n=100000",
    "sailing:wind=9", "synthetic-tree:k=2,d=1000000000", "synthetic-tree:k=99999999",
    "gym:", "gym:NoSuchWorld-v0", "openspiel:", "openspiel:no_such_game", "os:getcwd",
    "sys:exit", "json:loads", ".:x", "..:x", "own_world", "own_world:broken",
    "own_world:leaves", "own_world:number", "own_world:nothing", "own_world:raising",
    "own_world:nan", "own_world:problem:x", "own_world:\x1b[31m", "\x1b]0;title\x07:x",
    "\u202echain:n=5", "chain\u200b:n=5", "💥:💥", "\udcff:x", "chain:n=5\n", "a" * 5000,
)  # fmt: skip
OPTIONS = (
    "--epsilon", "--delta", "--delta-prime", "--target", "--budget", "--method",
    "--state", "--seed", "--executor", "--workers", "--shards", "--seconds", "--store",
    "--option", "--simulations", "--resume", "--report", "--discount", "--temperature",
    "--operator", "--episodes", "--steps", "--opponent", "--side", "--methods",
    "--repeats", "--points", "--call-seconds", "--out", "--scheduler",
)  # fmt: skip
NUMERIC = (
    "--epsilon", "--delta", "--delta-prime", "--budget", "--seed", "--workers",
    "--shards", "--seconds", "--simulations", "--discount", "--temperature",
    "--episodes", "--steps", "--repeats", "--points", "--call-seconds", "--state",
)  # fmt: skip
NUMBERS = (
    "0", "-0.0", "1", "2", "3", "-1", "0.5", "1e-3", "1e-9", "1e-17", "1e-300",
    "5e-324", "0.999999", "0.99", "1.000001", "17", "1000", "1e6", "1e9", "1e15",
    "1e18", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "1e100", "1e308", "1.8e308", "nan", "inf", "50%", "99%", "1e-6%", "1000%",
    "4294967296", "2147483648", "1" + "0" * 400,
)  # fmt: skip
FLAGS = ("--json", "--certify", "--compare-exact", "--calibrate", "--quick")


def faulty(line: Line, chance: Random, *, cheap: bool) -> Line:
    """The line with one or two faults."""
    words = list(line.arguments)
    for _ in range(chance.choice([1, 1, 2])):
        chance.choice(FAULTS)(words, chance)
    return Line(tuple(words), is_valid=False)


def _options(words: Words) -> list[int]:
    return [i for i, word in enumerate(words[:-1]) if word in OPTIONS]


def _other_value(words: Words, chance: Random) -> None:
    places = _options(words)
    if places:
        words[chance.choice(places) + 1] = chance.choice(VALUES)
    else:
        _added(words, chance)


def _other_number(words: Words, chance: Random) -> None:
    places = [i for i in _options(words) if words[i] in NUMERIC]
    if places:
        words[chance.choice(places) + 1] = chance.choice(NUMBERS)
    else:
        words += [chance.choice(NUMERIC), chance.choice(NUMBERS)]


def _other_problem(words: Words, chance: Random) -> None:
    if len(words) > 1 and not words[1].startswith("-"):
        words[1] = chance.choice(PROBLEMS)
    else:
        words.insert(1, chance.choice(PROBLEMS))


def _added(words: Words, chance: Random) -> None:
    words += [chance.choice(OPTIONS), chance.choice(VALUES)]


def _flag(words: Words, chance: Random) -> None:
    words.insert(chance.randrange(len(words) + 1), chance.choice(FLAGS))


def _misspelled(words: Words, chance: Random) -> None:
    places = [i for i, word in enumerate(words) if word.startswith("--")]
    if places:
        i = chance.choice(places)
        words[i] = words[i][:-1] if chance.random() < 0.5 else words[i] + "n"
    else:
        words.append("--jsn")


def _dropped(words: Words, chance: Random) -> None:
    if len(words) > 1:
        del words[chance.randrange(1, len(words))]


def _twice(words: Words, chance: Random) -> None:
    places = _options(words)
    if places:
        i = chance.choice(places)
        words += [words[i], chance.choice([words[i + 1], *VALUES])]
    else:
        words.append("extra")


def _shuffled(words: Words, chance: Random) -> None:
    rest = words[1:]
    chance.shuffle(rest)
    words[1:] = rest


def _other_command(words: Words, chance: Random) -> None:
    names = [name for name in COMMANDS if name != "reproduce"]
    words[0] = chance.choice([*names, "", "plam", "\x1b[1m", "-", "app", "__init__"])


def _stray(words: Words, chance: Random) -> None:
    words.insert(chance.randrange(1, len(words) + 1), chance.choice(VALUES))


FAULTS: tuple[Callable[[Words, Random], None], ...] = (
    _other_value,
    _other_value,
    _other_number,
    _other_number,
    _other_number,
    _other_number,
    _other_problem,
    _other_problem,
    _added,
    _added,
    _flag,
    _misspelled,
    _dropped,
    _twice,
    _shuffled,
    _other_command,
    _stray,
)
