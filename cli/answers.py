"""The commands `medsynth tables` and `medsynth estimate`: answers from a model file alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from medsynth.errors import UsageError

from .console import find_model, guarded, notify, result
from .options import Force, Json, ModelArgument

By = Annotated[str | None, typer.Option("--by", metavar="COLUMN", help="Answer for each level of this column.")]
Many = Annotated[int, typer.Option("--replicates", metavar="M", help="Replicates to draw.")]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Seed = Annotated[int, typer.Option(help="Another seed draws other replicates.")]
Folder = Annotated[Path | None, typer.Option("--output", "-o", help="Folder to write [default: NAME.noisy].")]


@guarded
def tables(
    model_file: ModelArgument = None,
    by: By = None,
    replicates: Many = 20,
    level: Level = 0.95,
    seed: Seed = 0,
    output: Folder = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write every noisy table that a model keeps, and a Table 1 with intervals, into a folder. Uses no privacy budget.

    Each measurement is a CSV file: the released count of each cell, the standard deviation of its noise, its standard
    error, and the consistent count of the fitted model. index.html explains them. Table 1 has the groups of --by, or
    the target's classes. It needs replicates, which take the longest: --replicates 0 leaves it out.

    Examples:

        medsynth tables

        medsynth tables patients.medsynth --by sex -o tables
    """
    from medsynth.answers.folder import write_tables
    from medsynth.artifact import claim, load

    fitted = load(path := find_model(model_file))
    folder = output or Path(f"{path.stem}.noisy")
    made = write_tables(fitted, folder, by=by, replicates=replicates, level=level, seed=seed, force=force)
    notify(claim(fitted, brief=True), quiet=as_json)
    content = {"output": str(folder), "files": [*map(str, made.files)], "tables": made.tables, "numbers": made.numbers,
               "claims": fitted.claims}  # fmt: skip
    result(content, f"Wrote {folder}, {made.tables} tables with {made.numbers} numbers. Open {made.files[0]}.",
           as_json=as_json)  # fmt: skip


@guarded
def estimate(
    words: Annotated[
        list[str],
        typer.Argument(metavar="[MODEL] QUESTION...", help="Model file [default: the newest], and questions."),
    ],
    by: By = None,
    where: Annotated[list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE or COLUMN=LOW..HIGH.")] = None,
    replicates: Many = 20,
    level: Level = 0.95,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Estimate means, shares, differences or regressions, with intervals that know the noise. Uses no privacy budget.

    Questions are `mean(age)`, `sd(age)`, `median(age)`, `quantile(age, 0.9)`, `share(sex=F)`, `difference(age, sex=F)`,
    `correlation(age, bmi)`, `odds_ratio(ill=yes, sex=F)`, and formulas such as `y ~ a * b + I(a**2) + C(ward)`. A log
    scale is used in correlations and regressions. Replicates take the time, so ask several questions at once.

    Examples:

        medsynth estimate "mean(age)" "share(sex=F)" --by ward

        medsynth estimate patients.medsynth "pulse ~ age + sex" --where age=40..
    """
    from medsynth.answers.estimate import estimate as estimated
    from medsynth.artifact import load

    named = [Path(word) for word in words[:1] if word.endswith(".medsynth")]
    if not (asked := words[len(named) :]):
        raise UsageError("Ask at least one question, such as 'mean(age)'.")
    fitted = load(find_model(named[0] if named else None))
    found = estimated(fitted, asked, by=by, where=where or (), replicates=replicates, level=level, seed=seed)
    heading = f"{'term':<34} {'estimate':>11} {f'{level:.0%} interval':>25} {'p':>8} {'rows':>7} {'as exact as':>11}"
    lines = [
        f"{one.name[:34]:<34} {_short(one.estimate):>11} {f'{_short(one.low)} to {_short(one.high)}':>25} "
        f"{_short(one.p_value, 2):>8} {one.rows:>7.0f} {_short(one.effective_rows):>11}"
        for one in found
    ]
    content = {"model": fitted.name, "answers": json.loads(found.frame.to_json(orient="records", double_precision=15)),
               "sentences": [*map(str, found)]}  # fmt: skip
    result(content, "\n".join([heading, *lines, "", str(found)]), as_json=as_json)


def _short(value: float | None, digits: int = 4) -> str:
    return "" if value is None else f"{value:.{digits}g}"
