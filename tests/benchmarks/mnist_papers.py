"""The table of the papers: 13 classifiers trained on synthetic MNIST images and tested on the 10,000 real ones.

    python tests/benchmarks/mnist_papers.py --methods mixture independent --epsilons 10 3.7 --seeds 3 --minutes 60
    python tests/benchmarks/mnist_papers.py --methods real --epsilons 10 --seeds 1
    python tests/benchmarks/mnist_papers.py --figure docs/mnist.png

GS-WGAN's table A1 (Chen, Orekondy, Fritz 2020), accuracy. Differences from it, the same for every source of images:
scikit-learn's histogram boosting stands in for xgboost; "gbm" has 20 rounds on a square root of the pixels; boosting,
bagging, trees, the forest, the linear SVC and the CNN learn from the first 10,000 images, the others from 60,000.
`real` trains on real images: the ceiling. Each result joins results/mnist-papers.csv and is not run again.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import mnist_data
import numpy as np
import resumable

FEW = 10_000  # images that slow classifiers learn from
MANY = ("logistic regression", "MLP", "LDA", "Bernoulli NB", "Gaussian NB")  # learn from all 60,000
NAMES = (
    "logistic regression", "MLP", "CNN", "linear SVC", "random forest", "xgboost (HGB)", "gbm", "bagging", "adaboost",
    "decision tree", "LDA", "Bernoulli NB", "Gaussian NB",
)  # fmt: skip
FIELDS = ["table", "method", "epsilon", "seed", *NAMES, "mean", "cpu_seconds", "seconds", "peak_gib", "spent"]
SHOWN = 10  # images a class in the figure


def classifiers() -> dict[str, Any]:
    """The 13, by the names of the table, but the CNN. Seeds are fixed: what varies is the synthetic table."""
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
    """Two convolutions and two linear layers, five epochs of Adam."""
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


def accuracies(pixels: Any, digits: Any) -> dict[str, float]:
    """Accuracy on the real test images of each classifier, trained on these images."""
    test_pixels, test_y = mnist_data.real("t10k")
    x, test_x = (images.astype(np.float32) / 255 for images in (pixels, test_pixels))
    found = {}
    for name, model in classifiers().items():
        many = len(x) if name in MANY else FEW
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # iterations are limited on purpose
            found[name] = float((model.fit(x[:many], digits[:many]).predict(test_x) == test_y).mean())
        print(f"  {name} {found[name]:.3f}", file=sys.stderr, flush=True)
    found["CNN"] = cnn_accuracy(x[:FEW], digits[:FEW], test_x, test_y)
    return {name: round(found[name], 4) for name in NAMES}


def one(table: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
    """One fit, one sample of 60,000, all figures."""
    cost: dict[str, Any] = {}
    if method == "real":
        pixels, digits = mnist_data.real("train")
    else:
        pixels, digits, cost = mnist_data.synthetic(method, epsilon, seed)
    found = accuracies(pixels, digits)
    return {**found, "mean": round(statistics.mean(found.values()), 4), **cost}


def summary(runs: list[dict[str, Any]]) -> str:
    """A markdown table: medians of the runs, a line a method and epsilon."""
    lines = ["| source | epsilon | runs | mean (range) | " + " | ".join(NAMES) + " | CPU s | GiB |"]
    lines.append("|" + " --- |" * (len(NAMES) + 6))
    order = sorted(runs, key=lambda run: (-float(run["epsilon"]), run["method"]))
    for (epsilon, method), group in itertools.groupby(order, lambda run: (float(run["epsilon"]), run["method"])):
        some = list(group)
        means = [float(run["mean"]) for run in some]
        medians = [f"{statistics.median(float(run[name]) for run in some):.2f}" for name in NAMES]
        costs = [
            max((float(run[name]) for run in some if run.get(name)), default=0) for name in ("cpu_seconds", "peak_gib")
        ]
        spread = f"{statistics.median(means):.3f} ({min(means):.3f} to {max(means):.3f})"
        shown = "" if method == "real" else f"{epsilon:g}"
        lines.append(
            f"| {method} | {shown} | {len(some)} | {spread} | {' | '.join(medians)} | {costs[0]:.0f} | {costs[1]:.1f} |"
        )
    return "\n".join(lines)


def figure(methods: list[str], epsilon: float) -> Any:
    """Synthetic images, (high, wide) of 0 to 255: a block of ten digits a method, ten images a digit side by side."""
    blocks = []
    for method in methods:
        pixels, digits, _ = mnist_data.synthetic(method, epsilon, 0)
        rows = [np.hstack(255 - pixels[digits == k][:SHOWN].reshape(-1, 28, 28)) for k in range(10)]
        blocks.append(np.pad(np.vstack(rows), 6, constant_values=255))
    return np.hstack(blocks)


def main() -> None:
    """Run what is missing within the time given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["mixture", "independent", "dp-merf"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[10.0, 3.7])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--output", type=Path, default=Path("results/mnist-papers.csv"))
    parser.add_argument("--figure", type=Path, help="write a picture of synthetic images instead")
    given = parser.parse_args()
    if given.figure:
        given.figure.write_bytes(png(figure(given.methods, given.epsilons[0])))
        return
    wanted = [
        ("mnist", method, epsilon, seed)
        for seed, method, epsilon in itertools.product(range(given.seeds), given.methods, given.epsilons)
    ]
    runs, left = resumable.run(wanted, one, given.output, FIELDS, given.minutes)
    print(summary(runs))
    if left:
        print("\nNot run: " + left)


def png(grey: Any) -> bytes:
    """A picture, (high, wide) of 0 to 255, as a PNG file."""
    import struct
    import zlib

    high, wide = grey.shape
    lines = np.pad(grey.astype(np.uint8), ((0, 0), (1, 0)))  # each line begins with its filter: none
    parts = [
        (b"IHDR", struct.pack(">IIBBBBB", wide, high, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(lines.tobytes(), 9)),
        (b"IEND", b""),
    ]  # fmt: skip
    made = [struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


if __name__ == "__main__":
    main()
