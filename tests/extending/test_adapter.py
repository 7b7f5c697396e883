"""The recipe "An adapter" of docs/extending.md, as a user's module and as an installed
package.

Laws: the code of the page makes ``weather:…`` a problem for ``make``, for the command
line with its states, and for an Agent; nothing of it is left behind. What cannot be
found or imported is named in one sentence.
"""

import json
import sys
from pathlib import Path

import pytest
import recipes
from click.testing import CliRunner

import smoothcruiser as sc
from smoothcruiser.adapters import register
from smoothcruiser.cli.app import app
from smoothcruiser.problem.adapter_protocol import (
    ADAPTERS,
    find_adapter,
    load_adapters,
)
from smoothcruiser.problem.make import from_spec

HEADING = "An adapter"
MODULE = "recipe_an_adapter"
NAME = "weather:bergen,rain=0.7"


@pytest.fixture(autouse=True)
def table_kept():
    """Adapters of a test are out of the table after it."""
    before = dict(load_adapters())  # with those of the package, which come late
    yield
    ADAPTERS.clear()
    ADAPTERS.update(before)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package without an installer: an entry point for the recipe's module."""

    def install(value, name="weather", package="weather"):
        info = tmp_path / f"{package}_package-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {package}-package\nVersion: 1.0\n"
        )
        (info / "entry_points.txt").write_text(
            f"[smoothcruiser.problems]\n{name} = {value}\n"
        )
        (tmp_path / f"{MODULE}.py").write_text(recipes.recipe(HEADING))
        monkeypatch.syspath_prepend(str(tmp_path))

    yield install
    sys.modules.pop(MODULE, None)


def command(*arguments):
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def used():
    """Find the adapter in every way that a user does."""
    problem = sc.make(NAME, discount=0.5, temperature=1.0)
    assert problem.oracle.rain == 0.7
    assert from_spec(problem.spec).facts == problem.facts
    assert "a city's weather, with or without an umbrella" in " ".join(
        command("problems").split()
    )
    promise = ("--discount", "0.5", "--temperature", "1", "--epsilon", "20%")
    asked = (*promise, "--delta", "0.1", "--method", "smoothcruiser", "--json")
    said = json.loads(command("plan", NAME, *asked, "--state", '"rain"'))
    planned = sc.plan(
        problem, 1, epsilon="20%", delta=0.1, method="smoothcruiser", seed=0
    )
    assert said["state"] == 1
    assert said["value"] == planned.value
    agent = sc.Agent(problem, "uct", budget=200)
    assert agent.act("rain") == 1  # it rains on with probability 0.85
    assert agent.estimate.state == 1


def test_a_registered_adapter_is_found_everywhere(tmp_path):
    with recipes.written(HEADING, tmp_path) as module:
        assert find_adapter("weather") is module.ADAPTER
        used()


def test_an_installed_adapter_is_found_everywhere(installed):
    installed(f"{MODULE}:ADAPTER")
    assert "weather" not in ADAPTERS
    used()
    assert "weather" in ADAPTERS


def test_an_agent_acts_in_a_running_simulator_of_its_adapter(tmp_path):
    class Station:
        """A running simulator: it rains."""

        wet = True

    with recipes.written(HEADING, tmp_path) as module:

        class LiveUmbrella(module.Umbrella):
            actions = ("walk", "carry")

            def read(self, station):
                return int(station.wet)

        class LiveWeather(module.Weather):
            name = "live-weather"
            options = ("discount", "operator")

            def accepts(self, simulator):
                return isinstance(simulator, Station)

            def problem(self, simulator, **options):
                oracle = LiveUmbrella(0.7)
                return sc.MDP(oracle, num_actions=2, initial_state=0, **options)

        register(LiveWeather())
        options = {"discount": 0.5, "operator": sc.Entropy(1.0)}
        agent = sc.Agent(Station(), "uct", budget=200, **options)
        assert agent.act() == "carry"
        assert agent.estimate.state == 1
        with pytest.raises(sc.InvalidInput, match="needs discount= and operator="):
            sc.Agent(Station(), "uct", budget=200)
    with pytest.raises(sc.InvalidInput, match=r"An Agent acts in a Problem .* or"):
        sc.Agent(Path("weather"), "uct", budget=200)


