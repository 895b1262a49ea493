"""Run in another tool's environment, without medsynth: fit the tool to files in FOLDER and write FOLDER/made.csv.

    python inside.py FOLDER TOOL EPSILON DELTA ROWS

FOLDER contains codes.csv and sizes.json, the number of codes per column, for private-pgm, OpenDP and NAPSU-MQ. For
dpmm and smartnoise-synth it contains train.csv and domain.json, what the schema declares per column: levels, or bounds,
scale, step and whether values may be missing. FOLDER/cost.json gets the seconds and the peak memory. private-pgm is
imported from the checkout that MEDSYNTH_PRIVATE_PGM names. The pairs in FOLDER/pairs.json, if it exists, are AIM's
whole workload. NAPSU-MQ (twinify) writes ROWS tables of as many rows as codes.csv, with a column `replicate`.
"""

import importlib
import itertools
import json
import os
import resource
import sys
import time
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

BINS = 20
MODEL_MEGABYTES = 20
# Mirror descent ends once 5 steps gain less than 0.1 % of the loss; 0.01 % for the model that rows are drawn from.
PATIENCE, GAIN, LAST_GAIN = 5, 1e-3, 1e-4
GROWTH = 1.2  # Of the step. Doubling it, as its authors do, wastes every second evaluation of the model.
# Compiling a model takes minutes with all of XLA's optimisations and seconds without.
UNOPTIMISED = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"
UNUSED = ("matplotlib", "matplotlib.pyplot", "autodp", "autodp.privacy_calibrator", "hdmm", "hdmm.matrix")


def private_pgm(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, drawn: int, told: Any = None) -> Any:
    """Fit AIM or MST of private-pgm, 5 June 2024, to all pairs, or AIM to the pairs `told`."""
    place = Path(os.environ["MEDSYNTH_PRIVATE_PGM"])
    sys.path[:0] = [str(place / "src"), str(place), str(place / "mechanisms")]
    # The mechanisms import these and do not use them here: a plotting library, an accountant, a matrix library.
    unused = {name: types.ModuleType(name) for name in UNUSED}
    sys.modules.update(unused)
    vars(unused["matplotlib"])["pyplot"] = unused["matplotlib.pyplot"]
    vars(unused["autodp"])["privacy_calibrator"] = unused["autodp.privacy_calibrator"]
    vars(unused["hdmm.matrix"])["Identity"] = Identity
    mbi = importlib.import_module("mbi")

    quicker(mbi.factor)
    mbi.FactoredInference.mirror_descent = mirror_descent
    draw = mbi.GraphicalModel.synthetic_data
    mbi.GraphicalModel.synthetic_data = lambda self, rows=None, method="round": draw(self, drawn, method)
    data = mbi.Dataset(codes, mbi.Domain.fromdict(sizes))
    if method == "aim":
        pairs = [(tuple(pair), 1.0) for pair in told or itertools.combinations(data.domain, 2)]
        aim = importlib.import_module("aim").AIM(epsilon, delta, prng=np.random, max_model_size=MODEL_MEGABYTES)
        return aim.run(data, pairs)[1].df
    from scipy.cluster.hierarchy import DisjointSet

    mst = importlib.import_module("mst")
    vars(mst)["DisjointSet"] = lambda: DisjointSet(data.domain.attrs)  # as its authors corrected it in November 2024
    return mst.MST(data, epsilon, delta).df


def quicker(factor: Any) -> None:
    """Leave out private-pgm's checks for infinity: no table here contains it, and they took half of a fit's time."""
    made, plus, times = factor.Factor, factor.Factor.__add__, factor.Factor.__mul__
    factor.logsumexp = logsumexp
    made.__sub__ = lambda self, other: plus(self, -1 * other)
    made.__mul__ = lambda self, other: (
        made(self.domain, other * self.values) if np.isscalar(other) else times(self, other)
    )
    made.__rmul__ = made.__mul__


def logsumexp(values: Any, axis: Any = None) -> Any:
    """Return SciPy's logsumexp, without the checks that took most of a fit's time."""
    top = values.max(axis=axis, keepdims=True)
    found = np.log(np.exp(values - top).sum(axis=axis, keepdims=True)) + top
    return np.squeeze(found, axis=axis)[()]


class Identity:
    """The identity matrix, in place of the matrix library's."""

    def __init__(self, rows: int) -> None:
        self.shape, self.dtype, self.T = (rows, rows), float, self

    def matvec(self, vector: Any) -> Any:
        """Return the vector itself."""
        return vector

    rmatvec = dot = __matmul__ = matvec


