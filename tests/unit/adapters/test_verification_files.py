"""Files of models that are missing, damaged, too large, or of another kind.

Law: each is refused in one sentence that says what was required, and nothing of it is
unpickled or unpacked without a limit.
"""

import importlib
import io
import json
import tarfile
import zipfile
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

import smoothcruiser as sc
from smoothcruiser.adapters.verification import model_files as files
from smoothcruiser.adapters.verification.objective import (
    NoCombination,
    Objective,
    _name,
    combine_labels,
)

GOOD = {
    "data": np.array([0.25, 0.75, 1.0]),
    "indices": np.array([1, 2, 2]),
    "indptr": np.array([0, 2, 3, 3, 3, 3, 3]),
    "legal": np.array([[True, True], [False, False], [False, False]]),
    "goal": np.array([False, True, False]),
    "initial": np.array(0),
    "maximize": np.array(True),
}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refused(name, match):
    with pytest.raises(sc.InvalidInput, match=match) as caught:
        sc.make(name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith((".", "?"))


# --- arrays -------------------------------------------------------------------


def test_arrays_are_the_model_that_they_say():
    np.savez("coin.npz", **GOOD)
    problem = sc.make("npz:coin.npz")
    assert problem.outcomes(0, 0) == [(0.25, 1.0, 1), (0.75, 0.0, 2)]
    assert problem.outcomes(0, 1) == [(1.0, 0.0, 2)]
    ends = [False, True, True]  # a goal, a deadlock
    assert problem.tables.terminal.tolist() == ends
    assert (problem.discount, problem.initial_state) == (1.0, 0)
    assert problem.payoffs == "end"
    assert not problem.is_game
    assert problem.min_probability == 0.25
    worst = sc.make("npz:coin.npz,opt=min,bounded=7")
    assert worst.mover(0) == 2
    assert worst.horizon == 7


@pytest.mark.parametrize("kind", ["npz", "umb"])
def test_a_missing_file_a_folder_and_no_model(kind, here):
    pytest.importorskip("umbi" if kind == "umb" else "numpy")
    (here / f"text.{kind}").write_text("this is no model")
    (here / f"empty.{kind}").write_bytes(b"")
    for name, match in (
        (f"nothing.{kind}", "cannot open 'nothing.*relative to the"),
        (str(here), "is a folder"),
        (f"text.{kind}", r"text\..* is damaged, or no file of this"),
        (f"empty.{kind}", "is damaged, or no file of this format"),
    ):
        refused(f"{kind}:{name},reach=goal", match)


@pytest.mark.parametrize(
    "change, match",
    [
        ({"legal": None}, "has no 'legal'"),
        ({"players": np.array([1, 2, 1])}, "has 'players' too"),
        ({"legal": np.ones(3, dtype=bool)}, r"legal of .* shape \(S, A\)"),
        ({"goal": np.array([True])}, r"goal of .* must have shape \(3,\)"),
        ({"indices": np.array([1, 2, 7])}, "leads to state 7"),
        ({"indptr": np.array([0, 3, 2, 3, 3, 3, 3])}, "ascend from 0 to 3"),
        ({"indptr": np.array([0, 2, 3])}, "indptr of one more"),
        ({"data": np.array([0.25, 0.5, 1.0])}, "sum to 1"),
        ({"data": np.array([np.nan, 0.5, 1.0])}, "negative or undefined"),
        ({"data": np.array([0.25, 0.75])}, "data as long as indices"),
        ({"initial": np.array(5)}, "initial must be a state from 0 to 2, got 5"),
        ({"initial": np.array(0.5)}, "initial of .* whole numbers"),
        ({"initial": np.array(1)}, "State 1 has the label 'goal' itself"),
    ],
)
def test_arrays_that_contradict_each_other(change, match):
    arrays = {k: v for k, v in (GOOD | change).items() if v is not None}
    np.savez("bad.npz", **arrays)
    refused("npz:bad.npz", match)


def test_nothing_is_unpickled():
    class Bomb:
        def __reduce__(self):
            return (print, ("unpickled",))

    np.savez("pickle.npz", **(GOOD | {"goal": np.array([Bomb()], dtype=object)}))
    refused("npz:pickle.npz", r"goal\.npy of pickle\.npz holds object.*unpickled")


def test_an_array_is_not_larger_than_its_header_says(here):
    head = {"descr": "<f8", "fortran_order": False, "shape": (10**12,)}
    body = io.BytesIO()
    np.lib.format.write_array_header_1_0(body, head)
    with zipfile.ZipFile("claims.npz", "w") as archive:
        archive.writestr("data.npy", body.getvalue() + b"12345678")
    refused("npz:claims.npz", "is damaged.*8 bytes for")


def test_archives_that_unpack_to_more_than_fits_are_refused(here, monkeypatch):
    monkeypatch.setattr(files, "MOST_BYTES", 100_000)
    with zipfile.ZipFile("bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("data.npy", bytes(200_000))
    assert (here / "bomb.npz").stat().st_size < 1000
    refused("npz:bomb.npz", r"bomb\.npz, unpacked, holds 200,000 bytes")
    pytest.importorskip("umbi")
    packed({"index.json": b"{}", "branch-to-target.bin": bytes(200_000)})
    refused("umb:packed.umb,reach=goal", r"packed\.umb, unpacked, holds 201,026 bytes")
    np.savez("large.npz", **(GOOD | {"data": np.random.default_rng(0).random(99_999)}))
    refused("npz:large.npz", r"large\.npz holds .* at most 100,000")


# --- UMB ----------------------------------------------------------------------


def packed(members):
    with tarfile.open("packed.umb", "w:gz") as archive:
        for name, body in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))


