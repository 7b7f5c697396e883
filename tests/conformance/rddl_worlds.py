"""RDDL for tests: a domain small enough to solve by hand, and a world without chance.

Two lamps that burn out, and a hand that repairs one of them at a time. With d the chance
that a burning lamp goes out, a lamp pays 1 while it burns, a repair costs c and always
works.
"""

import numpy as np

LAMPS = """
domain lamps {
    types { lamp : object; };
    pvariables {
        OUT(lamp) : { non-fluent, real, default = 0.25 };
        COST : { non-fluent, real, default = 0.5 };
        burns(lamp) : { state-fluent, bool, default = false };
        age : { state-fluent, int, default = 0 };
        repair(lamp) : { action-fluent, bool, default = false };
    };
    cpfs {
        burns'(?l) =
            if (repair(?l)) then KronDelta(true)
            else if (burns(?l)) then Bernoulli(1 - OUT(?l))
            else KronDelta(false);
        age' = min[age + 1, 3];
    };
    reward = (sum_{?l : lamp} [burns(?l)]) - COST * (sum_{?l : lamp} [repair(?l)]);
    action-preconditions { forall_{?l : lamp} [repair(?l) => ~burns(?l)]; };
    termination { age == 3 ^ (forall_{?l : lamp} [~burns(?l)]); };
}
"""
LAMPS_INSTANCE = """
non-fluents some_lamps { domain = lamps; objects { lamp : {l1, l2}; }; }
instance two_lamps {
    domain = lamps;
    non-fluents = some_lamps;
    init-state { burns(l1) = true; };
    max-nondef-actions = 1;
    horizon = 2;
    discount = 0.5;
}
"""


class Level:
    """Random numbers that are all equal to u, as a planner's stream and a Generator.

    A Bernoulli(p) is then true if u < p, in whatever order and number it is sampled.
    """

    def __init__(self, u):
        self.u = u

    def numpy(self):
        return self

    def random(self, size=None):
        return self.u if size is None else np.full(size, self.u)

    uniform = random
