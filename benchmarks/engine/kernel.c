/* The yardstick: a schedule table run by hand-written C, to compare the compiled engine with.
 *
 * It reads the same table at run time, makes the same reward checks, inlines leaf loops, sums in the same order and returns the same
 * bits (compile with -O3 -march=native -ffp-contract=off). Recursion is what a C programmer would write here, and it is fast in C.
 * Entropy and max operators, MDPs without terminals. -DWALK compiles a user-written oracle with a struct state instead of tables.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#define MAX_ACTIONS 64
enum { CONSTANT, PLUGIN, ROLLOUT, BLIND, MIDDLE, RANDOM_PLUGIN, RANDOM_ROLLOUT };

typedef struct {
    const int64_t *kind, *samples, *query, *continuation;
    const double *constant, *shift, *center, *blind_head, *rungs;
    const int64_t *first_rung;
    int64_t num_actions, root_row;
    double discount, low, high;
    int64_t clips;
    double clip_low, clip_high;
    int64_t maximum; /* plain max instead of entropy */
    double temperature;
    /* tables of the tabular oracle */
    const int64_t *start, *next_state, *alias;
    const double *reward, *accept;
    /* what the root's bound adds up: 0 nothing, 1 a histogram by linear binning, 2 a sum of psi */
    int64_t score;
    double score_half, score_scale;
} Plan;

typedef struct { uint64_t s[4]; } Rng;

static inline uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
static inline uint64_t raw(Rng *r) {
    uint64_t *s = r->s, result = rotl(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0]; s[3] ^= s[1]; s[1] ^= s[2]; s[0] ^= s[3]; s[2] ^= t; s[3] = rotl(s[3], 45);
    return result;
}
static inline double uniform(Rng *r) { return (double)(int64_t)(raw(r) >> 11) * 0x1.0p-53; }
static inline int64_t below(Rng *r, uint64_t n) {
    uint64_t m = (raw(r) >> 32) * n, low = m & 0xffffffffu;
    if (low < n) {
        uint64_t floor = ((1ull << 32) - n) % n;
        while (low < floor) { m = (raw(r) >> 32) * n; low = m & 0xffffffffu; }
    }
    return (int64_t)(m >> 32);
}

#ifdef WALK
typedef struct { int64_t x, y; } State;
/* Four moves on a ring of 32 x 32 cells with a slip; the reward is the distance to the corner, scaled. */
static inline double step(const Plan *p, State s, int64_t a, Rng *r, State *z) {
    (void)p;
    if (uniform(r) < 0.1) a = (a + 1) % 4;
    *z = s;
    if (a == 0) z->x = (s.x + 1) % 32;
    else if (a == 1) z->x = (s.x + 31) % 32;
    else if (a == 2) z->y = (s.y + 1) % 32;
    else z->y = (s.y + 31) % 32;
    return (double)(z->x + z->y) / 62.0;
}
static inline double step_leaf(const Plan *p, State s, int64_t a, Rng *r) { State z; return step(p, s, a, r, &z); }
#else
typedef int64_t State;
/* The reward alone, for leaves. Without a branch on the alias, which is guessed wrong in a third of all samples, a processor works on several at
 * once; a step has the branch, because what follows waits for the next state, and a guess is there earlier. */
static inline double step_leaf(const Plan *p, State s, int64_t a, Rng *r) {
    int64_t row = s * p->num_actions + a, low = p->start[row], size = p->start[row + 1] - low, slot = low;
    if (size > 1) {
        double u = uniform(r) * (double)size;
        int64_t i = (int64_t)u;
        slot = low + i;
        int64_t other = -(int64_t)(u - (double)i >= p->accept[slot]);
        __asm__("" : "+r"(other)); /* a compiler that saw through it would branch */
        slot += (p->alias[slot] - slot) & other;
    }
    return p->reward[slot];
}
static inline double step(const Plan *p, State s, int64_t a, Rng *r, State *z) {
    int64_t row = s * p->num_actions + a, low = p->start[row], size = p->start[row + 1] - low, slot = low;
    if (size > 1) {
        double u = uniform(r) * (double)size;
        int64_t i = (int64_t)u;
        slot = low + i;
        if (u - (double)i >= p->accept[slot]) slot = p->alias[slot];
    }
    *z = p->next_state[slot];
    return p->reward[slot];
}
#endif

