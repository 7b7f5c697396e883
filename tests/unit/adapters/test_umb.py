"""UMB files: values by hand, for every objective, with chance, players and rewards.

Laws: what a name says is what Storm and PRISM mean by it (docs/worlds/verification.md);
where it is not, the name is refused. Files are written by umbi.
"""

from fractions import Fraction

import pytest

import smoothcruiser as sc

pytest.importorskip("umbi")
from benchmarks.exact.umb_files import save

pytestmark = pytest.mark.compiles
THIRD = Fraction(1, 3)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder of its own: names are relative to it."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def exact(name, **how):
    return sc.plan(sc.make(f"umb:{name}", **how), method="exact").value


def worth(name, value):
    assert exact(name) == pytest.approx(value, abs=1e-12)


def at(size, *states):
    return [state in states for state in range(size)]


# --- probabilities ------------------------------------------------------------


@pytest.fixture
def coin(here):
    """0: a throw that wins with 1/3, or a step into a deadlock. 1 wins, 2 loses."""
    return save(
        here / "coin.umb",
        [[[(1, THIRD), (2, 1 - THIRD)], [(3, 1)]], [[(1, 1)]], [[(2, 1)]], []],
        labels={"goal": at(4, 1), "lost": at(4, 2), "nowhere": at(4)},
    )


def test_the_best_and_the_worst_probability(coin):
    worth("coin.umb,reach=goal", 1 / 3)
    worth("coin.umb,reach=goal,opt=min", 0.0)  # the deadlock avoids it
    worth("coin.umb,reach=lost", 2 / 3)
    worth("coin.umb,reach=nowhere", 0.0)  # a label that no state has
    worth("coin.umb,reach=nowhere,opt=min", 0.0)


def test_names_mean_plain_undiscounted_maxima_unless_something_is_said(coin):
    problem = sc.make("umb:coin.umb,reach=goal")
    assert (problem.discount, problem.operator) == (1.0, sc.Max())
    assert problem.horizon is None
    half = sc.make("umb:coin.umb,reach=goal", discount=0.5, temperature=0.1)
    assert (half.discount, half.operator) == (0.5, sc.Entropy(0.1))
    assert half.min_probability is None


def test_a_goal_is_worth_1_so_nothing_is_planned_there(coin):
    problem = sc.make("umb:coin.umb,reach=goal")
    with pytest.raises(sc.InvalidInput, match=r"State 1 has the label 'goal' itself"):
        sc.plan(problem, 1, method="exact")
    with pytest.raises(sc.InvalidInput, match=r"State 1 has the label.*initial="):
        sc.make("umb:coin.umb,reach=goal,initial=1")
    worth("coin.umb,reach=goal,initial=2", 0.0)


def test_end_components_are_no_way_to_a_goal(here):
    """0 and 1 can go round for ever; only the way out may win, with 0.4."""
    save(
        here / "round.umb",
        [[[(1, 1)]], [[(0, 1)], [(2, 0.4), (3, 0.6)]], [[(2, 1)]], [[(3, 1)]]],
        labels={"goal": at(4, 2)},
    )
    worth("round.umb,reach=goal", 0.4)
    worth("round.umb,reach=goal,opt=min", 0.0)
    worth("round.umb,reach=goal,bounded=1", 0.0)
    worth("round.umb,reach=goal,bounded=2", 0.4)


def test_avoided_states_end_the_play_and_goals_come_first(here):
    """Through 1 to the goal for sure, or directly with 0.7."""
    save(
        here / "until.umb",
        [[[(1, 1)], [(2, 0.7), (3, 0.3)]], [[(2, 1)]], [[(2, 1)]], [[(3, 1)]]],
        labels={"goal": at(4, 2), "bad": at(4, 1), "both": at(4, 1, 2)},
    )
    worth("until.umb,reach=goal", 1.0)
    worth("until.umb,reach=goal,avoid=bad", 0.7)
    # PRISM's until: a state that is both was reached
    worth("until.umb,reach=goal,avoid=both", 0.7)


# --- chains and totals --------------------------------------------------------


