"""What it means for two engines to agree, and the schedules they are compared on.

Agreement is to the last bit: sums, squares and counts of every shard, from the
same seed. The schedules are hand-made tables with all kinds of estimator (random
ones too, with clipping, and randomized levels), the paper's, and the optimizer's
for both root targets.
"""

import contextlib
import itertools
import math
import random
from dataclasses import replace

from smoothcruiser import InvalidInput, Kind, Level, Root, Schedule, Unpayable
from smoothcruiser.engines.base import Job
from smoothcruiser.engines.compiled.engine import CompiledEngine
from smoothcruiser.engines.compiled.tiers import ADDRESS, INLINED
from smoothcruiser.engines.interpreted.batched import BatchedEngine
from smoothcruiser.engines.interpreted.python import PythonEngine
from smoothcruiser.engines.interpreted.reference import ReferenceEngine
from smoothcruiser.engines.root_scores import BINNED, BINS, LOGGED, Score
from smoothcruiser.engines.run import Ledger, run_schedule
from smoothcruiser.engines.shards import Shard, cut_shards
from smoothcruiser.engines.workers import local_workers
from smoothcruiser.operators.operator_functions import parts_of
from smoothcruiser.schedule.compiler.optimizer import compile_schedule, sparse_sampling
from smoothcruiser.schedule.kinds import estimator_of
from smoothcruiser.schedule.paper_schedule import paper_schedule, paper_sparse_sampling
from smoothcruiser.theory.paper_constants import PaperSetting, value_bound

# of a schedule the reference has to run: it makes some 50,000 calls a second
MOST_CALLS = 1500
CENTER = 0.37  # squares are taken from here; any number will do
# what roots add up; the bins are too few for some samples, which are clamped
SCORES = (Score(BINNED, 0.7, BINS / 1.4), Score(LOGGED, 0.0, 0.8))


def by_hand(facts, levels, *, target="q_values", samples=2, **more):
    """A schedule that samples the last of some levels, and promises nothing."""
    root = Root(target, samples, len(levels) - 1, "none")
    return Schedule("hand", facts, tuple(levels), root, math.inf, 1.0, **more)


def hand_made(facts, *, target="q_values", samples=3, clip=None):
    """Every kind, shifts, queries that are leaves and queries that are not,
    rollouts that end in each kind.
    """
    levels = (
        Level(Kind.CONSTANT, constant=0.31, shift=0.11),
        Level(Kind.CONSTANT, constant=-0.2),
        Level(Kind.PLUGIN, samples=2, query=0, shift=0.05),
        Level(Kind.BLIND, continuation=1, shift=-0.07),
        Level(Kind.ROLLOUT, samples=2, query=1, continuation=2, shift=0.03),
        Level(Kind.PLUGIN, samples=2, query=3),
        Level(Kind.ROLLOUT, samples=1, query=2, continuation=4, shift=-0.02),
        Level(Kind.BLIND, continuation=6, shift=0.01),
        Level(Kind.ROLLOUT, samples=1, query=5, continuation=7),
    )
    return by_hand(facts, levels, target=target, samples=samples, clip=clip)


def random_table(facts, seed, *, target="q_values"):
    """A table drawn at random: children anywhere before, small counts, a clip
    that bites in every other table.
    """
    draw = random.Random(seed)
    levels, calls = [Level(Kind.CONSTANT, constant=draw.uniform(-1.0, 1.0))], [0]
    while len(levels) < 10:
        kind = draw.choice((Kind.CONSTANT, Kind.PLUGIN, Kind.ROLLOUT, Kind.BLIND))
        asks, goes_on = kind in (Kind.PLUGIN, Kind.ROLLOUT), kind > Kind.PLUGIN
        level = Level(
            kind,
            samples=draw.randint(1, 3) if asks else 0,
            query=draw.randrange(len(levels)) if asks else -1,
            continuation=draw.randrange(len(levels)) if goes_on else -1,
            constant=draw.uniform(-1.0, 1.0) if kind == Kind.CONSTANT else 0.0,
            shift=draw.choice((0.0, 0.1, -0.3)),
        )
        cost = 1 + calls[level.continuation] if goes_on else 0
        if asks:
            cost += facts.num_actions * level.samples * (1 + calls[level.query])
        if cost <= MOST_CALLS // (4 * facts.num_actions):
            levels.append(level)
            calls.append(cost)
    dearest = 1 + max(range(len(levels)), key=lambda i: calls[i])
    clip = (-0.1, 0.9) if seed % 2 else None
    return by_hand(facts, levels[:dearest], target=target, clip=clip)


