"""Statistics against scipy, statsmodels and direct computation: 200 random tables, 200 random sets of differences.

usage: statistics_parity.py PROGRAM; exit code 77 where a package is absent. Exact tests and closed forms agree to 1e-10
(relative), the exact permutation test to 1e-12; drawn ones agree to 1e-10 with the same draws made here, and within the
draws' error with scipy's own.
"""
import itertools
import json
import math
import subprocess
import sys

try:
    import numpy as np
    import scipy
    from scipy import integrate, optimize, stats
    from statsmodels.stats.contingency_tables import mcnemar
    from statsmodels.stats.multitest import multipletests
    from statsmodels.stats.power import TTestPower
    from statsmodels.stats.proportion import proportion_confint
    from statsmodels.stats.weightstats import ttost_paired
except ImportError as error:
    print(f"SKIP: {error}")
    sys.exit(77)

PROGRAM = sys.argv[1]
N_TABLES = 200
N_DRAWS = 2000
failures = []


def ask(requests):
    lines = "".join(json.dumps(request) + "\n" for request in requests)
    out = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(out) == len(requests)
    return [json.loads(line) for line in out]


def expect(what, got, wanted, tolerance=1e-10):
    got, wanted = np.ravel(np.array(got, float)), np.ravel(np.array(wanted, float))
    worst = np.max(np.abs(got - wanted) / np.maximum(np.abs(wanted), 1e-300) if tolerance < 1e-3 else np.abs(got - wanted))
    close = np.all(np.abs(got - wanted) <= tolerance * np.maximum(np.abs(wanted), 1e-3))
    if not close:
        failures.append(f"{what}: got {got}, expected {wanted}")
    return worst


# --- right/wrong tables -------------------------------------------------------------------------------------------


def restricted_score(n, b, c, delta):
    """Tango's statistic with the restricted likelihood maximized numerically; b: right to wrong, c: wrong to right."""
    low, high = max(0.0, -delta), (1 - delta) / 2

    def log_likelihood(q):
        terms = ((c, q + delta), (b, q), (n - b - c, 1 - 2 * q - delta))
        return sum(count * math.log(max(p, 1e-300)) for count, p in terms if count)

    grid = np.linspace(low, high, 4001)[1:-1]
    best = grid[np.argmax([log_likelihood(q) for q in grid])]
    step = (high - low) / 4000
    found = optimize.minimize_scalar(lambda q: -log_likelihood(q), bounds=(max(low, best - step), min(high, best + step)),
                                     method="bounded", options={"xatol": 1e-13})
    variance = n * (2 * found.x + delta * (1 - delta))
    return (c - b - n * delta) / math.sqrt(variance)


def check_tables(random):
    requests = []
    for _ in range(N_TABLES):
        n = int(random.integers(1, 2000))
        b, c, both, _ = random.multinomial(n, random.dirichlet([0.3, 0.3, 1, 1]))
        requests.append({"what": "table", "n": n, "b": int(b), "c": int(c), "k": int(both + b),
                         "confidence": float(random.choice([0.9, 0.95, 0.99])), "margin": float(random.uniform(0.002, 0.1))})
    for request, got in zip(requests, ask(requests)):
        n, b, c, k = (request[key] for key in "nbck")
        expect(f"mcnemar {b} {c}", got["mcnemar"], mcnemar([[0, b], [c, 0]], exact=True).pvalue)
        alpha = 1 - request["confidence"]
        expect(f"wilson {k}/{n}", got["wilson"], proportion_confint(k, n, alpha=alpha, method="wilson"))
        z = stats.norm.ppf(1 - alpha / 2)
        for bound, wanted in zip(got["tango"], (z, -z)):  # the score statistic at the bound is the quantile
            if abs(bound) < 1 and 0 < b and 0 < c and b + c < n:
                expect(f"tango {n} {b} {c} at {bound}", restricted_score(n, b, c, bound), wanted, 1e-4)
        m = request["margin"]
        if 0 < b and 0 < c and b + c < n:
            wanted = stats.norm.sf(restricted_score(n, b, c, -m)), stats.norm.cdf(restricted_score(n, b, c, m))
            expect(f"tost {n} {b} {c} {m}", got["tost"], wanted, 1e-2 if min(wanted) < 1e-3 else 1e-4)


# --- graded differences -------------------------------------------------------------------------------------------


