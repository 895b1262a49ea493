"""The front page: one line a question, each beside its threshold. There is no single averaged score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..data.records import Figure, Part
from ..data.review import Threshold, Thresholds
from .numeric_utility import NumericUtility

if TYPE_CHECKING:
    from ..build import Report


class Verdict(Part):
    """A question, what was measured, the line it is measured against. `met` is None where nothing was measured.

    `judged` is the end of the interval that counts against the table, or the value itself.
    """

    question: str
    measure: str
    figure: Figure
    judged: float | None
    limit: float
    source: str
    met: bool | None
    detail: str


def glance(report: Report, t: Thresholds) -> list[Verdict]:
    """The verdict lines that the report's sections allow."""
    found: list[Verdict] = []
    claim, fidelity, attacks, utility = report.claim, report.fidelity, report.attacks, report.utility
    if claim is None:
        found.append(_line("Is there a privacy guarantee?", "epsilon", Figure(value=None), t.epsilon,
                           "No claim can be made: there is no artifact with a ledger."))  # fmt: skip
    else:
        odds = (
            f"Whoever guesses whether one person is in the table is right at most {claim.guess_right:.0%} of the time."
        )
        found.append(_line("Is there a privacy guarantee?", "epsilon", Figure(value=claim.epsilon), t.epsilon, odds))
        found.append(_line("Is delta small against the number of patients?", "delta times rows",
                           Figure(value=claim.delta_times_rows), t.delta_times_rows,
                           "The expected number of patients whom the guarantee might fail."))  # fmt: skip
    if isinstance(utility, NumericUtility):
        found.append(_line("Do models learn the task?", "loss of R2, mean of four regressors", utility.mean_loss,
                           t.mean_r2_loss, f"Best regressor: {_value(utility.best_loss)} lost."))  # fmt: skip
    elif utility is not None:
        detail = f"Best classifier: {_value(utility.best_loss)} lost."
        if utility.missing_classes:
            detail += f" No synthetic row has the class {', '.join(utility.missing_classes)}."
        found.append(_line("Do models learn the task?", "loss of AuROC, mean of four classifiers", utility.mean_loss,
                           t.mean_auroc_loss, detail))  # fmt: skip
    if fidelity is not None:
        gap = fidelity.two_way_ceiling - fidelity.two_way
        found.append(_line("Do pairs of columns look real?", "two-way similarity below a second real sample's",
                           Figure(value=gap), t.two_way_gap,
                           f"{fidelity.two_way:.3f}, where a second real sample scores "
                           f"{fidelity.two_way_ceiling:.3f}."))  # fmt: skip
        found.append(_line("Can a classifier tell synthetic from real rows?", "AuROC (0.5 is no better than chance)",
                           fidelity.telling, t.telling_auroc,
                           f"Two real samples score {_value(fidelity.telling_ceiling)}."))  # fmt: skip
    if attacks is not None:
        best = next(m for m in attacks.membership if m.name == attacks.best)
        unfair = "" if attacks.fair else (
            f" Not to be judged: members and controls differ by themselves (AuROC {_value(attacks.blind)} without a "
            "look at the synthetic rows), so this is a sign neither of a leak nor of none. Split with fit --holdout."
        )  # fmt: skip
        found.append(_line("Did an attack find who was in the table?", "membership advantage", best.advantage,
                           t.attack_advantage, f"Best of {len(attacks.membership)} attacks: {best.name}. An attack "
                           "that finds nothing proves nothing." + unfair, judged=attacks.fair))  # fmt: skip
    if report.plausibility is not None:
        found.append(_line("Do synthetic rows keep to the schema?", "rules broken",
                           Figure(value=float(report.plausibility.broken)), t.rules_broken,
                           f"{len(report.plausibility.rules)} rules were checked on every row."))  # fmt: skip
    return found


def _line(
    question: str, measure: str, figure: Figure, threshold: Threshold, detail: str, *, judged: bool = True
) -> Verdict:
    against = figure.value if figure.high is None else figure.high
    return Verdict(
        question=question,
        measure=measure,
        figure=figure,
        judged=against if judged else None,
        limit=threshold.limit,
        source=threshold.source,
        met=None if against is None or not judged else against <= threshold.limit,
        detail=detail,
    )


def _value(figure: Figure) -> str:
    return "not known" if figure.value is None else f"{figure.value:.3f}"
