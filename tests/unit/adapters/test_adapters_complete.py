"""Parts of adapters that no library is needed for: tables, meanings of actions, names
of games.
"""

import math
import re
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import smoothcruiser as sc
from fresh_process import run_python
from smoothcruiser.adapters.gymnax.task_ranges import known_range, meanings
from smoothcruiser.adapters.pgx.known_games import GAMES, HIDDEN, unknown
from smoothcruiser.cli.app import app
from smoothcruiser.problem.adapter_protocol import (
    Adapter,
    list_adapters,
    load_adapters,
)

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "src" / "smoothcruiser" / "adapters"
ADAPTERS = dict(
    load_adapters()
)  # those of this package, whatever other tests register
# what each one imports; None for NumPy alone
LIBRARIES = {
    name: name for name in ("bsuite", "dm_env", "gymnax", "pettingzoo", "pgx")
}
LIBRARIES |= {"gym": "gymnasium", "openspiel": "pyspiel", "rddl": "pyRDDLGym"}
LIBRARIES |= {"jani": "stormpy", "prism": "stormpy", "umb": "umbi", "npz": None}
NEEDY = [name for name in ADAPTERS if ADAPTERS[name].needs]


def test_every_file_of_the_folder_registers_an_adapter():
    files = {path.stem for path in FOLDER.iterdir()} - {"__init__", "__pycache__"}
    modules = {type(adapter).__module__.split(".")[2] for adapter in ADAPTERS.values()}
    assert modules == files
    assert ADAPTERS.keys() == LIBRARIES.keys()


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_is_listed_documented_and_installed_by_an_extra(name):
    adapter = ADAPTERS[name]
    assert isinstance(adapter, Adapter)
    assert adapter.name == name
    assert adapter.summary
    listed = " ".join(CliRunner().invoke(app, ["problems"]).stdout.split())
    assert f"{adapter.summary}: {name}:{adapter.example}" in listed
    assert adapter.needs in listed
    assert f'sc.make("{name}:' in (ROOT / "docs" / "simulators.md").read_text()
    assert bool(adapter.needs) is bool(LIBRARIES[name])
    if adapter.needs:
        assert LIBRARIES[name] in getattr(adapter, "modules", (LIBRARIES[name],))
        extra = re.fullmatch(r"smoothcruiser\[(\w+)\]", adapter.needs)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert extra[1] in project["optional-dependencies"]