def test_an_unknown_prefix_lists_what_is_installed(installed):
    installed(f"{MODULE}:ADAPTER")
    listed = r"did you mean 'weather:'\?.*adapters: .*gym:, .*openspiel:, .*weather:"
    with pytest.raises(sc.InvalidInput, match=listed):
        sc.make("wether:bergen", discount=0.5)
    with pytest.raises(sc.InvalidInput, match=r"did you mean 'chain'\?"):
        sc.make("chian", discount=0.5)
    assert "weather" not in ADAPTERS  # a typo imports no adapter


@pytest.mark.parametrize(
    "value, reason",
    [
        (
            "no_such_module:ADAPTER",
            "cannot be imported: ModuleNotFoundError: No module",
        ),
        (f"{MODULE}:ADAPTOR", "cannot be imported: AttributeError"),
        (f"{MODULE}:Umbrella", "is not an adapter called 'weather', but <class"),
    ],
)
def test_a_broken_adapter_is_named_with_the_reason(installed, value, reason):
    installed(value)
    who = rf"The adapter 'weather' of weather-package \({value}\) "
    with pytest.raises(sc.InvalidInput, match=who + reason):
        sc.make(NAME, discount=0.5)
    ADAPTERS.pop("weather", None)  # the module registers it when it is imported
    sys.modules.pop(MODULE, None)
    listed = " ".join(command("problems").split())
    assert "weather-package" in listed
    assert "gym:FrozenLake-v1" in listed


def test_a_prefix_that_two_packages_claim_is_refused_with_both(installed):
    installed(f"{MODULE}:ADAPTER")
    installed("elsewhere:ADAPTER", package="other")
    claimed = (
        "The prefix 'weather' is claimed by 2 installed packages: .*weather-package"
    )
    with pytest.raises(sc.InvalidInput, match=claimed):
        sc.make(NAME, discount=0.5, temperature=1.0)
    assert "other-package (elsewhere:ADAPTER)" in command("problems", "--json")


def test_an_installed_adapter_does_not_take_our_prefix(installed):
    ours = find_adapter("gym")
    installed(f"{MODULE}:ADAPTER", name="gym")
    assert find_adapter("gym") is ours
    said = json.loads(command("problems", "--json"))
    assert said["gym:"]["fault"] == ""
    assert "is not used: the prefix 'gym'" in said["gym of weather-package:"]["fault"]


def test_an_adapter_says_how_it_is_used(installed):
    installed(f"{MODULE}:ADAPTER")
    example = r"as in make\('weather:bergen,rain=0.7', discount=0.9, temperature=0.1\)"
    with pytest.raises(sc.InvalidInput, match=example):
        sc.make("weather:", discount=0.5)
    with pytest.raises(sc.InvalidInput, match=example):
        sc.make("weather:bergen")


@pytest.mark.parametrize(
    "word, value, sentence",
    [
        ("name", "gym", "The prefix 'gym' is taken by"),
        ("name", "chain", "The prefix 'chain' is taken by a built-in problem"),
        ("name", "a:b", "prefix of letters, digits, - and _, got 'a:b'"),
        ("summary", None, "An adapter's summary is a text, got None"),
        ("needs", None, "An adapter's needs is a text, got None"),
        ("modules", "weather", "An adapter's modules are a tuple, got 'weather'"),
    ],
)
def test_attributes_that_cannot_be_are_refused(tmp_path, word, value, sentence):
    with recipes.written(HEADING, tmp_path) as module:
        adapter = module.Weather()
        adapter.name = "other-weather"
        setattr(adapter, word, value)
        with pytest.raises(sc.InvalidInput, match=sentence):
            register(adapter)


def test_what_is_no_adapter_is_refused():
    with pytest.raises(sc.InvalidInput, match="An adapter has the attributes name"):
        register(Path("weather"))
