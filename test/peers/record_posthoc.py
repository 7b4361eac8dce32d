"""Records what independent implementations fit to small data: test/fixtures/posthoc/*.json.

    python record_posthoc.py FIXTURES
    python record_posthoc.py --time FOLDER CLASSES

FIXTURES is test/fixtures/posthoc. Needs numpy, scipy, scikit-learn, torch, netcal and betacal. The second form is for
compare-posthoc.cjs: it times these packages on the logits.f64 and labels.i32 of FOLDER and prints JSON.

- platt, beta: scikit-learn's LogisticRegression without a penalty, on log-odds and on log p, -log(1 - p); of beta's
  weights negative ones are left out and the rest fitted again (Kull 2017). betacal and netcal must agree with beta.
- isotonic: scikit-learn's IsotonicRegression. histogram: numpy, and netcal where no score lies on an edge.
- vector, matrix: the likelihood in PyTorch (float64), its derivatives by autograd, scipy's trust-exact; of matrix scaling
  scikit-learn's multinomial LogisticRegression must agree. Gauge as in src/calibrate/posthoc/matrix.ts.
- ets: scipy's brentq for the temperature, SLSQP and then the equations of the optimum for the weights.

Of each method: parameters, mean NLL of all rows, and the probabilities of the first rows.
"""

import argparse
import importlib.metadata
import json
import os
import time
import warnings

import numpy as np
import torch
from betacal import BetaCalibration
from netcal.binning import HistogramBinning
from netcal.binning import IsotonicRegression as NetcalIsotonic
from netcal.scaling import BetaCalibration as NetcalBeta
from netcal.scaling import LogisticCalibration
from scipy.optimize import brentq, fsolve, minimize
from scipy.special import expit, log_softmax, logit, softmax
from sklearn.calibration import _sigmoid_calibration
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

warnings.filterwarnings("ignore")
ROWS = 20  # whose probabilities are recorded
SMALLEST = 2.0**-52  # what smaller probabilities count as where their logarithm is taken


def draw(rng, q):
    return (rng.random(len(q))[:, None] > np.cumsum(q, 1)[:, :-1]).sum(1)


def cases():
    rng = np.random.default_rng(20261201)
    z = np.round(2.5 * rng.normal(size=(300, 2)), 4)
    yield "two", {"logits": z}, draw(rng, softmax(0.5 * z + [0, 0.4], 1))
    z = np.round(3 * rng.normal(size=(400, 4)) + [0, 1, -1, 3], 4)
    true = z * [0.4, 0.6, 0.5, 0.3] + [0.2, 0, 0.3, -0.2] + 0.1 * np.roll(z, 1, 1)
    yield "four", {"logits": z}, draw(rng, softmax(true, 1))
    z = rng.integers(-2, 3, size=(240, 2)) / 2
    yield "ties_two", {"logits": z}, draw(rng, softmax(1.5 * z, 1))
    z = rng.integers(-2, 3, size=(300, 3)).astype(float)
    yield "ties_three", {"logits": z}, draw(rng, softmax(0.6 * z + [0.3, 0, 0], 1))
    p = np.round(softmax(2 * rng.normal(size=(300, 3)), 1), 4)
    p[:, 0] = np.round(1 - p[:, 1] - p[:, 2], 4)
    p[:3] = [[1, 0, 0], [0, 1, 0], [0, 0.25, 0.75]]
    yield "probs_three", {"probs": p}, draw(rng, softmax(0.6 * np.log(p + 0.02), 1))
    p = expit(3 * rng.normal(size=400))
    z = np.round(np.stack([np.zeros(400), logit(p)], 1), 4)
    p = expit(z[:, 1])
    q = expit(-0.5 * np.log(p) - 1.2 * np.log(1 - p) - 1)
    yield "bent_two", {"logits": z}, (rng.random(400) < q).astype(int)


