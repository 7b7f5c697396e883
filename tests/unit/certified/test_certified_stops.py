"""A stop at any moment gives intervals that hold, and leaves a memory that goes on; the
record of intervals is bounded and has no effect on a search.
"""

import math
import signal
import time

import numpy as np
import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import query_progress as history
from smoothcruiser.certified import search_loop
from smoothcruiser.certified.graph import END
from smoothcruiser.certified.query_progress import History, Point
from smoothcruiser.certified.sample_batches import Batch
from smoothcruiser.certified.sampling.parallel import ParallelSampler, draw_part
from smoothcruiser.certified.sampling.sampler import Sampler, first_words
from smoothcruiser.certified.search_memory import Memory
from smoothcruiser.certified.snapshots.snapshot import restore, to_bytes
from smoothcruiser.certified.sweeps.compiled_loops import CERTIFIED
from smoothcruiser.certified.sweeps.region import Region
from smoothcruiser.errors import Interrupted
from smoothcruiser.jit.random.streams import from_words

TRUTH = 0.5 / (1.0 - 0.5)  # of ``coin``: a mean reward of 1/2, and discount 1/2


def coin(step=None, **more):
    """One state that pays 0 or 1 at random, by ``step`` or by the fair coin."""
    step = step or (lambda state, action, rng: (float(rng.random() < 0.5), 0))
    return mdp(step, operator=sc.Max(), **more)


def holds(answer, value=TRUTH):
    return answer.interval[0] <= value <= answer.interval[1]


class Stops:
    """A coin whose calls of the given numbers are broken off."""

    def __init__(self, *when):
        self.calls, self.when = 0, when

    def __call__(self, state, action, rng):
        self.calls += 1
        reward = float(rng.random() < 0.5)  # the stream has moved by then
        if self.calls in self.when:
            raise KeyboardInterrupt
        return reward, 0


@pytest.mark.compiles
@pytest.mark.parametrize("number", [1, 2, 20, 30, 100, 700])
def test_a_step_that_is_broken_off_costs_no_answer(number):
    """In the inspection, the first round or a later one; then the memory goes on."""
    memory = sc.Certified(coin(Stops(number)), delta=0.05, seed=3)
    stopped = memory.query(epsilon=0.05)
    assert memory.reason == "hand"
    assert stopped.notes[0].startswith("Stopped by hand after")
    assert stopped.num_calls <= number + 16  # with the inspection afterwards
    assert stopped.epsilon == pytest.approx(max(_halves(stopped)))
    assert holds(stopped)
    again = memory.query(epsilon=0.05)
    assert again.epsilon == 0.05
    assert holds(again)


def _halves(answer):
    boxes = answer.certificate.q_intervals
    return [0.5 * (high - low) for low, high in boxes]


@pytest.mark.compiles
def test_what_is_entered_is_the_beginning_of_every_stream(monkeypatch):
    """The sample that was broken off comes back: a dropped one would be missing for
    what it is. Every pair has as many ones as its own stream shows.
    """
    monkeypatch.setattr(search_loop, "SLICE_SECONDS", 0.0)  # one sample in each slice
    memory = sc.Certified(coin(Stops(*range(60, 2_000, 7))), delta=0.05, seed=4)
    stops = 0
    while stops < 100:
        memory.query(epsilon=1e-3, budget=2_000)
        stops += memory.reason == "hand"
    pairs, entries = memory.memory.graph.pairs, memory.memory.graph.entries
    for pair in range(memory.memory.num_pairs):
        total, start = int(pairs["total"][pair]), int(pairs["start"][pair])
        rng = from_words(first_words(4, np.arange(pair, pair + 1))[0])
        ones = sum(rng.random() < 0.5 for _ in range(total))
        part = entries.at(slice(start, start + int(pairs["length"][pair])))
        assert total > 100
        assert float(part.weight[part.reward == 1.0].sum()) == ones