def test_a_chain_is_an_mdp_of_one_action(here):
    """Knuth's and Yao's die: a six with 1/6 after 11/3 throws of a coin."""
    half = Fraction(1, 2)
    after = [(1, 2), (3, 4), (5, 6), (1, 7), (8, 9), (10, 11), (2, 12)]
    rows = [[[(x, half), (y, half)]] for x, y in after]
    rows += [[[(s, 1)]] for s in range(7, 13)]
    save(
        here / "die.umb",
        rows,
        num_players=0,
        labels={"six": at(13, 12), "done": at(13, *range(7, 13))},
        rewards={"throws": {"state": [1] * 7 + [0] * 6}},
    )
    problem = sc.make("umb:die.umb,reach=six,opt=min")
    assert problem.num_actions == 1
    assert not problem.is_game  # nobody chooses
    assert sc.plan(problem).value == pytest.approx(1 / 6, abs=1e-12)
    worth("die.umb,total=throws,reach=done", 11 / 3)
    worth("die.umb,total=throws", 11 / 3)
    worth("die.umb,total=throws,bounded=2", 2.0)


def test_a_step_pays_for_state_choice_and_branch(here):
    save(
        here / "pay.umb",
        [[[(1, 0.5), (2, 0.5)], [(2, 1)]], [], []],
        rewards={
            "all": {"state": [1, 0, 0], "choice": [2, 4], "branch": [10, 20, 3]},
            "late": {"state": [0, 0, 5]},
        },
    )
    problem = sc.make("umb:pay.umb,total=all")
    assert sc.solve(problem).q_values[0] == pytest.approx([18.0, 8.0])
    lowest = sc.plan(sc.make("umb:pay.umb,total=all,opt=min"), method="exact")
    assert lowest.value == pytest.approx(8.0, abs=1e-12)
    assert not lowest.notes  # no reward of a state that is over is out of range
    # play stays in a deadlock, and is paid there for ever
    with pytest.raises(sc.InvalidInput, match=r"worth \+inf"):
        exact("pay.umb,total=late")
    worth("pay.umb,total=late,bounded=4", 15.0)


@pytest.fixture
def travel(here):
    """0: work (pays 1, arrives with 1/2), stay paid, or rest unpaid. 1 is home."""
    return save(
        here / "travel.umb",
        [[[(1, 0.5), (0, 0.5)], [(0, 1)]], [[(1, 1)]], [[(2, 1)]]],
        labels={"home": at(3, 1)},
        rewards={
            "cost": {"choice": [1, 1, 0, 0]},
            "toll": {"choice": [1, 0, 0, 0]},
            "debt": {"choice": [-1, -1, 0, 0]},
        },
    )


def test_totals_that_do_not_end_are_infinite_and_said_to_be(travel):
    worth("travel.umb,total=cost,opt=min", 2.0)
    with pytest.raises(sc.InvalidInput, match=r"State 0 is worth \+inf"):
        exact("travel.umb,total=cost")
    with pytest.raises(sc.InvalidInput, match=r"State 0 is worth -inf"):
        exact("travel.umb,total=debt,opt=min")
    with pytest.raises(sc.InvalidInput, match=r"From state 0 .* for ever and never"):
        sc.make("umb:travel.umb,total=debt,reach=home,opt=min")
    worth("travel.umb,total=debt", -2.0)


def test_a_total_up_to_a_label_is_refused_where_checkers_call_it_infinite(travel):
    """State 0 can stay without a toll: Storm's R[F home] is infinite for that policy,
    and a total would be 0. State 2 never gets home, unpaid, whatever is counted.
    """
    for objective in ("total=toll,reach=home,opt=min", "total=cost,reach=home"):
        with pytest.raises(sc.InvalidInput, match=r"go on for ever unpaid.*'home'"):
            sc.make(f"umb:travel.umb,{objective}")
        bounded = sc.make(f"umb:travel.umb,{objective},bounded=5")
        assert bounded.horizon == 5
    worth("travel.umb,total=toll,opt=min", 0.0)


def test_a_deadlock_before_the_label_is_never_reaching_it(here):
    save(
        here / "stuck.umb",
        [[[(1, 0.5), (2, 0.5)]], [[(1, 1)]], []],
        labels={"goal": at(3, 1)},
        rewards={"steps": {"state": [1, 0, 0]}},
    )
    with pytest.raises(sc.InvalidInput, match=r"From state 2 .*never reach 'goal'"):
        sc.make("umb:stuck.umb,total=steps,reach=goal")
    worth("stuck.umb,total=steps", 1.0)


# --- players ------------------------------------------------------------------