def nll(p, y):
    return float(-np.log(p[np.arange(len(y)), y]).mean())


def logistic(x, y):
    """Weights and intercept of least NLL, to convergence."""
    if x.shape[1] == 0:
        return np.array([logit(y.mean())])
    fitted = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-13, max_iter=1000).fit(x, y)
    return np.concatenate([fitted.coef_[0], fitted.intercept_])


def log_pair(z):
    """log p and log(1 - p) of each class."""
    lp = log_softmax(z, 1)
    others = [np.logaddexp.reduce(np.delete(lp, k, 1), 1) for k in range(z.shape[1])]
    return lp, np.stack(others, 1)


def one_vs_rest(score, y, fit, k):
    """Fits a map a class (of two classes, of the second) to score (n, k, features); gives maps and probabilities."""
    classes = [1] if k == 2 else range(k)
    maps, q = zip(*(fit(score[:, j], (y == j).astype(int)) for j in classes))
    if k == 2:
        return maps, np.stack([1 - q[0], q[0]], 1)
    q = np.stack(q, 1)
    total = q.sum(1, keepdims=True)
    return maps, np.where(total > 0, q / np.where(total > 0, total, 1), 1 / k)


def fit_platt(x, y):
    w = logistic(x[:, None] if x.ndim == 1 else x, y)
    return {"slope": w[0], "intercept": w[1]}, expit(w[0] * x + w[1])


def fit_platt_smoothed(x, y):
    n = np.array([(y == 0).sum(), (y == 1).sum()])
    t = np.where(y == 1, (n[1] + 1) / (n[1] + 2), 1 / (n[0] + 2))
    f = lambda w: np.mean(np.logaddexp(0, w[0] * x + w[1]) - t * (w[0] * x + w[1]))
    g = lambda w: np.array([np.mean((expit(w[0] * x + w[1]) - t) * x), np.mean(expit(w[0] * x + w[1]) - t)])
    w = fsolve(g, minimize(f, [1, 0], jac=g, method="BFGS", options={"gtol": 1e-9}).x, xtol=1e-14)
    theirs = -np.array(_sigmoid_calibration(x, y))
    assert np.abs(expit(theirs[0] * x + theirs[1]) - expit(w[0] * x + w[1])).max() < 1e-3, "scikit-learn differs"
    return {"slope": w[0], "intercept": w[1]}, expit(w[0] * x + w[1])


def fit_beta(x, y):
    """x holds log p and log(1 - p)."""
    features = np.stack([x[:, 0], -x[:, 1]], 1)
    kept = [0, 1]
    while True:
        w = logistic(features[:, kept], y)
        if all(w[:-1] >= 0):
            break
        kept = [c for c, value in zip(kept, w) if value >= 0]
    full = np.zeros(2)
    full[kept] = w[:-1]
    q = expit(features @ full + w[-1])
    p = np.exp(x[:, 0])
    reference = BetaCalibration("abm").fit(p[:, None], y)
    assert np.abs(reference.predict(p[:, None]) - q).max() < 1e-3, "betacal differs"
    return {"a": full[0], "b": full[1], "c": w[-1]}, q


def fit_isotonic(p, y):
    fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y)
    return {"scores": fitted.X_thresholds_, "values": fitted.y_thresholds_}, fitted.predict(p)


def fit_histogram(edges_of):
    def fit(p, y):
        edges = edges_of(p)
        bins = np.digitize(p, edges)
        bounds = np.concatenate([[0], edges, [1]])
        values = [y[bins == k].mean() if (bins == k).any() else bounds[k : k + 2].mean() for k in range(len(edges) + 1)]
        return {"edges": edges, "values": values}, np.array(values)[bins]

    return fit


def mass_edges(p):
    runs = np.array_split(np.sort(p), 8)
    return np.array([(a[-1] + b[0]) / 2 for a, b in zip(runs, runs[1:]) if b[0] > a[-1] * (1 + 1e-15)])