def split_mix(seed, n):
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def same_bootstrap(values, confidence, seed):
    """The resamples that the header describes, and scipy's formula of BCa on them."""
    n = len(values)
    per_draw = (n + 1) // 2
    u = split_mix(seed, N_DRAWS * per_draw)
    halves = np.stack([u & np.uint64(0xFFFFFFFF), u >> np.uint64(32)], axis=1).reshape(N_DRAWS, -1)[:, :n]
    means = values[((halves * np.uint64(n)) >> np.uint64(32)).astype(int)].mean(axis=1)
    mean = values.mean()
    ties = np.abs(means - mean) <= 1e-12
    bias = stats.norm.ppf((np.sum((means < mean) & ~ties) + 0.5 * np.sum(ties)) / N_DRAWS)
    jackknife = np.array([np.delete(values, i).mean() for i in range(n)])
    pull = jackknife.mean() - jackknife
    a = np.sum(pull**3) / (6 * np.sum(pull**2) ** 1.5)
    z = bias + stats.norm.ppf([(1 - confidence) / 2, (1 + confidence) / 2])
    return np.quantile(means, stats.norm.cdf(bias + z / (1 - a * z)))


def same_flips(values, seed):
    moved = values[values != 0]
    words = (len(moved) + 63) // 64
    u = split_mix(seed, N_DRAWS * words).reshape(N_DRAWS, words)
    bits = (u[:, :, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    signs = 1 - 2 * bits.reshape(N_DRAWS, -1)[:, :len(moved)].astype(float)
    sums = np.abs(signs @ moved)
    return (np.sum(sums >= abs(moved.sum()) - 1e-9) + 1) / (N_DRAWS + 1)


def differences(random, i):
    """Half of them small, so that the permutation test is exact; many ties, as F1 scores have."""
    n = int(random.integers(2, 13)) if i % 2 == 0 else int(random.integers(21, 400))
    a, b = (random.integers(0, 13, n) / 12 for _ in range(2))
    if i % 3 == 0:
        b = np.where(random.random(n) < 0.6, a, b)
    return a, b


def check_differences(random):
    cases = []
    while len(cases) < N_TABLES:
        a, b = differences(random, len(cases))
        if len(set((b - a).tolist())) > 1:
            cases.append((a, b))
    requests = [{"what": "values", "values": (b - a).tolist(), "confidence": 0.95, "n_draws": N_DRAWS, "seed": i,
                 "margin": float(random.uniform(0.01, 0.3))} for i, (a, b) in enumerate(cases)]
    for i, ((a, b), request, got) in enumerate(zip(cases, requests, ask(requests))):
        values, m = b - a, request["margin"]
        one_sided = ttost_paired(b, a, -m, m)
        expect(f"tost_t case {i}", got["tost"], [one_sided[1][1], one_sided[2][1]])
        expect(f"bootstrap case {i}", got["bootstrap"], same_bootstrap(values, 0.95, i))
        moved = values[values != 0]
        if len(moved) <= 12:
            flips = np.array(list(itertools.product([1, -1], repeat=len(moved))))
            sums = np.abs(flips @ moved) if len(moved) else np.zeros(1)
            assert got["is_exact"]
            expect(f"exact flips case {i}", got["sign_flip"], np.mean(sums >= abs(moved.sum()) - 1e-9), 1e-12)
        elif not got["is_exact"]:
            expect(f"drawn flips case {i}", got["sign_flip"], same_flips(values, i), 1e-12)
        if i < 40:
            against_scipy(i, values, got)


def against_scipy(i, values, got):
    how = {"random_state": np.random.default_rng(i)} if scipy.__version__ < "1.15" else {"rng": np.random.default_rng(i)}
    n_flips = 2**13 if got["is_exact"] else N_DRAWS  # enough for scipy to try all flips, too
    p = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=n_flips, **how).pvalue
    if got["is_exact"]:
        expect(f"scipy permutation case {i}", got["sign_flip"], p, 1e-12)
    elif abs(got["sign_flip"] - p) > 5 * math.sqrt(p * (1 - p) * 2 / N_DRAWS) + 2 / N_DRAWS:
        failures.append(f"scipy permutation case {i}: {got['sign_flip']} against {p}")
    low, high = stats.bootstrap((values,), np.mean, n_resamples=N_DRAWS, method="BCa", **how).confidence_interval
    if len(values) > 20:
        error = 0.15 * (high - low)  # a 2.5 % quantile of 2,000 draws, twice
        if abs(got["bootstrap"][0] - low) > error or abs(got["bootstrap"][1] - high) > error:
            failures.append(f"scipy bootstrap case {i}: {got['bootstrap']} against {low, high}")


# --- families and power -------------------------------------------------------------------------------------------


def check_holm(random):
    families = [np.round(random.random(int(random.integers(1, 30))) ** 3, int(random.integers(1, 6))) for _ in range(N_TABLES)]
    for i, (p, got) in enumerate(zip(families, ask([{"what": "holm", "p_values": p.tolist()} for p in families]))):
        expect(f"holm family {i}", got, multipletests(p, method="holm")[1])


def mcnemar_power(n, difference, discordant, alpha):
    total = 0.0
    for k in range(1, n + 1):
        weight = stats.binom.pmf(k, n, discordant)
        if weight < 1e-17:
            continue
        ups = np.arange(k + 1)
        p = np.minimum(1, 2 * stats.binom.cdf(np.minimum(ups, k - ups), k, 0.5))
        total += weight * np.sum(stats.binom.pmf(ups, k, (discordant + difference) / (2 * discordant))[p <= alpha])
    return total


def t_power(n, effect, alpha):
    """Of the two-sided paired t test, by integrating over the sample's standard deviation."""
    freedom, shift = n - 1, effect * math.sqrt(n)
    critical = stats.t.isf(alpha / 2, freedom)

    def integrand(s):
        beyond = stats.norm.sf(critical * s - shift) + stats.norm.cdf(-critical * s - shift)
        return stats.chi.pdf(s * math.sqrt(freedom), freedom) * math.sqrt(freedom) * beyond

    width = 12 / math.sqrt(2 * freedom)
    return integrate.quad(integrand, max(0, 1 - width), 1 + width, epsabs=1e-13, epsrel=1e-13, limit=200)[0]


def check_power(random):
    requests = []
    for i in range(20):
        discordant = float(random.uniform(0.05, 0.6))
        requests.append({"what": "power", "n": int(random.integers(20, 400)), "alpha": float(random.choice([0.01, 0.05])),
                         "power": float(random.choice([0.8, 0.9])), "discordant": discordant,
                         "difference": float(discordant * random.uniform(0.3, 0.9)), "sd": float(random.uniform(0.1, 0.5))})
    for i, (r, got) in enumerate(zip(requests, ask(requests))):
        n, alpha, power, discordant, difference = (r[k] for k in ("n", "alpha", "power", "discordant", "difference"))
        z = stats.norm.ppf(1 - alpha / 2) + stats.norm.ppf(power)
        expect(f"seen {i}", got["seen"], z * math.sqrt(discordant / n))
        expect(f"needed {i}", got["needed"], math.ceil(z**2 * discordant / difference**2))
        expect(f"mcnemar power {i}", got["mcnemar"], mcnemar_power(n, difference, discordant, alpha))
        if got["seen_exact"] is None:
            assert mcnemar_power(n, discordant, discordant, alpha) < power
        else:
            expect(f"seen exactly {i}", mcnemar_power(n, got["seen_exact"], discordant, alpha), power, 1e-3)
        needed = got["needed_exact"]
        assert mcnemar_power(needed, difference, discordant, alpha) >= power, r
        effect = difference / r["sd"]
        expect(f"t power {i}", got["t"], t_power(n, effect, alpha))
        expect(f"seen by t {i}", t_power(n, got["seen_t"] / r["sd"], alpha), power, 1e-6)
        expect(f"seen by t {i}, statsmodels", got["seen_t"] / r["sd"],
               TTestPower().solve_power(nobs=n, alpha=alpha, power=power), 1e-4)
        assert t_power(got["needed_t"], effect, alpha) >= power - 1e-9, r
        if got["needed_t"] > 3:
            assert t_power(got["needed_t"] - 1, effect, alpha) < power + 1e-9, r


random = np.random.default_rng(20240611)
check_tables(random)
check_differences(random)
check_holm(random)
check_power(random)
for failure in failures[:20]:
    print("FAIL", failure)
print(f"{2 * N_TABLES} tables, {N_TABLES} families, 20 powers: {len(failures)} differences")
sys.exit(1 if failures else 0)
