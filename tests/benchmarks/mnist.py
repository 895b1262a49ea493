"""The table of the papers: 13 classifiers learn from synthetic MNIST images and predict the 10,000 real test images.

This is table A1 of GS-WGAN (Chen, Orekondy, Fritz 2020), accuracy. It differs from the paper for every source of
images alike: scikit-learn's histogram boosting replaces xgboost; "gbm" has 20 rounds on a square root of the pixels;
boosting, bagging, trees, the forest, the linear SVC and the CNN learn from the first 10,000 images, the others from
60,000. "CNN of all images" learns from 60,000, as DPImageBench's classifiers do, outside the mean. The method
`real` learns from real images: the ceiling. Each fit is a process of its own, at delta 1e-5; synthetic tables are kept
in --folder. Results join --output and are not run again. Settings may follow a method's name as +NAME=VALUE, and
+no_dp=1 fits without privacy.
"""

from __future__ import annotations

import itertools
import json
import resource
import statistics
import struct
import subprocess
import sys
import time
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.common import DELTA, RESULTS, ROOT, Run, again, markdown, options, report, spread, values
from tests.benchmarks.tables import PIXELS, mnist

ROWS, FEW = 60_000, 10_000  # Images that fast and slow classifiers learn from.
MANY = ("logistic regression", "MLP", "LDA", "Bernoulli NB", "Gaussian NB")  # Learn from all 60,000.
NAMES = (
    "logistic regression", "MLP", "CNN", "linear SVC", "random forest", "xgboost (HGB)", "gbm", "bagging", "adaboost",
    "decision tree", "LDA", "Bernoulli NB", "Gaussian NB",
)  # fmt: skip
OF_ALL = "CNN of all images"
FIELDS = ["table", "method", "epsilon", "seed", *NAMES, "mean", OF_ALL, "cpu_seconds", "seconds", "peak_gib", "spent"]
SHOWN = 10  # Images per class in the figure.


def schema() -> Any:
    """Return what is public about an image: 784 whole numbers from 0 to 255 and a digit, but no pixel's place."""
    from medsynth.schema import Schema

    columns: dict[str, Any] = {name: {"kind": "count", "bounds": [0, 255]} for name in PIXELS}
    columns["digit"] = {"kind": "categorical", "levels": [str(k) for k in range(10)]}
    return Schema.from_dict({"name": "mnist", "target": "digit", "columns": columns})