def softmax_fit(z, y, build, start, penalty=lambda w: 0.0):
    """Minimises the NLL of softmax(build(parameters, z)) plus a penalty."""
    zt, yt = torch.tensor(z, dtype=torch.float64), torch.tensor(y)
    loss = lambda w: torch.nn.functional.cross_entropy(build(w, zt), yt) + penalty(w)
    tensor = lambda w: torch.tensor(w, dtype=torch.float64)
    f = lambda w: float(loss(tensor(w)))
    g = lambda w: torch.func.grad(loss)(tensor(w)).numpy()
    h = lambda w: torch.func.hessian(loss)(tensor(w)).numpy()
    w = minimize(f, start, jac=g, hess=h, method="trust-exact", options={"gtol": 1e-9, "maxiter": 1000}).x
    for _ in range(3):
        w = w - np.linalg.lstsq(h(w), g(w), rcond=1e-10)[0]
    assert np.abs(g(w)).max() < 1e-13, np.abs(g(w)).max()
    # Of several solutions the one nearest to the start, as far as the Hessian does not tell them apart.
    w = start + np.linalg.pinv(h(w), rcond=1e-10) @ h(w) @ (w - start)
    return w, softmax(build(tensor(w), zt).numpy(), 1)


def fit_vector(z, y):
    k = z.shape[1]
    w, p = softmax_fit(z, y, lambda w, x: x * w[:k] + w[k:], np.repeat([1.0, 0.0], k))
    return {"weights": w[:k], "biases": w[k:] - w[k:].mean()}, p


def fit_matrix(z, y, lam, mu):
    k = z.shape[1]
    off = torch.tensor(1 - np.eye(k))
    split = lambda w: (w[: k * k].reshape(k, k), w[k * k :])

    def penalty(w):
        m, b = split(w)
        return lam / (k * (k - 1)) * (off * m**2).sum() + mu / k * (b**2).sum()

    build = lambda w, x: x @ split(w)[0].T + split(w)[1]
    w, p = softmax_fit(z, y, build, np.concatenate([np.eye(k).ravel(), np.zeros(k)]), penalty)
    m, b = split(w)
    if lam == 0 and mu == 0:
        # Of K - 1 logits, for of all of them collinear ones a solver without ridge may stop early.
        fitted = LogisticRegression(C=np.inf, solver="newton-cg", tol=1e-10, max_iter=10000).fit(z, y)
        assert np.abs(fitted.predict_proba(z) - p).max() < 1e-5, "scikit-learn differs"
    m = m - (m * (1 - np.eye(k))).sum(0) / (k - 1)
    return {"weights": m, "biases": b - b.mean()}, p


