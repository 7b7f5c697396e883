"""Objects that show themselves: as text, in a notebook, in one short line.

Answers, plans and problems are made upstream of ``display``, which lays out pages for a
reader, and must not import it. So an object says only *that* it can be shown, by the
base class ``Shown``; ``BUILDERS`` names the function that lays out its class, and that
function's module is imported when the first page is wanted. A new kind of object costs
one builder: a function of the object that returns a ``display.document.Page``.

This file leaves out every word of a page (``display``).
"""

from __future__ import annotations

import difflib
import math
import shutil
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from smoothcruiser.errors import text_of

# the builder of each class, and of the classes derived from it, as module:function
BUILDERS = {
    "Certificate": "smoothcruiser.display.answer_pages:certificate_page",
    "Certified": "smoothcruiser.display.result_pages:certified_page",
    "CertifiedForecast": "smoothcruiser.display.plans:forecast_page",
    "Check": "smoothcruiser.display.listing_pages:check_page",
    "Comparison": "smoothcruiser.display.result_pages:comparison_page",
    "Decision": "smoothcruiser.display.plans:forecast_page",
    "Estimate": "smoothcruiser.display.answer_pages:estimate_page",
    "Estimates": "smoothcruiser.display.result_pages:estimates_page",
    "Forecast": "smoothcruiser.display.plans:forecast_page",
    "Gap": "smoothcruiser.display.gap_pages:gap_page",
    "GapCertificate": "smoothcruiser.display.gap_pages:certificate_page",
    "KeptTable": "smoothcruiser.display.result_pages:table_page",
    "OperatorReport": "smoothcruiser.display.listing_pages:operator_page",
    "Prepared": "smoothcruiser.display.plans:prepared_page",
    "Problem": "smoothcruiser.display.listing_pages:problem_page",
    "Relaxation": "smoothcruiser.display.plans:relaxation_page",
    "Schedule": "smoothcruiser.display.plans:schedule_page",
    "Solution": "smoothcruiser.display.result_pages:solution_page",
    "Summary": "smoothcruiser.display.listing_pages:summary_page",
    "Table": "smoothcruiser.display.result_pages:table_page",
    "Tree": "smoothcruiser.display.result_pages:tree_page",
}
WIDTH = 80  # columns of a page where nothing is known of the reader's window
LONGEST = 120  # characters of a ``repr``
LONGEST_VALUE = 40  # characters of one value in it
EXACT = 10**15  # whole numbers below are written out


# names of attributes in other libraries; the first that an object has is suggested
FOREIGN_NAMES = {
    **dict.fromkeys(("q", "qs", "q_value", "qvalues", "q_table"), ("q_values",)),
    **dict.fromkeys(("v", "values", "mean", "estimate"), ("values", "value")),
    **dict.fromkeys(
        ("ci", "confidence_interval", "bounds", "lower", "upper", "low", "high"),
        ("interval",),
    ),
    **dict.fromkeys(
        ("std", "stderr", "se", "sd", "error", "sem", "std_error", "variance"),
        ("standard_error", "residual_bound"),
    ),
    **dict.fromkeys(("confidence", "guarantee", "proof"), ("certificate",)),
    **dict.fromkeys(("best_action", "best", "argmax", "a", "act"), ("action",)),
    **dict.fromkeys(("pi", "probs", "probabilities", "strategy"), ("policy",)),
    **dict.fromkeys(("calls", "n_calls", "cost", "samples"), ("num_calls", "calls")),
    **dict.fromkeys(("suboptimality", "optimality_gap", "gap"), ("regret",)),
    **dict.fromkeys(("exploitability", "nashconv"), ("nash_conv", "regret")),
    **dict.fromkeys(("time", "elapsed", "runtime"), ("seconds",)),
    **dict.fromkeys(("gamma",), ("discount",)),
    **dict.fromkeys(("n_actions", "action_space"), ("num_actions",)),
    **dict.fromkeys(("step",), ("oracle",)),
}


class Shown:
    """A base for objects with a page: ``print`` and a notebook show it."""

    if not TYPE_CHECKING:  # else every name would be accepted

        def __getattr__(self, name: str) -> Any:
            """Raise an error that suggests the name of the attribute here."""
            kind = type(self).__name__
            raise AttributeError(
                f"{kind!r} object has no attribute {name!r}"
                f"{_suggest_attribute(type(self), name)}",
                name=name,
                obj=self,
            )

    def summary(self, width: int = WIDTH) -> str:
        """The page as plain text of at most ``width`` columns.

        Args:
            width: columns, at least 40; by default 80.
        """
        text: str = _display_module("terminal").text_of(page_of(self), width)
        return text

    def __str__(self) -> str:
        """The page as plain text, as wide as the terminal and at least 80 columns."""
        return self.summary(columns())

    def _repr_html_(self) -> str:
        """The page as HTML, which notebooks show."""
        markup: str = _display_module("markup").fragment(page_of(self))
        return markup


def _suggest_attribute(kind: type, name: str) -> str:
    """A question after the attribute that ``name`` resembles."""
    if name.startswith("_"):
        return ""
    attribute_names = {*dir(kind), *getattr(kind, "__dataclass_fields__", ())}
    public_names = sorted(x for x in attribute_names if not x.startswith("_"))
    close_names = [x for x in FOREIGN_NAMES.get(name.lower(), ()) if x in public_names]
    close_names = close_names or difflib.get_close_matches(name, public_names, 1)
    return f"; did you mean .{close_names[0]}?" if close_names else ""


def page_of(subject: object) -> Any:
    """The page of an object, by the builder of its class or of the nearest base."""
    for cls in type(subject).__mro__:
        if cls.__name__ in BUILDERS:
            module, _, function = BUILDERS[cls.__name__].partition(":")
            return getattr(import_module(module), function)(subject)
    raise TypeError(
        f"{type(subject).__name__} has no page; name its builder in shown.BUILDERS."
    )


def columns() -> int:
    """Columns for text that is printed: 80, or those of a wider terminal."""
    try:
        is_terminal = sys.stdout.isatty()
    except (AttributeError, ValueError):  # no standard output, or a closed one
        is_terminal = False
    return max(WIDTH, shutil.get_terminal_size().columns) if is_terminal else WIDTH


def brief(kind: str, /, **fields: Any) -> str:
    """One line for ``repr``: the kind of an object and its main fields.

    Numbers have six digits, long values an ellipsis.
    """
    field_list = ", ".join(
        f"{name}={_value_text(value)}" for name, value in fields.items()
    )
    if len(kind) + len(field_list) + 2 > LONGEST:
        field_list = field_list[: LONGEST - len(kind) - 3] + "…"
    return f"{kind}({field_list})"


def _value_text(value: Any) -> str:
    if isinstance(value, int) and abs(value) >= EXACT:  # Python prints 4,300 digits
        power = math.floor(math.log10(abs(value)))
        return f"{10.0 ** (math.log10(abs(value)) - power):.2f}e{power}"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, tuple) and all(isinstance(x, float) for x in value):
        return f"({', '.join(f'{x:.6g}' for x in value)})"
    text = text_of(value)
    if not text.isprintable():  # of a user's own class; others escape themselves
        text = ascii(text)[1:-1]
    if len(text) <= LONGEST_VALUE:
        return text
    quote = text[-1] if text[-1] in "'\")]}" else ""
    return f"{text[: LONGEST_VALUE - 1 - len(quote)]}…{quote}"


def _display_module(name: str) -> Any:
    """A module of the package that lays out pages, which is imported late."""
    return import_module(f"smoothcruiser.display.{name}")