@pytest.mark.compiles
@pytest.mark.parametrize("place", ["node_of", "make_room", "half_width"])
def test_a_signal_in_the_middle_of_something_waits(place, monkeypatch):
    """Ctrl-C while states are entered or bounds are read breaks nothing off."""
    real, calls = getattr(Memory, place), []

    def pressed(self, *arguments, **options):
        calls.append(0)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return real(self, *arguments, **options)

    def walk(state, action, rng):
        return rng.random(), int(100_000 * rng.random())

    monkeypatch.setattr(Memory, place, pressed)
    memory = sc.Certified(coin(walk, reward_range=(0, 1)), delta=0.05)
    stopped = memory.query(epsilon=1e-3)
    assert memory.reason == "hand"
    assert stopped.interval[0] <= 1.0 <= stopped.interval[1]
    assert memory.query(budget=1_000).num_calls > 0


@pytest.mark.compiles
def test_a_signal_while_machine_code_samples_ends_the_slice(monkeypatch):
    problem = sc.make("chain:n=5", discount=0.9, temperature=0.1)
    real = search_loop.SearchLoop.report_to_callback

    def pressed(self, at, limits, *least, **options):
        if self.memory.num_calls > 5_000:
            signal.raise_signal(signal.SIGINT)
        return real(self, at, limits, *least, **options)

    monkeypatch.setattr(search_loop.SearchLoop, "report_to_callback", pressed)
    stopped = sc.plan(problem, method="certified", epsilon=1e-5, delta=0.1)
    assert "Stopped by hand" in stopped.notes[0]
    assert holds(stopped, sc.plan(problem, method="exact").value)


@pytest.mark.compiles
def test_a_stop_before_anything_was_sampled_has_the_box_of_the_rewards():
    def pressed(state):
        signal.raise_signal(signal.SIGINT)
        return False

    problem = coin(terminal=pressed)
    answer = sc.Certified(problem, delta=0.1).query(epsilon=0.1)
    assert answer.interval == problem.facts.value_bounds()
    assert answer.num_calls == 0


class Board:
    """A state that a step writes into, and puts back when it is done."""

    def __init__(self):
        self.moves = []

    def __eq__(self, other):
        return self.moves == other.moves

    def __hash__(self):
        return hash(tuple(self.moves))


@pytest.mark.compiles
def test_a_state_that_a_broken_step_leaves_changed_is_not_used_again():
    """Further samples would start elsewhere: the answer holds, the memory is closed."""
    calls = []

    def step(state, action, rng):
        calls.append(0)
        state.moves.append(action)
        if len(calls) == 60:
            raise KeyboardInterrupt
        reward = float(rng.random() < 0.5)
        state.moves.pop()
        return reward, Board()

    memory = sc.Certified(coin(step, key=hash, initial_state=Board()), delta=0.1)
    assert holds(memory.query(epsilon=0.1))
    with pytest.raises(sc.InvalidInput, match="has left its state changed"):
        memory.query(epsilon=0.1)


@pytest.mark.compiles
def test_a_callback_stops_within_a_round(monkeypatch):
    """It is asked between two slices too: a round of a slow simulator takes long."""
    monkeypatch.setattr(search_loop, "REPORT_SECONDS", 0.0)
    told = []

    def enough(report):
        told.append(report.calls)
        return report.calls < 60

    memory = sc.Certified(coin(), delta=0.1)
    answer = memory.query(epsilon=1e-3, progress=enough)
    assert memory.reason == "callback"
    assert answer.num_calls < 256 + 24  # the first round, and the inspection
    assert holds(answer)


@pytest.mark.compiles
def test_workers_that_are_stopped_leave_the_parts_before_the_first_gap():
    """Parts 0 and 2 of three are there: part 2 may not be entered without part 1."""
    problem = coin()
    memory = Memory(problem)
    memory.node_of(0)

    class Pool:
        def map(self, task, items, report):
            items = list(items)
            assert task is draw_part
            for i in (0, 2):
                report(items[i], draw_part(problem, items[i]))
            raise KeyboardInterrupt

        def stop(self):
            """Nothing is under way."""

        restart = stop

    sampler = object.__new__(ParallelSampler)
    Sampler.__init__(sampler, problem, memory, 7)
    sampler.workers, sampler.pool, sampler.deadline = 1, Pool(), math.inf
    batch = Batch(np.array([0, 1, 0, 1]), np.array([5, 5, 5, 5]))
    before = sampler._streams(np.arange(2)).copy()
    with pytest.raises(Interrupted):
        sampler.draw(batch, 20)
    assert batch.drawn == 5
    assert sampler.hold.came
    assert np.any(sampler.words[0] != before[0])
    assert np.all(sampler.words[1] == before[1])
    assert set(batch.raws[:5].tolist()) - {END} == {1}