def randomized_table(facts, seed, *, target="q_values", samples=4):
    """Randomized levels over leaves, over plain levels and over each other, with
    plain ones between; chances and baselines drawn at random. A root sample takes
    some tens of calls, or some hundreds where there are many actions.
    """
    draw = random.Random(seed)

    def rungs(number, most):
        return tuple(draw.uniform(0.0, most / number) for _ in range(number))

    def rollout(samples, query, continuation, chances):
        constant, shift = draw.uniform(-1.0, 2.0), draw.choice((0.0, 0.1, -0.3))
        kind = Kind.RANDOM_ROLLOUT
        return Level(kind, samples, query, continuation, constant, shift, chances)

    def plug_in(samples, query, chances):
        return Level(Kind.RANDOM_PLUGIN, samples, query, shift=0.05, rungs=chances)

    levels = (
        Level(Kind.CONSTANT, constant=0.31, shift=0.11),
        Level(Kind.CONSTANT, constant=-0.2),
        plug_in(2, 0, rungs(2, 1.0)),
        rollout(1, 1, 2, rungs(3, 1.0)),
        Level(Kind.BLIND, continuation=3, shift=0.02),
        rollout(1, 0, 4, rungs(1, 1.0)),
        plug_in(1, draw.choice((3, 5)), rungs(2, 0.2)),
        rollout(1, draw.choice((2, 4)), 5, rungs(2, 0.2)),
        Level(Kind.ROLLOUT, samples=1, query=1, continuation=draw.choice((6, 7))),
        rollout(2, 1, 8, ()),
        rollout(1, 2, 9, (0.0, 1.0)),
    )
    levels = tuple(plain_where_refused(level, facts) for level in levels)
    return by_hand(facts, levels, target=target, samples=samples)


def plain_where_refused(level, facts):
    """A randomized row, or the plain one for an operator that allows no other."""
    if estimator_of(level.kind).missing(facts) is None:
        return level
    plain = {Kind.RANDOM_ROLLOUT: Kind.ROLLOUT, Kind.RANDOM_PLUGIN: Kind.PLUGIN}[
        level.kind
    ]
    return replace(level, kind=plain, constant=0.0, rungs=())


def first_payable(make, facts, shares, **promise):
    """The schedule of the smallest epsilon that the reference can run, if any."""
    for share in shares:
        with contextlib.suppress(InvalidInput, Unpayable):
            schedule = make(facts, epsilon=share, **promise)
            if schedule.num_calls <= MOST_CALLS:
                return [schedule]
    return []


def paper_tables(facts):
    """SmoothCruiser and sparse sampling with the printed constants."""
    if facts.discount == 1.0:  # the paper has no constants there
        return []
    bound = value_bound(PaperSetting.of(facts))
    shares = [share * bound for share in (0.25, 0.5, 1.0, 2.0, 5.0, 12.0, 40.0)]
    return [
        *first_payable(paper_schedule, facts, shares, delta_prime=0.2),
        *first_payable(paper_sparse_sampling, facts, shares, delta_prime=0.2),
    ]


def sharp_tables(facts):
    """The optimizer's schedules for both root targets."""
    shares = [share * facts.value_span() for share in (0.08, 0.15, 0.25, 0.4, 0.6)]
    how = {"delta": 0.1, "target": "q_values"}
    return [
        *first_payable(compile_schedule, facts, shares, **how),
        *first_payable(compile_schedule, facts, shares, **how | {"target": "value"}),
        *first_payable(sparse_sampling, facts, shares, **how),
    ]