def mirror_descent(self: Any, measurements: Any, total: Any = None, **others: Any) -> float:
    """Run private-pgm's mirror descent with its line search, but stop when the loss hardly falls any more.

    The step starts far too small and doubles, so the first twenty steps gain nothing. Steps count only after the line
    search has halved one. The next call continues from the step's size and from the potentials. The model that rows
    are drawn from is AIM's call without a new measurement, and MST's call with more than 1,000 steps.
    """
    last, self.seen = self.iters > 1000 or len(measurements) == getattr(self, "seen", 0), len(measurements)
    self._setup(measurements, total)
    model = self.model
    theta = model.potentials
    mu = model.belief_propagation(theta)
    loss, gradient = self._marginal_loss(mu)
    alpha, losses = getattr(self, "alpha", 1.0 / model.total**2), list[float]()
    for _step in range(self.iters):
        before, nu = theta, mu
        alpha = longer = (GROWTH if losses else 2.0) * alpha
        for _try in range(25):
            theta = before - alpha * gradient
            mu = model.belief_propagation(theta)
            found, slope = self._marginal_loss(mu)
            if loss - found >= 0.5 * alpha * gradient.dot(nu - mu):
                break
            alpha *= 0.5
        if alpha < longer or losses:
            losses.append(loss)
        loss, gradient = found, slope
        if len(losses) > PATIENCE and losses[-PATIENCE] - loss < (LAST_GAIN if last else GAIN) * losses[-PATIENCE]:
            break
    model.potentials, model.marginals, self.alpha = theta, mu, alpha
    return float(loss)


def opendp(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, rows: int) -> Any:
    """Fit OpenDP's own AIM (all pairs, as in the panel) or MST; both measure half their budget in single columns.

    OpenDP adds a code for unknown values to each column. Rows that get it by noise take the code of another row. Rows
    are drawn one by one. mbi's "round" (mstround), OpenDP's default, spreads the rows that share a parent's code over
    its children in the order of the table, for each child alike, so that children depend on one another.
    """
    os.environ["XLA_FLAGS"] = UNOPTIMISED
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    # Rounded up, the shares of 21 selections are more than their sum, and MST stops with "insufficient budget".
    vars(importlib.import_module("opendp.extras.mbi._mst"))["prior"] = lambda share: share * (1 - 1e-12)

    def counted(scale: float) -> Any:
        return dp.m.make_gaussian(dp.atom_domain(T=int), dp.absolute_distance(T=int), scale)

    def within(scale: float) -> bool:
        return bool(dp.c.make_zCDP_to_approxDP(counted(scale)).map(1).epsilon(delta) <= epsilon)

    rho = counted(dp.binary_search(within, bounds=(0.1, 1e3))).map(1)
    how = dp.mbi.AIM(queries=2, max_size=float(MODEL_MEGABYTES)) if method == "aim" else dp.mbi.MST()
    # Its names for temporary columns are common words: "len" is one of them.
    named = {name: f"column {place}" for place, name in enumerate(codes)}
    context = dp.Context.compositor(
        data=pl.LazyFrame({named[name]: codes[name].to_numpy() for name in codes}),
        privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho), split_evenly_over=1,
    )  # fmt: skip
    keys = {named[name]: list(range(size)) for name, size in sizes.items()}
    drawn = context.query().contingency_table(keys=keys, algorithm=how).release()
    drawn = drawn.synthesize(rows=rows, method="round" if method.endswith("round") else "sample")
    made, rng = {}, np.random.default_rng()
    for name, new in named.items():
        values = drawn[new].to_numpy().astype(float)
        gone = np.isnan(values)
        values[gone] = rng.choice(values[~gone], gone.sum())
        made[name] = values.astype(int)
    return pd.DataFrame(made)