@pytest.mark.compiles
def test_compiling_counts_against_no_limit(monkeypatch):
    """Law (docs/certified.md, section 9): seconds cover all but compiling."""
    warm = Region.warm

    def slowly(region):
        warm(region)
        time.sleep(0.3)

    monkeypatch.setattr(Region, "warm", slowly)
    with CERTIFIED.use_form(compiled=True):
        answer = sc.Certified(coin(), delta=0.1).query(seconds=0.25)
    assert answer.num_calls > 0
    assert answer.epsilon < 1.0
    assert answer.compile_seconds >= 0.3


@pytest.mark.compiles
@pytest.mark.parametrize("horizon", [None, 5])
def test_rounds_left_in_the_middle_give_no_pair_two_shares(horizon):
    """What was saved after many stops can be taken up, and no share of delta is lost."""
    calls = 0

    def step(state, action, rng):
        nonlocal calls
        calls += 1
        if calls % 150 == 0:  # by hand, in the middle of a round
            raise KeyboardInterrupt
        return float(rng.random() < 0.1), (state + 1 + int(3 * rng.random())) % 40

    problem = mdp(
        step,
        num_actions=4,
        discount=0.9,
        operator=sc.Max(),
        reward_range=(0.0, 1.0),
        horizon=horizon,
    )
    memory = sc.Certified(problem, delta=0.1, seed=1)
    for _ in range(12):
        memory.query(0, epsilon=1e-3, budget=2000)
        given = int((memory.memory.graph.pairs["cost"] > 0.0).sum())
        assert horizon is not None or memory.shares.num_pairs == given
        restore(sc.Certified(problem, delta=0.1, seed=1), to_bytes(memory))


def ring_step(state, action, rng):
    return rng.random() * (1 + state) / 6, (state + action + int(rng.integers(2))) % 6


def ring_memory():
    problem = mdp(ring_step, name="ring")
    return sc.Certified(problem, delta=0.1, seed=3)


def test_points_are_thinned_and_the_last_one_stays():
    kept = History()
    for calls in range(5000):
        kept.add(1, calls, (0.0, 10.0 / (1 + calls)))
    points = kept.of(1)
    assert len(points) <= history.MOST_POINTS
    assert points[0] == Point(0, 0.0, 10.0)
    assert points[-1] == Point(4999, 0.0, 10.0 / 5000)
    assert [p.calls for p in points] == sorted({p.calls for p in points})


@pytest.mark.compiles
def test_a_search_remembers_how_its_interval_narrowed():
    search = ring_memory()
    first = search.query(0, epsilon=0.3)
    second = search.query(2, epsilon=0.3)
    for state, answer in ((0, first), (2, second)):
        points = search.plot(state=state).lines[0].get_xydata()  # the upper ends
        assert answer.interval is not None
        assert points[-1].tolist() == [
            first.num_calls + (second.num_calls if state == 2 else 0),
            answer.interval[1],
        ]
        tops = [high for _, high in points]
        assert tops == sorted(tops, reverse=True)
    marked = search.plot(state=2).lines[2].get_xydata()[-1]
    assert marked.tolist() == [first.num_calls + second.num_calls, second.value]
    assert "state 2" in search.plot().get_title(loc="left")
    with pytest.raises(sc.InvalidInput, match="history of state 4 is not known"):
        search.plot(state=4)
    with pytest.raises(sc.InvalidInput, match="ask a query first"):
        ring_memory().plot()


@pytest.mark.compiles
def test_the_frame_and_the_json_of_a_memory_are_those_of_its_table():
    search = ring_memory()
    search.query(0, epsilon=0.3)
    table, frame = search.table(), search.to_frame()
    assert list(frame.state) == [row.state for row in table]
    assert list(frame.low) == [row.interval[0] for row in table]
    kept = table.from_json(table.to_json())
    assert kept == table.kept()
    assert kept.at(3) == table.at(3)
    with pytest.raises(sc.InvalidInput, match="is not in this table"):
        kept.at(17)