ENGINES = {
    "reference": ReferenceEngine,
    "python": PythonEngine,
    "compiled": CompiledEngine,
    "batched": BatchedEngine,
}


def engine_of(executor, problem, schedule, state, *rest, **options):
    """The engine of an executor that samples a schedule from a state."""
    return ENGINES[executor](Job(problem, schedule, state, *rest), **options)


def sums_of(engine, action, count, *, seed=1, number=0):
    """What a shard of so many root samples of an action adds up."""
    return engine.run_shard(Shard(action, number, 0, count), seed)


def bits(partial):
    """A shard's sums with every bit visible (0.0 and -0.0 differ)."""
    return (
        partial.draws,
        partial.total.hex(),
        partial.square.hex(),
        partial.calls,
        tuple(x if isinstance(x, int) else x.hex() for x in partial.score),
    )


def compiled_engines(job):
    """The compiled engine on each machine that it has for the job's problem."""
    if job.problem.tables is not None or parts_of(job.problem.operator) is not None:
        return [CompiledEngine(job)]
    return [CompiledEngine(job, tier) for tier in (INLINED, ADDRESS)]


def root_actions(problem, schedule, state):
    """The actions that a run samples."""
    return problem.legal_actions(state) if schedule.root.target == "q_values" else [0]


def assert_engines_agree(problem, schedule, state, *, seed=7):
    """All engines give the same bits on two shards of every action; the number
    of calls made by one shard of each is right, where it is not random.
    """
    jobs = [Job(problem, schedule, state, CENTER, score) for score in SCORES]
    engines = [
        (ReferenceEngine(job), [PythonEngine(job), *compiled_engines(job)])
        for job in jobs
    ]
    root = schedule.root
    half = -(-root.samples // 2)
    per_draw = schedule.level_calls[root.child] + (root.target == "q_values")
    for action in root_actions(problem, schedule, state):
        shards = (
            Shard(action, 0, 0, half),
            Shard(action, 1, half, root.samples - half),
        )
        for shard, (reference, fast) in zip(shards, engines, strict=True):
            slow = reference.run_shard(shard, seed)
            for engine in fast:
                where = (schedule.method, root, shard, engine)
                assert bits(slow) == bits(engine.run_shard(shard, seed)), where
            if any(level.rungs for level in schedule.levels):
                continue
            if schedule.price_is_exact:
                assert slow.calls == shard.count * per_draw
            else:
                assert slow.calls <= shard.count * per_draw


def outcome(engine, schedule, segments, actions, *, seed, workers):
    """Every bit of the sums and the counts of a run without early stops."""
    ledger = Ledger(segments, actions, lambda look, tally: False)
    with contextlib.closing(local_workers(engine, workers)) as pool:
        result = run_schedule(pool, schedule, ledger, seed=seed)
    sums = {
        a: (t.draws, t.total.hex(), t.square.hex(), t.look)
        for a, t in result.tallies.items()
    }
    return sums, result.num_calls, result.calls_spent


def assert_workers_do_not_matter(problem, schedule, state, *, seed=3):
    """One thread, two threads and the reference give the same outcome, for the
    default cut and for three shards an action.
    """
    actions = root_actions(problem, schedule, state)
    job = Job(problem, schedule, state, CENTER)
    engines = compiled_engines(job)
    for shards in (None, 3):
        segments = cut_shards(schedule, shards=shards)
        how = {"segments": segments, "actions": actions, "seed": seed}
        slow = outcome(ReferenceEngine(job), schedule, workers=1, **how)
        for compiled, workers in itertools.product(engines, (1, 2)):
            fast = outcome(compiled, schedule, workers=workers, **how)
            assert fast == slow, (schedule.method, shards, workers)
        assert slow[1] == slow[2]
        if not any(level.rungs for level in schedule.levels):
            assert slow[1] <= schedule.num_calls
            assert slow[1] == schedule.num_calls or not schedule.price_is_exact
