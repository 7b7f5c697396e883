"""Adapters name the actions of their simulators where the simulator does.

Laws: Gymnasium's names are those of its documentation, checked against what the moves
do; OpenSpiel's are those of the position; a simulator without names has none.
"""

import pytest

import smoothcruiser as sc

pytestmark = pytest.mark.compiles

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
