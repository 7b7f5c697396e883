"""The thirteen published models by name, and Storm's own answers where it is installed.

Laws: ``npz:FILE`` has the tables, players and start that the benchmark's own reader
makes of the arrays, and the true least probability declared, so that exact and certified
values are those of tests/unit/exact and docs/evidence/worlds-verification.md; as a UMB
file written by umbi the tables are the same to the bit. What ``prism:`` and ``jani:``
build has the values that Storm computes in rational arithmetic.
"""

import importlib.util

import numpy as np
import pytest
from benchmarks.exact.verification_worlds import PUBLISHED, load, true_minimum
from benchmarks.exact.worlds_verification import round_trip

import smoothcruiser as sc

MODELS = sorted(path.stem for path in PUBLISHED.glob("*.npz"))
SMALLEST = "cdrive.2.goal"


@pytest.mark.skipif(not MODELS, reason="shared/data/qvbs is not there")
@pytest.mark.parametrize("name", MODELS)
def test_a_published_model_by_name_is_the_model(name):
    model = load(name)
    one, two = sc.make(f"npz:{PUBLISHED / name}.npz"), model.problem()
    assert one.start() == two.start()
    assert one.min_probability == true_minimum(model)
    assert (one.payoffs, one.discount, one.horizon) == ("end", 1.0, None)
    live = ~one.tables.terminal
    assert np.array_equal(one.tables.terminal & model.goal, model.goal)
    assert np.array_equal(one.tables.player[live], two.tables.player[live])
    assert np.array_equal(one.tables.legal[live], two.tables.legal[live])
    for part in ("start", "next_state", "prob", "reward"):
        assert np.array_equal(getattr(one.tables, part), getattr(two.tables, part))


@pytest.mark.skipif(not MODELS, reason="shared/data/qvbs is not there")
def test_exact_and_certified_by_name_hold_the_published_value():
    problem, model = sc.make(f"npz:{PUBLISHED / SMALLEST}.npz"), load(SMALLEST)
    exact = sc.plan(problem)
    assert exact.method == "exact"
    assert exact.value == pytest.approx(model.reference, abs=1e-9)
    how = {"epsilon": 0.1, "delta": 0.1, "target": "value", "budget": 10**6}
    found = sc.plan(problem, method="certified", **how)
    low, high = found.interval
    assert low - 1e-9 <= model.reference <= high + 1e-9
    assert high - low <= 0.2
    assert any("min_probability" in line for line in found.certificate.assumptions)
    if importlib.util.find_spec("umbi"):  # a UMB file has the same tables
        assert round_trip(model, problem) == "same"


# --- Storm --------------------------------------------------------------------

PRISM = """mdp
const int K;
module M
  x : [0..2];
  b : bool;
  [a] x=0 -> 0.5:(x'=1) + 0.5:(x'=2)&(b'=false);
  [b] x=0 -> 0.25:(x'=2) + 0.75:(x'=2)&(b'=true);
  [a] x=1 -> 0.875:(x'=0) + 0.125:(x'=1);
endmodule
label "g" = x=2 & b;
label "end" = x=2;
rewards "r" [b] true:1; x=1 : K; endrewards
"""
ASKED = {
    "reach=g": 'Pmax=? [F "g"]',
    "reach=g,opt=min": 'Pmin=? [F "g"]',
    "reach=x=2&!b": "Pmax=? [F (x=2&!b)]",
    "reach=g,avoid=x=1,opt=min": 'Pmin=? [!(x=1) U "g"]',
    "reach=g,bounded=1": 'Pmax=? [F<=1 "g"]',
    "total=r": 'R{"r"}max=? [C]',
    "total=r,opt=min": 'R{"r"}min=? [C]',
    "total=r,bounded=3": 'R{"r"}max=? [C<=3]',
    "total=r,reach=end": 'R{"r"}max=? [F "end"]',
}


@pytest.mark.slow
@pytest.mark.parametrize("objective", ASKED)
def test_storm_says_the_same(objective, tmp_path):
    stormpy = pytest.importorskip("stormpy")
    pytest.importorskip("umbi")
    path = tmp_path / "model.prism"
    path.write_text(PRISM)
    ours = sc.plan(sc.make(f"prism:{path},K=3,{objective}"), method="exact").value
    program = stormpy.parse_prism_program(str(path))
    program, _ = stormpy.instantiate_constants(program, {"K": 3})
    asked = stormpy.parse_property(ASKED[objective], program)
    model = stormpy.build_model[stormpy.Rational](program, [asked])
    theirs = stormpy.model_checking(model, asked).get_value(model.initial_states[0])
    assert ours == pytest.approx(float(theirs), abs=1e-9)


@pytest.mark.slow
def test_storm_builds_games_and_its_faults_are_one_sentence(tmp_path):
    pytest.importorskip("stormpy")
    pytest.importorskip("umbi")
    path = tmp_path / "game.prism"
    path.write_text(
        """smg
player p1 [a], [b] endplayer
player p2 [c], [d] endplayer
module M
  x : [0..4] init 0;
  [a] x=0 -> 1/3:(x'=1) + 2/3:(x'=2);
  [b] x=0 -> (x'=4);
  [c] x=1 -> (x'=3);
  [d] x=1 -> 0.5:(x'=0) + 0.5:(x'=3);
  [a] x=2 -> (x'=2);
endmodule
label "g" = x=3;
"""
    )
    for rest, value in (("", 0.2), (",opt=min", 0.0), (",coalition=p2,opt=min", 0.2)):
        found = sc.plan(sc.make(f"prism:{path},reach=g{rest}"), method="exact")
        assert found.value == pytest.approx(value, abs=1e-12)
    for rest, match in ((",J=2", "no constant 'J'"), (",reach=h", "neither a label")):
        with pytest.raises(sc.InvalidInput, match=match):
            sc.make(f"prism:{path}{rest}")
    path.write_text("no model")
    with pytest.raises(sc.InvalidInput, match="Storm cannot build"):
        sc.make(f"prism:{path},reach=g")