def fit(name: str, epsilon: float, seed: int, given: Any) -> None:
    """Fit a method in this process, draw as many images, and keep them with the cost."""
    import medsynth

    method, *changes = name.split("+")
    settings = dict(change.split("=") for change in changes)
    no_dp = settings.pop("no_dp", None) is not None
    rows = given.rows
    pixels, digits = (part[:rows] for part in mnist(given.data, "train"))
    frame = pd.DataFrame(pixels, columns=PIXELS).assign(digit=digits.astype(str))
    clock, used = time.perf_counter(), time.process_time()
    model = medsynth.fit(
        frame, epsilon=None if no_dp else epsilon, delta=DELTA, no_dp=no_dp, schema=schema(), rows=rows,
        method=method, settings=settings,
    )  # fmt: skip
    cost: Run = {"cpu_seconds": round(time.process_time() - used), "seconds": round(time.perf_counter() - clock)}
    cost |= {"peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
    cost |= {"spent": "no limit" if model.epsilon is None else round(model.epsilon, 4)}
    made = medsynth.sample(model, rows)
    drawn, labels = made[PIXELS].to_numpy(np.uint8), made["digit"].to_numpy(np.uint8)
    given.folder.mkdir(parents=True, exist_ok=True)
    path = kept(name, epsilon, seed, given)
    part = path.with_suffix(".part.npz")
    np.savez_compressed(part, pixels=drawn, digits=labels, cost=json.dumps(cost))
    part.replace(path)


def kept(method: str, epsilon: float, seed: int, given: Any) -> Path:
    """Return the file of a synthetic table."""
    name = f"{method}-{epsilon:g}-{seed}" + ("" if given.rows == ROWS else f"-{given.rows}")
    return Path(given.folder / f"{name}.npz")


def synthetic(method: str, epsilon: float, seed: int, given: Any) -> tuple[Any, Any, Run]:
    """Return synthetic images, digits and their cost. Fit them in a process of their own if they are not kept."""
    path = kept(method, epsilon, seed, given)
    if not path.exists():
        words = again(
            "mnist", "--fit", method, str(epsilon), str(seed), "--rows", str(given.rows), "--folder", str(given.folder)
        )
        words += ["--data", given.data] if given.data else []
        subprocess.run(words, cwd=ROOT, check=True, stdout=sys.stderr)
    with np.load(path) as found:
        return found["pixels"], found["digits"], json.loads(str(found["cost"]))


def classifiers() -> dict[str, Any]:
    """Return the classifiers by the names of the table, without the CNN. Seeds are fixed: only the table varies."""
    from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neural_network, svm, tree

    return {
        "logistic regression": linear_model.LogisticRegression(max_iter=100),
        "MLP": neural_network.MLPClassifier((100,), early_stopping=True, max_iter=30, random_state=0),
        "linear SVC": svm.LinearSVC(max_iter=300, random_state=0),
        "random forest": ensemble.RandomForestClassifier(100, random_state=0),
        "xgboost (HGB)": ensemble.HistGradientBoostingClassifier(max_iter=40, max_features=0.1, random_state=0),
        "gbm": ensemble.GradientBoostingClassifier(n_estimators=20, max_features="sqrt", random_state=0),
        "bagging": ensemble.BaggingClassifier(random_state=0),
        "adaboost": ensemble.AdaBoostClassifier(random_state=0),
        "decision tree": tree.DecisionTreeClassifier(random_state=0),
        "LDA": discriminant_analysis.LinearDiscriminantAnalysis(),
        "Bernoulli NB": naive_bayes.BernoulliNB(binarize=0.5),
        "Gaussian NB": naive_bayes.GaussianNB(var_smoothing=1e-2),
    }


def cnn_accuracy(x: Any, y: Any, test_x: Any, test_y: Any) -> float:
    """Return the accuracy of two convolutions and two linear layers after five epochs of Adam."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip
    adam = torch.optim.Adam(net.parameters(), 1e-3)
    images, labels = torch.from_numpy(x), torch.from_numpy(y.astype(np.int64))
    for _ in range(5):
        order = torch.randperm(len(x))
        for some in (order[k : k + 64] for k in range(0, len(x), 64)):
            adam.zero_grad()
            nn.functional.cross_entropy(net(images[some]), labels[some]).backward()  # type: ignore[no-untyped-call]
            adam.step()
    net.eval()
    with torch.no_grad():
        guessed = torch.cat(
            [net(torch.from_numpy(test_x[k : k + 1000])).argmax(1) for k in range(0, len(test_x), 1000)]
        )
    return float((guessed.numpy() == test_y).mean())


def accuracies(pixels: Any, digits: Any, data: str | None) -> dict[str, float]:
    """Return each classifier's accuracy on the real test images after it learned from these images."""
    test_pixels, test_y = mnist(data, "t10k")
    x, test_x = (images.astype(np.float32) / 255 for images in (pixels, test_pixels))
    found = {}
    for name, model in classifiers().items():
        many = len(x) if name in MANY else FEW
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Iterations are limited on purpose.
            found[name] = float((model.fit(x[:many], digits[:many]).predict(test_x) == test_y).mean())
        print(f"  {name} {found[name]:.3f}", file=sys.stderr, flush=True)
    found["CNN"] = cnn_accuracy(x[:FEW], digits[:FEW], test_x, test_y)
    found[OF_ALL] = cnn_accuracy(x, digits, test_x, test_y)
    return {name: round(found[name], 4) for name in (*NAMES, OF_ALL)}


def one(method: str, epsilon: float, seed: int, given: Any) -> Run:
    """Return all figures of one fit and one sample."""
    cost: Run = {}
    if method == "real":
        pixels, digits = (part[: given.rows] for part in mnist(given.data, "train"))
    else:
        pixels, digits, cost = synthetic(method, epsilon, seed, given)
    found = accuracies(pixels, digits, given.data)
    return {**found, "mean": round(statistics.mean(found[name] for name in NAMES), 4), **cost}


def summary(runs: list[Run]) -> str:
    """Return a Markdown table of medians, with a line per method and epsilon."""
    lines = []
    order = sorted(runs, key=lambda run: (-float(run["epsilon"]), run["method"]))
    for (epsilon, method), group in itertools.groupby(order, lambda run: (float(run["epsilon"]), run["method"])):
        some = list(group)
        medians = [spread(values(some, name), 2, False) for name in NAMES]
        cpu, gib = (max(values(some, name), default=0) for name in ("cpu_seconds", "peak_gib"))
        shown = "" if method == "real" else f"{epsilon:g}"
        medians.append(spread(values(some, OF_ALL), 2, False))
        lines.append([method, shown, len(some), spread(values(some, "mean")), *medians, f"{cpu:.0f}", f"{gib:.1f}"])
    return markdown(["source", "epsilon", "runs", "mean (range)", *NAMES, OF_ALL, "CPU s", "GiB"], lines)


def figure(methods: list[str], epsilon: float, given: Any) -> Any:
    """Return (high, wide) of 0 to 255: a block of ten digits per method, ten images of a digit side by side."""
    blocks = []
    for method in methods:
        pixels, digits, _ = synthetic(method, epsilon, 0, given)
        rows = [np.hstack(255 - pixels[digits == k][:SHOWN].reshape(-1, 28, 28)) for k in range(10)]
        blocks.append(np.pad(np.vstack(rows), 6, constant_values=255))
    return np.hstack(blocks)


def png(grey: Any) -> bytes:
    """Return a picture, (high, wide) of 0 to 255, as a PNG file."""
    high, wide = grey.shape
    lines = np.pad(grey.astype(np.uint8), ((0, 0), (1, 0)))  # Each line starts with its filter: none.
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]  # fmt: skip
    made = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def main(words: list[str]) -> None:
    """Run what is missing in the time given, and print the table; or write the figure."""
    parser = options("mnist", __doc__, data=True, output="mnist-papers.csv", minutes=60)
    parser.add_argument("--methods", nargs="+", default=["mixture", "independent", "dp-merf"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10.0, 3.7])
    parser.add_argument("--seeds", type=int, default=3, help="runs")
    parser.add_argument("--rows", type=int, default=ROWS, help="images to fit and to draw")
    parser.add_argument("--folder", type=Path, default=RESULTS / "mnist", help="of synthetic tables")
    parser.add_argument("--figure", type=Path, help="write a picture of synthetic images instead")
    parser.add_argument("--fit", nargs=3, help="used for its own processes")
    given = parser.parse_args(words)
    if given.fit:
        fit(given.fit[0], float(given.fit[1]), int(given.fit[2]), given)
        return
    if given.figure:
        given.figure.write_bytes(png(figure(given.methods, given.epsilons[0], given)))
        return
    order = itertools.product(range(given.seeds), given.methods, given.epsilons)
    wanted = [("mnist", method, epsilon, seed) for seed, method, epsilon in order]
    report(wanted, lambda t, m, e, s: one(m, e, s, given), given, FIELDS, summary)
