"""``gap``: the orchestration of a Gap, from the request to the answer.

    request  ->  upper end: exact, certified or paths  ->  Gap

``auto`` takes the exact solution where the model is known. Of a simulator it asks a
pilot of a few paths; certified search is for worlds without chance, where a path knows
nothing that V does not, and for those whose states come back while their paths hold
too many states.
"""

from __future__ import annotations

import math
from typing import Any

from smoothcruiser.estimate import NOWHERE, Interval, estimate_subject
from smoothcruiser.gap.gap_result import Gap, GapCertificate
from smoothcruiser.gap.request_reading import (
    GapKeywords,
    GapRequest,
    convexity_assumptions,
    read_request,
)
from smoothcruiser.problem.problem import Problem
from smoothcruiser.progress import finish, show_bar
