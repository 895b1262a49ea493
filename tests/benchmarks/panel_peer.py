"""Run in a tool's own environment, without medsynth: fit it to FOLDER/codes.csv and write FOLDER/made.csv.

    python panel_peer.py FOLDER TOOL EPSILON DELTA [TIMES]

FOLDER/sizes.json gives how many codes each column has: levels, 20 bins a number, the missing value. As many rows are
drawn as were given, or TIMES as many. FOLDER/cost.json gets the seconds and the peak memory. A tool of private-pgm
finds its checkout in the environment variable MEDSYNTH_PRIVATE_PGM; the pairs in FOLDER/pairs.json, where it is, are
AIM's whole workload.
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

MODEL_MEGABYTES = 20
# Mirror descent ends once 5 steps gain less than 0.1 % of the loss; for the model of the rows, less than 0.01 %.
PATIENCE, GAIN, LAST_GAIN = 5, 1e-3, 1e-4
GROWTH = 1.2  # of the step, each time; twice, as its authors have it, makes every second look at the model a vain one
UNUSED = ("matplotlib", "matplotlib.pyplot", "autodp", "autodp.privacy_calibrator", "hdmm", "hdmm.matrix")


def private_pgm(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, drawn: int, told: Any = None) -> Any:
    """AIM and MST of private-pgm, 5 June 2024, on all pairs, or AIM on those that it is told."""
    place = Path(os.environ["MEDSYNTH_PRIVATE_PGM"])
    sys.path[:0] = [str(place / "src"), str(place), str(place / "mechanisms")]
    # Imported by the mechanisms and of no use here: a plotting library, another accountant, a matrix library.
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
    """Leave private-pgm's checks for infinity out, which no table here holds: half of a fit's time."""
    made, plus, times = factor.Factor, factor.Factor.__add__, factor.Factor.__mul__
    factor.logsumexp = logsumexp
    made.__sub__ = lambda self, other: plus(self, -1 * other)
    made.__mul__ = lambda self, other: (
        made(self.domain, other * self.values) if np.isscalar(other) else times(self, other)
    )
    made.__rmul__ = made.__mul__


def logsumexp(values: Any, axis: Any = None) -> Any:
    """SciPy's, without its checks, in which a fit spent most of its time."""
    top = values.max(axis=axis, keepdims=True)
    found = np.log(np.exp(values - top).sum(axis=axis, keepdims=True)) + top
    return np.squeeze(found, axis=axis)[()]


class Identity:
    """The identity matrix of so many rows, in place of the matrix library's."""

    def __init__(self, rows: int) -> None:
        self.shape, self.dtype, self.T = (rows, rows), float, self

    def matvec(self, vector: Any) -> Any:
        """The vector itself."""
        return vector

    rmatvec = dot = __matmul__ = matvec


def mirror_descent(self: Any, measurements: Any, total: Any = None, **others: Any) -> float:
    """private-pgm's own, with its line search, but it ends where the loss hardly falls any more.

    The step starts far too small and doubles, so that the first twenty steps gain nothing: none counts before the line
    search first had to halve it. The next call goes on from the step's size, as it does from the potentials. The model
    of the rows is AIM's call without a new measurement, and MST's call with more than 1,000 steps.
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


def dpmm(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, rows: int) -> Any:
    """dpmm's pipelines on codes that are all declared."""
    from dpmm import pipelines

    declared = {name: {"categories": [str(k) for k in range(size)]} for name, size in sizes.items()}
    made = codes.astype(str).astype("category")
    kind = {"mst": pipelines.MSTPipeline, "privbayes": pipelines.PrivBayesPipeline, "aim": pipelines.AIMPipeline}
    pipeline = kind[method](epsilon=epsilon, delta=delta, n_jobs=1)
    pipeline.fit(made, declared)
    return pipeline.generate(n_records=rows).astype(str).astype(float)


def smartnoise(method: str, codes: Any, sizes: Any, epsilon: float, delta: float, rows: int) -> Any:
    """smartnoise-synth's networks on one-hot codes."""
    from snsynth import Synthesizer
    from snsynth.transform import ChainTransformer, LabelTransformer, OneHotEncoder, TableTransformer

    # A row of every code in turn, so that the encoders know the declared codes, taken away again before the fit.
    largest = max(sizes.values())
    known = pd.DataFrame({name: np.arange(largest) % size for name, size in sizes.items()})
    coder = TableTransformer([ChainTransformer([LabelTransformer(), OneHotEncoder()]) for _ in sizes])
    coder.fit(pd.concat([known] * 2))
    synthesizer = Synthesizer.create(method, epsilon=epsilon)
    synthesizer.fit(codes, transformer=coder, preprocessor_eps=0.0)
    return synthesizer.sample(rows)


def main() -> None:
    """FOLDER TOOL EPSILON DELTA [TIMES]."""
    folder, tool, epsilon, delta = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
    codes = pd.read_csv(folder / "codes.csv")
    sizes = json.loads((folder / "sizes.json").read_text())
    package, method = tool.split("-")
    by: dict[str, Any] = {"pgm": private_pgm, "dpmm": dpmm, "smartnoise": smartnoise}
    told = [json.loads((folder / "pairs.json").read_text())] if (folder / "pairs.json").exists() else []
    times = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    clock, used = time.perf_counter(), time.process_time()
    made = pd.DataFrame(by[package](method, codes, sizes, epsilon, delta, len(codes) * times, *told))
    cost = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - used}
    cost["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    made.columns = codes.columns
    made.to_csv(folder / "made.csv", index=False)
    (folder / "cost.json").write_text(json.dumps(cost))


if __name__ == "__main__":
    main()