static double soft(const Plan *p, const double *q) {
    int64_t K = p->num_actions;
    double top = q[0], total = 0.0;
    for (int64_t a = 1; a < K; a++) if (q[a] > top) top = q[a];
    if (p->maximum) return top;
    for (int64_t a = 0; a < K; a++) total += exp((q[a] - top) / p->temperature);
    return top + p->temperature * log(total);
}
/* The value and the gradient in one pass over the exponentials (entropy only: the benchmarked rollouts are). */
static double soft_both(const Plan *p, const double *q, double *g) {
    int64_t K = p->num_actions;
    double top = q[0], total = 0.0;
    for (int64_t a = 1; a < K; a++) if (q[a] > top) top = q[a];
    for (int64_t a = 0; a < K; a++) { g[a] = exp((q[a] - top) / p->temperature); total += g[a]; }
    for (int64_t a = 0; a < K; a++) g[a] /= total;
    return top + p->temperature * log(total);
}

typedef struct { int64_t calls; int bad; } Count;

static double sample_v(const Plan *p, int64_t row, State s, Rng *r, Count *c);

static void estimate_q(const Plan *p, State s, int64_t row, int64_t n, Rng *r, Count *c, double *q) {
    int64_t child = p->query[row];
    double center = p->center[row];
    State z;
    for (int64_t a = 0; a < p->num_actions; a++) {
        double total = 0.0;
        if (p->kind[child] == CONSTANT) {
            double tail = p->discount * (p->shift[child] != 0.0 ? p->constant[child] + p->shift[child] : p->constant[child]) - center;
            for (int64_t i = 0; i < n; i++) {
                double x = step_leaf(p, s, a, r);
                if (!(p->low <= x && x <= p->high)) { c->bad = 1; return; }
                total += x + tail;
            }
            c->calls += n;
        } else {
            for (int64_t i = 0; i < n; i++) {
                double x = step(p, s, a, r, &z);
                c->calls++;
                if (!(p->low <= x && x <= p->high)) { c->bad = 1; return; }
                total += x + (p->discount * sample_v(p, child, z, r, c) - center);
                if (c->bad) return;
            }
        }
        double mean = center + total / (double)n;
        if (p->clips) {
            if (mean < p->clip_low) mean = p->clip_low;
            if (mean > p->clip_high) mean = p->clip_high;
        }
        q[a] = mean;
    }
}

/* A slot in proportion to g, and the sum of g. */
static inline int64_t pick(const double *g, int64_t K, Rng *r, double *norm) {
    int64_t slot = 0;
    double total = 0.0, running = 0.0;
    for (int64_t j = 0; j < K; j++) total += g[j];
    double u = uniform(r) * total;
    for (int64_t j = 0; j < K; j++)
        if (g[j] > 0.0) { slot = j; running += g[j]; if (u < running) break; }
    *norm = total;
    return slot;
}

/* What one sample of a randomized level adds to its base. */
static double correction(const Plan *p, int64_t row, State s, Rng *r, Count *c) {
    int64_t K = p->num_actions, first = p->first_rung[row], end = p->first_rung[row + 1], i, plugin = p->kind[row] == RANDOM_PLUGIN;
    double u = uniform(r), running = 0.0, y[3][MAX_ACTIONS], g[MAX_ACTIONS], d[MAX_ACTIONS], lacking = 0.0, norm = 0.0;
    for (i = first; i < end; i++) { running += p->rungs[i]; if (u < running) break; }
    if (i == end) return 0.0;
    int64_t m = p->samples[row] << (i - first);
    for (int64_t half = 1; half <= 2; half++) { estimate_q(p, s, row, m, r, c, y[half]); if (c->bad) return 0.0; }
    for (int64_t j = 0; j < K; j++) { y[0][j] = 0.5 * (y[1][j] + y[2][j]); d[j] = 0.0; }
    for (int64_t part = 0; part < 3; part++) {
        double share = part == 0 ? 1.0 : -0.5, inner = 0.0;
        if (plugin) { lacking += share * soft(p, y[part]); continue; }
        double value = soft_both(p, y[part], g);
        for (int64_t j = 0; j < K; j++) { inner += y[part][j] * g[j]; d[j] += share * g[j]; }
        lacking += share * (value - inner);
    }
    if (!plugin) {
        int moves = 0;
        for (int64_t j = 0; j < K; j++) { g[j] = fabs(d[j]); moves |= d[j] != 0.0; }
        if (moves) {
            State z;
            int64_t a = pick(g, K, r, &norm);
            double x = step(p, s, a, r, &z);
            c->calls++;
            if (!(p->low <= x && x <= p->high)) { c->bad = 1; return 0.0; }
            double xi = x + (p->discount * sample_v(p, p->continuation[row], z, r, c) - p->constant[row]);
            lacking += (d[a] > 0.0 ? norm : -norm) * xi;
        }
    }
    return lacking / p->rungs[i];
}