def fit_ets(z, y):
    """z are logits, or log p with -inf for 0."""
    n, k = z.shape
    label = lambda a: a[np.arange(n), y]
    finite = np.where(np.isfinite(z), z, 0)

    def slope(beta):
        return float((softmax(beta * z, 1) * finite).sum(1).mean() - label(z).mean())

    t = float(np.clip(1 / brentq(slope, 1e-3, 1e3, xtol=1e-16, rtol=1e-14), 0.1, 10))
    parts = [softmax(z / t, 1), softmax(z, 1), np.full((n, k), 1 / k)]
    a = np.stack([label(p) for p in parts], 1)
    f = lambda w: -np.log(a @ w).mean()
    g = lambda w: -(a / (a @ w)[:, None]).mean(0)
    found = [
        minimize(f, s, jac=g, method="SLSQP", bounds=[(0, 1)] * 3, options={"ftol": 1e-15, "maxiter": 1000},
                 constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": lambda w: np.ones(3)})
        for s in ([1, 0, 0], [0.4, 0.3, 0.3], [0.1, 0.8, 0.1])
    ]
    w = min(found, key=lambda r: r.fun).x
    # At the optimum the gradient is -1 where w > 0, and no less elsewhere.
    active = w > 1e-5
    embed = lambda v: np.where(active, np.bincount(np.flatnonzero(active), v, 3), 0)
    w = embed(fsolve(lambda v: g(embed(v))[active] + 1, w[active], xtol=1e-14))
    assert abs(w.sum() - 1) < 1e-9 and (g(w) > -1 - 1e-9).all() and (w >= 0).all(), (w, g(w))
    return {"temperature": t, "weights": w}, sum(x * p for x, p in zip(w, parts))


def top_label(score, top, p, y, fit):
    """One map, of the score of the largest probability; the rest is shared as before."""
    n = len(y)
    map_, q = fit(score[np.arange(n), top], (top == y).astype(int))
    out = p / (p.sum(1) - p[np.arange(n), top])[:, None] * (1 - q)[:, None]
    out[np.arange(n), top] = q
    return [map_], out


def record(name, given, y):
    is_probs = "probs" in given
    p = given["probs"] if is_probs else softmax(given["logits"], 1)
    z = np.log(np.maximum(p, SMALLEST)) if is_probs else given["logits"]
    n, k = p.shape
    lp, rest = log_pair(z)
    odds, pair = lp - rest, np.stack([lp, rest], 2)
    top = p.argmax(1)
    width = lambda p: np.arange(1, 10) / 10
    fits = {}
    fits["vector"] = fit_vector(z, y)
    fits["matrix"] = fit_matrix(z, y, 0, 0)
    fits["matrix_odir"] = fit_matrix(z, y, 0.1, 0.05)
    fits["platt"] = one_vs_rest(odds, y, fit_platt, k)
    fits["platt_smoothed"] = one_vs_rest(odds, y, fit_platt_smoothed, k)
    fits["beta"] = one_vs_rest(pair, y, fit_beta, k)
    fits["isotonic"] = one_vs_rest(p, y, fit_isotonic, k)
    fits["histogram"] = one_vs_rest(p, y, fit_histogram(width), k)
    fits["histogram_mass"] = one_vs_rest(p, y, fit_histogram(mass_edges), k)
    if not is_probs:
        fits["platt_top"] = top_label(odds, top, p, y, fit_platt)
        fits["isotonic_top"] = top_label(p, top, p, y, fit_isotonic)
        fits["ets"] = fit_ets(z, y)
    if not np.isin(p, np.arange(11) / 10).any():
        theirs = HistogramBinning(10).fit(p, y).transform(p)
        ours = fits["histogram"][1]
        theirs = np.stack([1 - theirs, theirs], 1) if theirs.ndim == 1 else theirs
        assert np.abs(theirs - ours).max() < 1e-12, "netcal's histogram differs"
    if k == 2:
        theirs = NetcalBeta().fit(p[:, 1], y, tensorboard=False).transform(p[:, 1]) if name != "bent_two" else None
        if theirs is not None:
            assert np.abs(theirs - fits["beta"][1][:, 1]).max() < 2e-3, "netcal's beta differs"
    expected = {
        method: {**({"maps": fitted} if isinstance(fitted, (list, tuple)) else fitted), "nll": nll(q, y), "probs": q[:ROWS]}
        for method, (fitted, q) in fits.items()
    }
    made_with = {x: importlib.metadata.version(x) for x in ("numpy", "scipy", "scikit-learn", "torch", "netcal", "betacal")}
    return {"id": name, "made_with": made_with, **given, "labels": y, "nll": nll(p, y), "expected": expected}


def ets_as_published(z, y):
    """As the authors' code does it, with the NLL: a temperature, then weights by SLSQP."""
    rows = np.arange(len(y))
    t = minimize(lambda t: -log_softmax(z / t, 1)[rows, y].mean(), 1.0, method="L-BFGS-B", bounds=[(0.05, 5)], tol=1e-12).x
    parts = [softmax(z / t, 1), softmax(z, 1), np.full(z.shape, 1 / z.shape[1])]
    loss = lambda w: -np.log(sum(w[c] * parts[c] for c in range(3)))[rows, y].mean()
    total = {"type": "eq", "fun": lambda w: w.sum() - 1}
    w = minimize(loss, (1.0, 0.0, 0.0), method="SLSQP", constraints=total, bounds=[(0, 1)] * 3, tol=1e-12).x
    return sum(w[c] * parts[c] for c in range(3))


def peers(k):
    """What fits, to logits, probabilities and labels, and gives the probabilities of the same rows."""

    def each(fit, score, predict):
        def run(z, p, y):
            x = [score(p[:, j]) for j in range(k)]
            fitted = [fit(x[j], (y == j).astype(int)) for j in range(k)]
            return lambda: np.stack([predict(fitted[j], x[j]) for j in range(k)], 1)

        return run

    def netcal(make, **more):
        return lambda z, p, y: (lambda fitted: lambda: fitted.transform(p))(make().fit(p, y, **more))

    def matrix(z, p, y):
        fitted = LogisticRegression(C=np.inf).fit(z, y)
        return lambda: fitted.predict_proba(z)

    def ets(z, p, y):
        fitted = ets_as_published(z, y)
        return lambda: fitted

    column = lambda p: p[:, None]
    plain_logistic = lambda x, y: LogisticRegression(C=np.inf).fit(x, y)
    return {
        "vector": {"netcal": netcal(LogisticCalibration, tensorboard=False)},
        "matrix": {"scikit-learn": matrix},
        "platt": {"scikit-learn": each(plain_logistic, lambda p: logit(p)[:, None], lambda f, x: f.predict_proba(x)[:, 1])},
        "isotonic": {
            "scikit-learn": each(lambda x, y: IsotonicRegression(out_of_bounds="clip").fit(x, y), lambda p: p, lambda f, x: f.predict(x)),
            "netcal": netcal(NetcalIsotonic),
        },
        "histogram": {"netcal": netcal(HistogramBinning)},
        "beta": {"betacal": each(lambda x, y: BetaCalibration("abm").fit(x, y), column, lambda f, x: f.predict(x))},
        "ets": {"scipy": ets},
    }


def timed(folder, k):
    z = np.fromfile(os.path.join(folder, "logits.f64")).reshape(-1, k)
    y = np.fromfile(os.path.join(folder, "labels.i32"), dtype=np.int32).astype(int)
    p = softmax(z, 1)
    found = {}
    for method, packages in peers(k).items():
        for package, fit in packages.items():
            fit(z[:20000], p[:20000], y[:20000])  # imports and caches
            started = time.perf_counter()
            predict = fit(z, p, y)
            seconds = time.perf_counter() - started
            q = predict()
            q = q / q.sum(1, keepdims=True)
            found.setdefault(method, {})[package] = {"seconds": seconds, "nll": nll(q, y)}
    return found


def plain(x):
    if isinstance(x, dict):
        return {key: plain(value) for key, value in x.items()}
    if isinstance(x, (list, tuple, np.ndarray)):
        return [plain(value) for value in x]
    if isinstance(x, torch.Tensor):
        return x.tolist()
    if isinstance(x, np.generic):
        x = x.item()
    return str(x).replace("inf", "Infinity") if isinstance(x, float) and not np.isfinite(x) else x


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fixtures", nargs="?")
    parser.add_argument("--time", nargs=2, metavar=("FOLDER", "CLASSES"))
    arguments = parser.parse_args()
    if arguments.time:
        print(json.dumps(plain(timed(arguments.time[0], int(arguments.time[1])))))
    for name, given, y in cases() if arguments.fixtures else []:
        with open(os.path.join(arguments.fixtures, f"{name}.json"), "w", encoding="utf-8") as f:
            json.dump(plain(record(name, given, y)), f)
            f.write("\n")
        print(name)