def unpacked(path):
    with tarfile.open(path) as archive:
        return {m.name: archive.extractfile(m).read() for m in archive.getmembers()}


@pytest.fixture
def save():
    pytest.importorskip("umbi")
    return importlib.import_module("benchmarks.exact.umb_files").save


@pytest.fixture
def members(here, save):
    """The files of a good UMB file: 0 goes to 1 or 2 by a coin."""
    save(
        here / "good.umb",
        [[[(1, 0.25), (2, 0.75)], [(2, 1.0)]], [[(1, 1.0)]], [[(2, 1.0)]]],
        labels={"goal": [False, True, False]},
        rewards={"steps": {"choice": [1, 1, 0, 0]}},
    )
    return unpacked("good.umb")


INTERVALS = {"type": "double-interval", "size": 128}


def changed(members, **system):
    """The file with other entries in the index's transition system."""
    index = json.loads(members["index.json"])
    index["transition-system"] |= {k.replace("_", "-"): v for k, v in system.items()}
    packed(members | {"index.json": json.dumps(index).encode()})


@pytest.mark.parametrize(
    "system, match",
    [
        ({"time": "stochastic"}, r"time is continuous \(a CTMC or CTMDP\)"),
        ({"time": "urgent-stochastic"}, r"time is continuous \(a Markov automaton\)"),
        ({"#observations": 2, "observations_apply_to": "states"}, r"\(a POMDP\)"),
        ({"branch_probability_type": INTERVALS}, "probabilities are intervals"),
        ({"#states": 10**15}, "1,000,000,000,000,000 states, and at most"),
        ({"#states": 4}, "damaged"),
        ({"#branches": 9}, "index says 9 branches, and its lists hold 5"),
        ({"#choices": 9}, "index says 9 choices, and its lists hold 4"),
        ({"#players": 0}, "no players, but a state with several choices"),
        ({"time": "never"}, "damaged"),
    ],
)
def test_other_kinds_and_wrong_counts_are_named(members, system, match):
    changed(members, **system)
    refused("umb:packed.umb,reach=goal", match)


@pytest.mark.parametrize(
    "name, body, match",
    [
        ("index.json", b"[]", "no UMB file: it has no index.json"),
        ("index.json", b"{", "damaged"),
        ("index.json", b"[" * 100_000, "damaged"),
        ("branch-to-target.bin", (2**63).to_bytes(8, "little") * 5, "leads to state"),
        ("state-to-choices.bin", bytes(32), "choices of its states must ascend"),
        ("choice-to-branches.bin", bytes(40), "branches of its choices must ascend"),
        ("branch-to-probability.bin", bytes(40), "sum to 1"),
        ("branch-to-probability.bin", bytes(16), "2 probabilities for 5 branches"),
        ("annotations/aps/goal/states/values.bin", b"", "damaged|must have a value"),
        ("state-to-player.bin", b"\x07" * 12, "name one of 1 players"),
    ],
)
def test_lists_that_contradict_each_other_are_named(members, name, body, match):
    packed(members | {name: body})
    refused("umb:packed.umb,reach=goal", match)


def test_bytes_that_were_changed_are_refused_or_read_as_they_are(members, here):
    """No change of a byte ends in anything but a problem or one sentence."""
    whole = (here / "good.umb").read_bytes()
    rng, said = np.random.default_rng(0), []
    for _ in range(60):
        body = bytearray(whole)
        body[int(rng.integers(len(body)))] ^= int(rng.integers(1, 256))
        (here / "bent.umb").write_bytes(bytes(body))
        try:
            sc.make("umb:bent.umb,reach=goal")
        except sc.InvalidInput as error:
            said.append(str(error))
    assert said
    assert not any("\n" in sentence for sentence in said)