@pytest.mark.parametrize("name", NEEDY)
def test_a_missing_library_is_named_with_its_extra(name, monkeypatch):
    adapter = ADAPTERS[name]
    package = type(adapter).__module__
    for module in [m for m in sys.modules if m.startswith(f"{package}.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, LIBRARIES[name], None)  # importing it fails
    remedy = re.escape(f"pip install '{adapter.needs}'")
    with pytest.raises(sc.MissingExtra, match=remedy):
        sc.make(f"{name}:{adapter.example}", discount=0.9, operator="max")


def test_a_library_that_is_missing_is_told_from_one_that_is_there(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    found = list_adapters()["openspiel"]
    assert (found.installed, found.missing) == (False, ("pyspiel",))
    assert str(found).endswith(
        "(not installed: pip install 'smoothcruiser[openspiel]')"
    )
    pytest.importorskip("gymnasium")
    assert list_adapters()["gym"].installed
    assert str(list_adapters()["gym"]).endswith(
        "(installed, smoothcruiser[gymnasium])"
    )


@pytest.mark.compiles
def test_listing_loads_no_library():
    program = (
        "import sys\n"
        "from smoothcruiser.problem.adapter_protocol import descriptions\n"
        "descriptions()\n"
        f"print([name for name in {[*filter(None, LIBRARIES.values())]} if name in sys.modules])"
    )
    assert run_python(program).stdout.strip() == "[]"


# --- names of JAX worlds ------------------------------------------------------


HERE = {"discount": 0.9, "operator": "max"}
JAX_ROOT = "smoothcruiser"


@pytest.fixture
def without(monkeypatch):
    """Neither library, nor JAX."""
    for name in ("gymnax", "pgx", "jax"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("jax", "worlds", "trees"):
        monkeypatch.delitem(
            sys.modules, f"{JAX_ROOT}.problem.batched.{name}", raising=False
        )
    for name in ("gymnax.tasks", "pgx.boards"):
        monkeypatch.delitem(sys.modules, f"{JAX_ROOT}.adapters.{name}", raising=False)


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_information_is_refused_by_name(name, without):
    with pytest.raises(sc.InvalidInput, match=f"{name} of Pgx .* it hides") as caught:
        sc.make(f"pgx:{name}", **HERE)
    assert all(game in str(unknown("ludo")) for game in GAMES)
    assert "\n" not in str(caught.value)


def test_what_would_be_downloaded_is_refused_by_name(without):
    with pytest.raises(sc.InvalidInput, match="downloads"):
        sc.make("gymnax:MNISTBandit-bsuite", **HERE)


@pytest.mark.parametrize("adapter", ["gymnax", "pgx"])
def test_only_what_there_is_can_be_imported_from_an_adapter(adapter, without):
    module = getattr(__import__(f"smoothcruiser.adapters.{adapter}").adapters, adapter)
    with pytest.raises(AttributeError, match="no attribute 'problems'"):
        _ = module.problems
    with pytest.raises(sc.MissingExtra):
        _ = module.problem


def test_ranges_follow_from_parameters():
    torque = SimpleNamespace(max_speed=8.0, max_torque=2.0)
    low, high = known_range("Pendulum-v1", None, torque, [0.0])
    assert -low == pytest.approx(math.pi**2 + 6.4 + 0.004, rel=2e-5)
    assert -low >= math.pi**2 + 6.4 + 0.004
    assert high == 0.0
    noisy = SimpleNamespace(deterministic=False, unscaled_move_cost=0.01)
    sure = SimpleNamespace(deterministic=True, unscaled_move_cost=0.01)
    sea = SimpleNamespace(size=8)
    assert known_range("DeepSea-bsuite", sea, noisy, []) is None
    low, high = known_range("DeepSea-bsuite", sea, sure, [])
    assert low < -0.01 / 8 < 0 < 1 <= high
    maze = SimpleNamespace(reward=10.0, punishment=-1.0)
    low, high = known_range("MetaMaze-misc", None, maze, [])
    assert low < -1 < 10 < high
    dense = SimpleNamespace(dense_reward=True)
    assert known_range("PointRobot-misc", None, dense, []) is None
    assert known_range("GaussianBandit-misc", None, None, []) is None
    assert known_range("", None, None, []) is None
    farthest = known_range("MountainCarContinuous-v0", None, None, [-0.5, 2.0])
    assert farthest[0] == pytest.approx(-0.4, rel=2e-5)


def test_actions_have_names():
    assert meanings("CartPole-v1", None, 2) == ("push left", "push right")
    assert meanings("CartPole-v1", None, 3) is None
    game = SimpleNamespace(action_set=[0, 1, 3])
    assert meanings("Breakout-MinAtar", game, 3) == ("no-op", "left", "right")
    assert meanings("Pendulum-v1", None, 3) is None


# --- meanings of actions ------------------------------------------------------


MAX = {"discount": 0.9, "operator": "max"}


class TestGymnasium:
    @pytest.fixture(autouse=True)
    def library(self):
        self.gym = pytest.importorskip("gymnasium")

    def test_moves_on_a_grid_go_where_their_names_say(self):
        lake = sc.make("gym:FrozenLake-v1,is_slippery=false", **MAX)
        cliff = sc.make("gym:CliffWalking-v1", **MAX)
        for problem, width, start in ((lake, 4, 9), (cliff, 12, 14)):
            ahead = {"left": -1, "right": 1, "up": -width, "down": width}
            assert sorted(problem.actions) == sorted(ahead)
            for action, label in enumerate(problem.actions):
                assert problem.outcomes(start, action)[0][2] == start + ahead[label]

    def test_the_taxi_drives_where_its_moves_say(self):
        taxi = sc.make("gym:Taxi-v4", **MAX)
        ahead = {"south": (1, 0), "north": (-1, 0), "east": (0, 1), "west": (0, -1)}
        env = self.gym.make("Taxi-v4").unwrapped
        state = env.encode(2, 2, 0, 1)  # no wall around the middle
        for label, (down, right) in ahead.items():
            after = taxi.outcomes(state, taxi.actions.index(label))[0][2]
            assert tuple(env.decode(after))[:2] == (2 + down, 2 + right)

    @pytest.mark.parametrize(
        "text, labels",
        [
            ("CartPole-v1", ("push left", "push right")),
            ("Blackjack-v1", ("stick", "hit")),
            ("Acrobot-v1", ("torque -1", "torque 0", "torque 1")),
            ("Pendulum-v1,actions=3", ("[-2]", "[0]", "[2]")),
            ("MountainCarContinuous-v0,actions=2", ("[-1]", "[1]")),
        ],
    )
    def test_names_of_other_environments(self, text, labels):
        assert sc.make(f"gym:{text}", **MAX).actions == labels

    def test_meanings_of_the_environment_itself_come_first(self):
        from smoothcruiser.adapters.gymnasium.tables import meanings

        class Atari(self.gym.Env):
            action_space = self.gym.spaces.Discrete(3, start=1)

            def __init__(self, words):
                self.words = words

            def get_action_meanings(self):
                if self.words is None:
                    raise RuntimeError
                return self.words

        actions = [1, 3]
        assert meanings(Atari(["NOOP", "FIRE", "UP"]), actions) == ("NOOP", "UP")
        for useless in (["NOOP"], ["UP", "FIRE", "UP"], [1, 2, 3], None):
            assert meanings(Atari(useless), actions) is None

        class FrozenLakeEnv(self.gym.Env):  # somebody's own, of the same name
            action_space = self.gym.spaces.Discrete(4)

        assert meanings(FrozenLakeEnv(), [0, 1, 2, 3]) is None

    def test_actions_that_the_environment_has_not_are_refused(self):
        for wrong in ("Pendulum-v1,actions=[-3,0]", "CartPole-v1,actions=[0,2]"):
            with pytest.raises(sc.InvalidInput, match=r"must list actions of "):
                sc.make(f"gym:{wrong}", **MAX)


class TestOpenSpiel:
    @pytest.fixture(autouse=True)
    def library(self):
        pytest.importorskip("pyspiel")

    def test_moves_are_called_as_in_the_position(self):
        board = sc.make("openspiel:tic_tac_toe", **MAX)
        first, second = board.labels(board.start()), board.labels(board.start([4]))
        assert first[0] == "x(0,0)"
        assert second[0] == "o(0,0)"  # the other player's mark
        assert second[4] == "4"  # taken: a number is all it has
        assert board.labels(board.start([0, 3, 1, 4, 2])) is None  # over
        answer = sc.plan(board, [0, 3, 1, 4], method="uct", budget=2000)
        assert answer.action_label == "x(0,2)"  # wins