def napsu(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, tables: int) -> Any:
    """Fit NAPSU-MQ to all pairs, which are declared, so that it spends nothing on selecting them.

    NUTS explores the posterior from a Laplace approximation: one chain of 1,000 draws after 300.
    """
    os.environ["XLA_FLAGS"] = UNOPTIMISED
    import d3p.random
    from twinify.napsu_mq import napsu_mq

    levels = {name: pd.Index([str(code) for code in range(size)]) for name, size in sizes.items()}
    data = pd.DataFrame({name: pd.Categorical.from_codes(codes[name].to_list(), levels[name]) for name in codes})
    start = napsu_mq.NapsuMQLaplaceApproximationConfig(max_iters=1000, num_samples=1)
    chain = napsu_mq.NapsuMQMCMCConfig(num_samples=1000, num_warmup=300, num_chains=1)
    how = napsu_mq.NapsuMQInferenceConfig("laplace+mcmc", start, chain)
    model = napsu_mq.NapsuMQModel(queries=list(itertools.combinations(codes.columns, 2)), inference_config=how)
    fit, draw = d3p.random.split(d3p.random.PRNGKey(int.from_bytes(os.urandom(8), "big")), 2)
    result = model.fit(data, fit, epsilon, delta, show_progress=False)
    made = result.generate(draw, tables, len(codes), single_dataframe=False)
    return pd.concat([one.astype(int).assign(replicate=k) for k, one in enumerate(made)])


def scaled(table: Any, domain: Any, back: bool = False) -> Any:
    """Return numbers on a log scale if the schema declares one: log(1 + value / lowest step)."""
    made = table.copy()
    for name, column in domain.items():
        if column.get("scale") == "log":
            value, step = made[name].astype(float), column["step"]
            made[name] = np.expm1(value) * step if back else np.log1p(value / step)
    return made


def bounds(column: Any) -> tuple[float, float]:
    """Return the declared bounds on the column's scale."""
    low, high = (np.log1p(e / column["step"]) if column["scale"] == "log" else e for e in column["bounds"])
    return float(low), float(high)


def prepared(table: Any, domain: Any) -> Any:
    """Return the table on the declared scales, numbers clipped to their bounds and levels as text."""
    made = scaled(table, domain)
    for name, column in domain.items():
        made[name] = made[name].astype(str) if "levels" in column else made[name].astype(float).clip(*bounds(column))
    return made


def dpmm(method: str, table: Any, domain: Any, epsilon: float, delta: float, rows: int) -> Any:
    """Fit one of dpmm's pipelines with its own private discretisation of numbers."""
    from dpmm import pipelines

    made = prepared(table, domain)
    declared: dict[str, dict[str, Any]] = {}
    for name, column in domain.items():
        if "levels" in column:
            made[name] = made[name].astype("category")
            declared[name] = {"categories": [str(level) for level in column["levels"]]}
        else:
            declared[name] = dict(zip(("lower", "upper"), bounds(column), strict=True))
    kind = {"mst": pipelines.MSTPipeline, "privbayes": pipelines.PrivBayesPipeline}
    pipeline = kind[method](epsilon=epsilon, delta=delta, n_jobs=1)
    pipeline.fit(made, declared)
    return pipeline.generate(n_records=rows)


def smartnoise(method: str, table: Any, domain: Any, epsilon: float, delta: float, rows: int) -> Any:
    """Fit one of smartnoise-synth's synthesizers to bins between the declared bounds."""
    from snsynth import Synthesizer, transform

    transformers = []
    for column in domain.values():
        if "levels" in column:
            transformers.append(transform.LabelTransformer())
            continue
        low, high = bounds(column)
        transformers.append(transform.BinTransformer(bins=BINS, lower=low, upper=high, nullable=column["missing"]))
    synthesizer = Synthesizer.create(method, epsilon=epsilon, delta=delta)
    coder = transform.TableTransformer(transformers)
    synthesizer.fit(prepared(table, domain), transformer=coder, preprocessor_eps=0.0)
    return synthesizer.sample(rows)


TOOLS: dict[str, Any] = {"pgm": private_pgm, "opendp": opendp, "napsu": napsu, "dpmm": dpmm, "smartnoise": smartnoise}


def main() -> None:
    """Fit the tool, draw rows, and write both the rows and their cost."""
    folder, (package, method) = Path(sys.argv[1]), sys.argv[2].split("-")
    epsilon, delta, rows = float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    by_codes = (folder / "codes.csv").exists()
    table = pd.read_csv(folder / ("codes.csv" if by_codes else "train.csv"))
    known = json.loads((folder / ("sizes.json" if by_codes else "domain.json")).read_text())
    told = [json.loads((folder / "pairs.json").read_text())] if (folder / "pairs.json").exists() else []
    clock, used = time.perf_counter(), time.process_time()
    made = pd.DataFrame(TOOLS[package](method, table, known, epsilon, delta, rows, *told))
    cost = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - used}
    cost["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if package != "napsu":
        made.columns = table.columns
    made = made if by_codes else scaled(made, known, back=True)
    made.to_csv(folder / "made.csv", index=False)
    (folder / "cost.json").write_text(json.dumps(cost))


if __name__ == "__main__":
    main()