# --- names --------------------------------------------------------------------


@pytest.mark.parametrize(
    "rest, match",
    [
        ("", r"needs an objective.*labels 'goal' and the rewards 'steps'"),
        (",avoid=goal", r"1 less the least chance to reach it"),
        (",reach=gaol", "No state of good.umb has the label 'gaol'"),
        (",total=stairs", "has no reward 'stairs'; it has the rewards 'steps'"),
        (",reach=goal,opt=best", "opt must be max or min, got 'best'"),
        (",reach=goal,bounded=0", "bounded must be a number of steps"),
        (",reach=goal,reech=2", "has no option 'reech'; did you mean reach="),
        (",total=steps,avoid=goal", "avoid= belongs to a probability"),
        (",reach=goal,initial=-1", "initial must be a state from 0 to 2"),
        (",reach=goal,min_probability=2", "min_probability must be a number above 0"),
    ],
)
def test_names_that_cannot_be_meant(members, rest, match):
    refused(f"umb:good.umb{rest}", match)


def test_one_initial_state_is_needed(here, save):
    rows = [[[(1, 0.5), (0, 0.5)]], [[(1, 1.0)]]]
    for initial, match in (([], "has none"), ([0, 1], r"2 initial states \(0, 1\)")):
        save(here / "many.umb", rows, labels={"a": [False, True]}, initial=initial)
        refused("umb:many.umb,reach=a", match)
        assert sc.make("umb:many.umb,reach=a,initial=0").initial_state == 0


def test_rationals_have_to_sum_to_1_exactly(here, save):
    nearly = Fraction(2, 3) - Fraction(1, 10**15)
    rows = [[[(0, Fraction(1, 3)), (1, nearly)]], [[(1, Fraction(1))]]]
    save(here / "off.umb", rows, labels={"a": [False, True]})
    refused("umb:off.umb,reach=a", "choice 0 of off.umb are rationals and sum to")


# --- labels combined, and declarations ------------------------------------------


@pytest.mark.parametrize(
    "text, states",
    [
        ('"a"&!"b"', [1, 0, 0, 0]),
        ("a|b&c", [1, 1, 1, 0]),
        ('("a"|b)&"odd one"', [1, 1, 0, 0]),
        ("!(a|b)", [0, 0, 0, 1]),
        ("!!true & a", [1, 1, 0, 0]),
    ],
)
def test_labels_are_combined_as_property_files_write_them(text, states):
    rows = {"a": [1, 1, 0, 0], "b": [0, 1, 1, 0], "c": [0, 0, 1, 1]}
    rows["odd one"] = [1, 1, 0, 1]
    found = combine_labels(text, {k: np.array(v, bool) for k, v in rows.items()})
    assert found.tolist() == [bool(x) for x in states]


@pytest.mark.parametrize(
    "text, why",
    [
        ("a&", "a label is missing"),
        ("(a", "a bracket is not closed"),
        ("a b", "'b' comes where nothing"),
        ("a&x", "no label 'x'"),
        ("a&#", "'#' is no part"),
        ("!" * 200 + "a", "too deeply"),
    ],
)
def test_what_is_no_combination_says_why(text, why):
    with pytest.raises(NoCombination, match=why):
        combine_labels(text, {"a": np.array([True])})


def test_a_model_is_reached_by_combined_labels_within_a_horizon():
    np.savez("coin.npz", **GOOD)
    problem = sc.make('npz:coin.npz,reach="goal"&!(!goal)', horizon=4)
    assert problem.outcomes(0, 0) == [(0.25, 1.0, 1), (0.75, 0.0, 2)]
    assert problem.horizon == sc.make("npz:coin.npz,horizon=4").horizon == 4
    refused('npz:coin.npz,reach="goal"&"gaol"', "there is no label 'gaol'")
    refused("npz:coin.npz,horizon=3,bounded=4", "say the same; drop one")
    refused("npz:coin.npz,deterministic=true", "state 0, action 0 .* has several")
    refused("npz:coin.npz,key=a", "drop key=")
    declared = sc.make("npz:coin.npz", episodes_end=(1, 1.0), actions=["toss", "stop"])
    assert declared.episodes_end == (1, 1.0)
    assert declared.actions == ("toss", "stop")


def test_constants_are_shown_in_the_name():
    chosen = Objective(reach="goal")
    model = SimpleNamespace(file="coin.nm", constants={"K": 8})
    assert _name(model, chosen, "prism") == "prism:coin.nm,K=8,reach=goal"