static double sample_v(const Plan *p, int64_t row, State s, Rng *r, Count *c) {
    double total = 0.0, weight = 1.0, q[MAX_ACTIONS], g[MAX_ACTIONS];
    for (;;) {
        int64_t kind = p->kind[row], a = 0;
        double head;
        if (kind == CONSTANT) {
            double v = p->constant[row];
            if (p->shift[row] != 0.0) v += p->shift[row];
            return total + weight * v;
        }
        if (kind == BLIND) {
            head = p->blind_head[p->num_actions] + p->shift[row];
            a = below(r, (uint64_t)p->num_actions);
        } else {
            estimate_q(p, s, row, p->samples[row], r, c, q);
            if (c->bad) return 0.0;
            if (kind == PLUGIN || kind == RANDOM_PLUGIN) {
                head = soft(p, q) + p->shift[row];
                if (kind == RANDOM_PLUGIN) head += correction(p, row, s, r, c);
                return total + weight * head;
            }
            double value = soft_both(p, q, g);
            double inner = 0.0, norm;
            for (int64_t j = 0; j < p->num_actions; j++) inner += q[j] * g[j];
            a = pick(g, p->num_actions, r, &norm);
            head = (value - inner) + p->shift[row];
            if (kind == RANDOM_ROLLOUT) { head += correction(p, row, s, r, c); if (c->bad) return 0.0; }
        }
        State z;
        double x = step(p, s, a, r, &z);
        c->calls++;
        if (!(p->low <= x && x <= p->high)) { c->bad = 1; return 0.0; }
        total += weight * (head + x);
        weight *= p->discount;
        row = p->continuation[row];
        s = z;
    }
}

#define BINS 256
#define WHOLE (1 << 24)

static inline void add_score(const Plan *p, double d, int64_t *bins, double *logged) {
    if (p->score == 1) {
        double t = (d + p->score_half) * p->score_scale;
        int64_t k = 0, above = 0;
        if (t >= BINS) { k = BINS - 1; above = WHOLE; }
        else if (t > 0.0) { k = (int64_t)t; above = (int64_t)((t - (double)k) * WHOLE); }
        bins[k] += WHOLE - above;
        bins[k + 1] += above;
    } else if (p->score == 2) {
        double x = p->score_scale * d, grown = log1p(fabs(x) + 0.5 * x * x);
        *logged += x >= 0.0 ? grown : -grown;
    }
}

/* One shard; out = {calls, bad}, sums = {total, square, sum of psi}, bins = the histogram. */
void run_shard(const Plan *p, const int64_t *root, int64_t action, int64_t count, double center, uint64_t *words, int64_t *out, double *sums,
               int64_t *bins) {
    Rng r;
    Count c = {0, 0};
    State s, z;
    memcpy(r.s, words, sizeof r.s);
    memcpy(&s, root, sizeof s);
    double total = 0.0, square = 0.0, logged = 0.0;
    for (int64_t i = 0; i < count && !c.bad; i++) {
        double x = step(p, s, action, &r, &z);
        c.calls++;
        if (!(p->low <= x && x <= p->high)) { c.bad = 1; break; }
        double d = x + (p->discount * sample_v(p, p->root_row, z, &r, &c) - center);
        total += d;
        square += d * d;
        add_score(p, d, bins, &logged);
    }
    out[0] = c.calls; out[1] = c.bad;
    sums[0] = total; sums[1] = square; sums[2] = logged;
}
