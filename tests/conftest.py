"""Which tests are evidence because of what they cost, where no other test needs it;
and tests search for their schedules, whatever was kept on disk, and start no process
that compiles beside them.

CI has twelve minutes on two cores. A test named here takes seconds, mostly to compile
what nobody else uses; ``make evidence`` runs it (marker ``slow``). What is measured is
CPU time with empty caches. A line stands for all tests whose names contain each of its
parts, which ``&`` divides.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

COSTLY = (
    "conformance/test_adapter_declarations.py::test_each & pettingzoo",
    "conformance/test_adapter_declarations.py::test_what & pettingzoo",
    "conformance/test_adapter_declarations.py::test_each & rddl",
    "conformance/test_adapter_declarations.py::test_what & rddl",
    "unit/methods/test_auto.py::test_a_search_answers_where_rounding & more1",
    "unit/methods/test_auto.py::test_a_search_answers_where_rounding & more2",
    "extending/test_method.py::test_compare_and_the_command_line_know_it",
    "extending/test_operator.py::test_the_recipe_keeps_the_promise_and_is_named",
    "extending/test_operator.py::test_the_price_that_the_recipe_states_suffices",
    "extending/test_operator.py::test_it_also_runs_with_a_plain_python_operator",
    "extending/test_operator.py::test_radii_divided_by_four_miss",
    "extending/test_operator.py::test_certified_search_encloses_the_truth",
    "extending/test_operator.py::test_tree_search_and_relaxation_take_it",
    "end_to_end/test_compare.py::test_json_has_a_row_for_every_planner",
    "end_to_end/test_cli.py::test_explain_says_what_plan_would_do_above & [cold-",
    "golden/test_answers.py::test_answers_are_the_same_to_the_last_bit[turns: gumbel]",
    "golden/test_answers.py::test_answers_are_the_same_to_the_last_bit[turns: puct]",
    "golden/test_answers.py::test_answers_are_the_same_to_the_last_bit[walk: puct]",
    "end_to_end/test_cli.py::test_what_is_printed_fits_its_schema[explain",
    "end_to_end/test_cli.py::test_explain_says_what_plan_would_do_above & [unhashable-",
    "end_to_end/test_notebook.py::test_a_step_of_a_cell_is_planned_with_a_bar",
    "end_to_end/test_play.py::test_play_against_a_function_of_the_users_own",
    "conformance/engines/test_engines_oracles.py::test_agreement_on_every_kind & [array]",
    "conformance/engines/test_batched.py::test_three_engines_return & [game]",
    "statistical/test_sharp_promise.py::test_failures_stay_within_delta[12]",
    "statistical/test_sharp_promise.py::test_failures_stay_within_delta[18]",
    "unit/certified/sampling/test_certified_words.py::test_errors_say_what_plain_python_says",
    "unit/engines/pools/test_pools.py::test_a_script_without_a_main_guard",
    "unit/engines/test_engines_complete.py::test_a_stop_ends_a_shard_on_the_shared_machine",
    "unit/exact/test_exact.py::test_custom_operators_plain_and_compiled_whose",
    "unit/methods/test_relax_option.py::test_explain_shows_the_split_and_all_prices",
    "unit/operators/test_operators.py & 1000.0]",
    "unit/problem/oracles/test_sampled.py::test_compiled_and_plain_trees_agree_on_sampled",
    "unit/reproduce/test_reproduce.py::test_the_study_stays_below_the_bounds",
    "unit/tree/test_forest.py::test_workers_slices_and_code & [bts(widening",
    "unit/tree/test_tree_forms.py::test_slices_of_calls_change_nothing[",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the table; the quick ones of tests/unit still come first."""
    for item in items:
        if any(_is_named(item.nodeid, name) for name in COSTLY):
            item.add_marker(pytest.mark.slow)


def _is_named(test: str, name: str) -> bool:
    return all(part in test for part in name.split(" & "))


@pytest.fixture(autouse=True, scope="session")
def _schedules_are_searched() -> Iterator[None]:
    """Keep no schedules; those that started processes keep are apart from these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("smoothcruiser.schedule.schedule_cache.is_on", lambda: False)
        patch.setenv("SMOOTHCRUISER_WARM", "0")
        yield
