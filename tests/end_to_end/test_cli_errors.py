"""What goes wrong on the command line is told in one sentence, with exit code 2
and nothing on standard output.
"""

import pytest

CHAIN = "chain:n=5 --discount 0.2 --temperature 10"
PROMISE = "--epsilon 20% --delta 0.1"
EXPLAIN = f"explain {CHAIN} {PROMISE}"
# reference: nothing to compile
PLAN = f"plan {CHAIN} {PROMISE} --method smoothcruiser --executor reference"

BAD = [
    ("plam", "No such command 'plam'. Did you mean play or plan?"),
    ("plan shop.py", "such as shop:problem"),
    ("plan json:lods", "did you mean 'loads'?"),
    (f"{EXPLAIN} --method smothcruiser", "did you mean 'smoothcruiser'?"),
    ("explain", "PROBLEM"),
    (f"plan maze {PROMISE}", "'maze'"),
    (f"plan chain:n=zero --discount 0.2 --temperature 1 {PROMISE}", "'zero'"),
    (f"explain {CHAIN} --epsilonn 1", "--epsilon"),
    (f"explain chain --temperature 1 {PROMISE}", "--discount"),
    (f"explain chain --discount 0.2 {PROMISE}", "--temperature"),
    (f"{EXPLAIN} --operator soft", "'soft'"),
    (f"explain {CHAIN} --delta 0.1", "--epsilon"),
    (f"explain {CHAIN} --epsilon 5%% --delta 0.1", "'5%%'"),
    (f"{EXPLAIN} --target all", "'all'"),
    (f"{EXPLAIN} --budget lots", "'lots'"),
    (f"{EXPLAIN} --delta-prime 0.1", "--delta-prime"),
    (f"{PLAN} --state [1", "'[1'"),
    (f"{PLAN} --state 99", "99"),
    (f"{PLAN} --state '[1, 2]'", "(1, 2)"),
    (f"{PLAN} --seed -1", "-1"),
    (f"{PLAN} --seed x", "'x'"),
    (f"{PLAN} --executor gpu", "'gpu'"),
    (f"{PLAN} --workers 0", "at least 1"),
    (f"{PLAN} --shards 0", "at least 1"),
    (f"{PLAN} --scheduler nowhere", "executor 'dask', got executor 'reference'"),
    (f"{PLAN} --store .", "--store"),
    ("plan --resume 1", "--store"),
    ("plan --resume 1 --store nowhere.db", "nowhere.db"),
    ("runs", "--store"),
    ("runs --store nowhere.db", "nowhere.db"),
    ("play gym:NoSuch-v0 --discount 0.9 --temperature 1", "cannot make 'NoSuch-v0'"),
    (
        f"play {CHAIN} --method rents --option prior=moon",
        "'visits' or 'parent', got 'moon'",
    ),
    (f"plan {CHAIN} --method uct --option heat=1 --budget 1000", "heat"),
    ("check nothing:here --discount 0.9 --temperature 1", "nothing"),
    (f"compare {CHAIN} --budget 1000 --methods alpha", "alpha"),
    (f"compare {CHAIN} --budget 1e12 --plot x.foo", "svg, png or pdf"),
    (f"compare {CHAIN} --budget 1e12 --plot nowhere/x.svg", "folder"),
]


@pytest.mark.parametrize(("line", "fragment"), BAD)
def test_an_error_is_one_sentence_on_stderr_and_exit_code_2(
    run, tmp_path, monkeypatch, line, fragment
):
    monkeypatch.chdir(tmp_path)
    done = run(line)
    assert done.code == 2
    # found out when workers start, after the price was announced
    assert done.out == "" or "--scheduler" in line
    assert done.err.startswith("Error: ")
    assert fragment in done.err
    assert "Traceback" not in done.err
    offers = done.err.rstrip("\n").split("\n")[1:]
    assert all(offer.startswith("  - ") for offer in offers)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("attribute", "fragment"),
    [("broken", "no licence"), ("number", "int"), ("nothing", "'nothing'")],
)
def test_what_goes_wrong_in_a_users_module_is_told_without_a_traceback(
    run, own, attribute, fragment
):
    done = run(f"plan {own}:{attribute} {PROMISE}")
    assert done.code == 2
    assert fragment in done.err
    assert "Traceback" not in done.err


def test_help_without_a_command(run):
    done = run("")
    assert done.code == 0
    assert done.out == run("--help").out
    assert "problems   List the built-in problems" in done.out
    assert done.err == ""
