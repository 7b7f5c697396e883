"""A notebook whose step is defined in a cell, run in a real kernel by nbclient.

One kernel runs all cells. A cell that runs for ever is interrupted as Jupyter does it,
through the kernel's manager.
"""

import asyncio
import json

import nbformat
import pytest
from nbclient import NotebookClient

pytestmark = pytest.mark.compiles

SETUP = """
import json
import smoothcruiser as sc

def step(state, action, rng):
    return 0.5 * rng.random() + 0.1 * action, int(rng.integers(6))

mdp = sc.MDP(
    step, num_actions=2, discount=0.5, operator=sc.Entropy(0.5), initial_state=0
)
promise = {"epsilon": 0.3, "delta": 0.1}
"""

# name -> a cell; the last line of what it prints is JSON, which the test reads
CELLS = {
    "plan": """
answer = sc.plan(mdp, method="smoothcruiser", progress=True, **promise)
print(json.dumps([answer.value, answer.interval]))
""",
    "interrupt plan": """
print("running", flush=True)
part = sc.plan(mdp, method="certified", epsilon=1e-6, delta=0.1, budget=10**9)
print(json.dumps([part.interval, part.notes]))
""",
    "interrupt evaluate": """
sc.evaluate(mdp, lambda state: [0.5, 0.5], budget=100)  # imported and compiled
print("running", flush=True)
part = sc.evaluate(mdp, lambda state: [0.5, 0.5], budget=10**9)
print(json.dumps([part.interval, part.notes]))
""",
    "interrupt compare": """
sc.compare(mdp, budgets=[20], methods=["uct"])
print("running", flush=True)
rows = sc.compare(mdp, budgets=[20, 10**9], methods=["uct"])
print(json.dumps([row.budget for row in rows]))
""",
    "interrupt solve": """
import numpy as np
ring = np.roll(np.eye(500), 1, axis=1)[:, None, :]  # no two plays ever meet
rewards = np.linspace(0.0, 1.0, 500)[:, None]
model = sc.tabular(ring, rewards, discount=1 - 1e-5, operator=sc.Max())
print("running", flush=True)
part = sc.solve(model, method="value-iteration")
print(json.dumps([part.residual_bound, part.note]))
""",
    "after": """
again = sc.plan(mdp, method="smoothcruiser", **promise)
print(json.dumps(again.value == answer.value))
""",
    "processes": """
apart = sc.plan(
    mdp, method="smoothcruiser", executor="processes", workers=1, **promise
)
print(json.dumps([apart.executor, apart.value == answer.value]))
""",
    "frame": """
frame = answer.to_frame()
axes = type(answer.plot()).__name__
print(json.dumps([type(frame).__name__, list(frame.columns), len(frame), axes]))
""",
    "shown": """
chain = sc.make("chain:n=5", discount=0.5, temperature=1.0)
memory = sc.Certified(mdp, delta=0.1)
memory.query(0, epsilon=0.5)
nine = [
    answer,
    sc.explain(mdp, **promise),
    sc.prepare(mdp, **promise),
    sc.solve(chain),
    sc.check(mdp),
    sc.compare(chain, budgets=[100], methods=["uct"]),
    sc.Tree(mdp).grow(simulations=50),
    memory,
    mdp,
]
for one in nine:
    display(one)
print(json.dumps([[type(one).__name__, repr(one)] for one in nine]))
""",
}


class Interrupting(NotebookClient):
    """A client that interrupts the kernel soon after a cell has said "running"."""

    AFTER = 1.0  # seconds

    def process_message(self, msg, cell, cell_index):
        text = msg["content"].get("text", "") if msg["msg_type"] == "stream" else ""
        if text.startswith("running"):
            loop = asyncio.get_event_loop()
            loop.call_later(self.AFTER, self._interrupt)
        return super().process_message(msg, cell, cell_index)

    def _interrupt(self):
        self.pressed = asyncio.ensure_future(self.km.interrupt_kernel())


@pytest.fixture(scope="module")
def notebook():
    """The cells of the notebook after it was run, by name."""
    sources = {"setup": SETUP, **CELLS}
    book = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in sources.values()]
    )
    Interrupting(book, timeout=120, kernel_name="python3").execute()
    nbformat.validate(book)
    return dict(zip(sources, book.cells, strict=True))


def printed(cell):
    """What the last line that a cell printed holds."""
    text = "".join(o["text"] for o in cell.outputs if o.get("name") == "stdout")
    return json.loads(text.splitlines()[-1])


def test_a_step_of_a_cell_is_planned_with_a_bar_that_is_one_line(notebook):
    value, interval = printed(notebook["plan"])
    assert interval[0] <= value <= interval[1]
    shown = [o for o in notebook["plan"].outputs if o["output_type"] == "display_data"]
    assert len(shown) == 1  # rewritten in place
    assert shown[0]["data"]["text/plain"].startswith("done: ")
    assert "<code>done: " in shown[0]["data"]["text/html"]
    assert not [o for o in notebook["plan"].outputs if o.get("name") == "stderr"]


def test_an_interrupted_cell_has_the_answer_so_far_and_the_kernel_goes_on(notebook):
    for verb in ("plan", "evaluate"):
        (low, high), notes = printed(notebook[f"interrupt {verb}"])
        assert low <= 1.8
        assert high >= 0.8
        assert any("by hand" in note for note in notes), notes
    assert printed(notebook["interrupt compare"]) == [20]
    bound, note = printed(notebook["interrupt solve"])
    assert 1e-6 < bound < 1e6
    assert "stopped after" in note
    assert printed(notebook["after"]) is True


def test_a_step_of_a_cell_runs_on_processes(notebook):
    assert printed(notebook["processes"]) == ["processes", True]


def test_an_answer_becomes_a_frame_and_a_plot(notebook):
    kind, columns, rows, axes = printed(notebook["frame"])
    assert (kind, rows, axes) == ("DataFrame", 2, "Axes")
    assert columns[:3] == ["action", "label", "value"]


def test_nine_objects_show_themselves_once(notebook):
    """As HTML, with one short line for a front end without it, and nothing beside."""
    names = "Estimate Schedule Prepared Solution Check Comparison Tree Certified MDP"
    told = printed(notebook["shown"])
    # ``prepare`` returns what its method makes: a class of its own
    assert [text.partition("(")[0] for _, text in told] == names.split()
    outputs = notebook["shown"].outputs
    shown = [o["data"] for o in outputs if o["output_type"] == "display_data"]
    assert [data["text/plain"] for data in shown] == [text for _, text in told]
    for data in shown:
        assert data["text/html"].count('<div class="smoothcruiser">') == 1
    assert len([o for o in outputs if o["output_type"] == "stream"]) == 1
