"""The record of intervals: bounded, and without effect on a search."""

import pytest
from worlds import mdp

import smoothcruiser as sc
from smoothcruiser.certified import query_progress as history
from smoothcruiser.certified.query_progress import History, Point


def ring(state, action, rng):
    return rng.random() * (1 + state) / 6, (state + action + int(rng.integers(2))) % 6


def memory():
    problem = mdp(ring, name="ring")
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
    search = memory()
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
        memory().plot()


@pytest.mark.compiles
def test_the_frame_and_the_json_of_a_memory_are_those_of_its_table():
    search = memory()
    search.query(0, epsilon=0.3)
    table, frame = search.table(), search.to_frame()
    assert list(frame.state) == [row.state for row in table]
    assert list(frame.low) == [row.interval[0] for row in table]
    kept = table.from_json(table.to_json())
    assert kept == table.kept()
    assert kept.at(3) == table.at(3)
    with pytest.raises(sc.InvalidInput, match="is not in this table"):
        kept.at(17)