def game(path, players=(0, 1, 0, 1, 0), names=("p1", "p2")):
    """0 (p1): throw to 1 with 1/3, else lose; or give up. 1 (p2): let win, or delay."""
    return save(
        path,
        [
            [[(1, THIRD), (2, 1 - THIRD)], [(4, 1)]],
            [[(3, 1)], [(0, Fraction(1, 2)), (3, Fraction(1, 2))]],
            [[(2, 1)]],
            [],
            [],
        ],
        labels={"win": at(5, 3)},
        num_players=len(names),
        players=list(players),
        player_names=list(names),
    )


def test_each_side_of_a_game_can_be_the_one_that_maximizes(here):
    """V(0) = 1/3 (1/2 V(0) + 1/2) = 0.2 if p1 wants to win and p2 does not."""
    game(here / "g.umb")
    worth("g.umb,reach=win", 0.2)
    worth("g.umb,reach=win,opt=min", 0.0)
    worth("g.umb,reach=win,coalition=p2", 0.0)
    worth("g.umb,reach=win,coalition=p2,opt=min", 0.2)
    worth('g.umb,reach=win,coalition=["p1","p2"]', 1 / 3)
    worth("g.umb,reach=win,coalition=1,opt=min", 0.2)


def test_who_never_chooses_is_no_third_player(here):
    """Storm writes deadlocks of a game as states of one more player."""
    game(here / "g.umb", (0, 1, 0, 2, 2), ("p1", "p2", "nobody"))
    worth("g.umb,reach=win", 0.2)
    game(here / "h.umb", (0, 2, 0, 2, 2), ("p1", "p2", "p3"))
    with pytest.raises(sc.InvalidInput, match=r"3 players \(p1, p2, p3\).*coalition="):
        sc.make("umb:h.umb,reach=win")
    worth("h.umb,reach=win,coalition=p1", 0.2)


def test_a_coalition_needs_a_game_and_players_that_exist(here, coin):
    with pytest.raises(sc.InvalidInput, match="coalition= belongs to games"):
        sc.make("umb:coin.umb,reach=goal,coalition=0")
    game(here / "g.umb")
    with pytest.raises(sc.InvalidInput, match=r"0 to 1, or by name: p1, p2; got 'p9'"):
        sc.make("umb:g.umb,reach=win,coalition=p9")


# --- what is declared and said ------------------------------------------------


def test_the_least_probability_is_the_models_and_can_be_left_out(coin):
    assert sc.make("umb:coin.umb,reach=goal").min_probability == pytest.approx(1 / 3)
    for text, number in (("none", None), ("0.1", 0.1)):
        problem = sc.make(f"umb:coin.umb,reach=goal,min_probability={text}")
        assert problem.min_probability == number
    with pytest.raises(sc.InvalidInput, match=r"min_probability=0\.5 needs every"):
        sc.make("umb:coin.umb,reach=goal,min_probability=0.5")


def test_rationals_that_no_double_equals_are_named_in_the_certificate(here, coin):
    found = sc.plan(sc.make("umb:coin.umb,reach=goal"), method="exact")
    assert any("are rationals" in line for line in found.certificate.assumptions)
    half = Fraction(1, 2)
    rows = [[[(0, half), (1, half)]], [[(1, Fraction(1))]]]
    save(here / "half.umb", rows, labels={"goal": at(2, 1)})
    found = sc.plan(sc.make("umb:half.umb,reach=goal"), method="exact")
    assert not any("are rationals" in line for line in found.certificate.assumptions)


def test_choices_have_the_models_names(here):
    save(
        here / "named.umb",
        [[[(1, 1)], [(0, 1)], [(0, 1)]], [[(1, 1)]]],
        labels={"goal": at(2, 1)},
        actions=[["go", "wait", "wait"], ["stay"]],
    )
    found = sc.plan(sc.make("umb:named.umb,reach=goal"), method="exact")
    assert found.labels == ("go", "wait (1)", "wait (2)")
    assert found.action_label == "go"


def test_ends_are_declared_for_totals_where_every_play_ends(here):
    """Certified search can then add up rewards without a discount."""
    save(
        here / "walk.umb",
        [[[(0, 0.5), (1, 0.5)], [(0, 0.75), (1, 0.25)]], []],
        rewards={"steps": {"state": [1, 0]}},
    )
    problem = sc.make("umb:walk.umb,total=steps,opt=min")
    steps, share = problem.episodes_end
    assert steps == 3  # 1 - 0.75 ** 3 is the first above 1/2
    assert share == pytest.approx(1 - 0.75**3, rel=1e-8)
    assert share < 1 - 0.75**3
    assert sc.plan(problem, method="exact").value == pytest.approx(2.0, abs=1e-9)
