"""Run in a tool's environment, without medsynth: score the rows in FOLDER and write FOLDER/scores.json.

    python inside_scores.py FOLDER TOOL TARGET

FOLDER contains train.csv (rows that were fitted), test.csv (real rows that were not) and made.csv (the rows to score).
Synth-MIA is imported from the checkout that MEDSYNTH_SYNTH_MIA names.
"""

import importlib
import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ATTACKS = 500
ATTACKED = 500  # Members and as many others, of Synth-MIA.
MIA = ("DCR", "DCRDiff", "DPI", "MC", "LocalNeighborhood", "Classifier", "LOGAN", "DOMIAS", "DensityEstimate")


def anonymeter(train: Any, test: Any, made: Any, target: str) -> dict[str, float]:
    """Return the risks of the three attacks: how much oftener they hit fitted rows than rows that were not fitted."""
    from anonymeter import evaluators

    columns = [str(name) for name in train if name != target]
    half = len(columns) // 2
    common = {"ori": train, "syn": made, "control": test, "n_attacks": ATTACKS}
    sides = (columns[:half], columns[half:])
    attacks: dict[str, Any] = {
        "singling out, one column": lambda: evaluators.SinglingOutEvaluator(**common).evaluate(mode="univariate"),
        "singling out, four columns": lambda: evaluators.SinglingOutEvaluator(**common, n_cols=4).evaluate(),
        "linkability": lambda: evaluators.LinkabilityEvaluator(aux_cols=sides, n_neighbors=10, **common).evaluate(1),
        "inference of the target": lambda: evaluators.InferenceEvaluator(
            aux_cols=columns, secret=target, regression=False, **common
        ).evaluate(1),
    }
    found: dict[str, float] = {}
    for name, attack in attacks.items():
        try:
            risk = attack().risk()
            found |= {name: risk.value, f"{name}, upper end": risk.ci[1]}
        except Exception as problem:  # Too few queries succeed for an attack to be scored.
            print(name, problem, file=sys.stderr)
    return found


def syntheval(train: Any, test: Any, made: Any, target: str) -> dict[str, float]:
    """Return SynthEval's scores of privacy, with those that compare with rows that were not fitted."""
    from syntheval import SynthEval

    words = [name for name in train if train[name].dtype.kind not in "fi"]
    scorer = SynthEval(
        train, test, cat_cols=words, verbose=False, enable_plots=False, console="off", show_warnings=False
    )
    scorer.evaluate(made, target, mia={"num_eval_iter": 5}, eps_risk={}, nnaa={"n_resample": 5}, dcr={}, hit_rate={})
    raw = scorer._raw_results
    return {
        "MIA recall": raw["mia"]["MIA recall"], "MIA precision": raw["mia"]["MIA precision"],
        "identifiable share": raw["eps_risk"]["eps_risk"], "identifiability, loss": raw["eps_risk"]["priv_loss"],
        "adversarial accuracy, loss": raw["nnaa"]["priv_loss"], "median distance ratio": raw["dcr"]["mDCR"],
        "hitting rate": raw["hit_rate"]["hit rate"],
    }  # fmt: skip


def sdmetrics(train: Any, test: Any, made: Any, target: str) -> dict[str, float]:
    """Return sdmetrics' scores of privacy and its quality score."""
    from sdmetrics.reports.single_table import QualityReport
    from sdmetrics.single_table import DCRBaselineProtection, DCROverfittingProtection, NewRowSynthesis

    kinds = {name: "numerical" if train[name].dtype.kind in "fi" else "categorical" for name in train}
    columns = {"columns": {name: {"sdtype": kind} for name, kind in kinds.items()}}
    metadata = {"tables": {"table": columns}}
    quality = QualityReport()
    quality.generate(train, made, columns, verbose=False)
    return {
        "new rows": score(NewRowSynthesis, train, made, metadata),
        "DCR, baseline": score(DCRBaselineProtection, train, made, metadata),
        "DCR, overfitting": score(DCROverfittingProtection, train, made, test, metadata),
        "quality": quality.get_score(),
    }


def score(metric: Any, *given: Any) -> float:
    """Return the score of one of sdmetrics' metrics."""
    *frames, metadata = given
    return float(metric.compute_breakdown(*frames, metadata=metadata, table_name="table")["score"])


def synthmia(train: Any, test: Any, made: Any, target: str) -> dict[str, float]:
    """Return the AuROC of Synth-MIA's attacks on members among real rows, and the share found at 1 % false alarms."""
    sys.path.insert(0, os.environ["MEDSYNTH_SYNTH_MIA"])
    module = importlib.import_module("synth_mia.attackers")
    utilities = importlib.import_module("synth_mia.utils")
    half = len(test) // 2
    parts = [train[:ATTACKED], test[:ATTACKED], made, test[half:]]
    parts = [part.astype({name: object for name in part if part[name].dtype.kind not in "fi"}) for part in parts]
    coder = utilities.TabularPreprocessor(categorical_encoding="ordinal").fit(*parts)
    coded = [np.asarray(part, float) for part in coder.transform(*parts)[:4]]
    found: dict[str, float] = {}
    for name in MIA:
        try:
            attack = getattr(module, name)()
            found_scores = attack.eval(*attack.attack(*coded), metrics=["roc"], target_fprs=[0.01])
            found |= {f"{name}, AuROC": found_scores["auc_roc"], f"{name}, at 1 %": found_scores["tpr_at_fpr_0.01"]}
        except Exception as problem:  # A density that has no inverse, for example.
            print(name, problem, file=sys.stderr)
    return found


def main() -> None:
    """Score the rows and write the scores."""
    warnings.simplefilter("ignore")
    folder, tool, target = Path(sys.argv[1]).absolute(), sys.argv[2], sys.argv[3]
    os.chdir(folder)  # SynthEval leaves files.
    parts = [pd.read_csv(folder / f"{part}.csv", keep_default_na=False) for part in ("train", "test", "made")]
    tools: dict[str, Any] = {
        "anonymeter": anonymeter,
        "syntheval": syntheval,
        "sdmetrics": sdmetrics,
        "synthmia": synthmia,
    }
    found = tools[tool](parts[0], parts[1], parts[2], target)
    (folder / "scores.json").write_text(json.dumps({name: round(float(value), 4) for name, value in found.items()}))


if __name__ == "__main__":
    main()
