"""The audit as a list of tasks: measurements, whole fits, one fit with canaries, inputs, synthetic rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from .. import __version__
from ..errors import UsageError
from ..fitting.environment import one_thread
from ..methods import registry
from ..schema import Schema
from ..schema.columns.categorical import Categorical, without_levels
from ..schema.columns.hierarchies import hierarchy
from .black_box import audit_rows
from .finding import Finding
from .fits.end_to_end import audit_end_to_end
from .fits.loss_noise import METHOD as PUBLISHED
from .fits.loss_noise import audit_loss_noise
from .fits.one_run import SETTINGS, SHARDED, audit_one_run
from .inputs import RESULTS, InputFinding, audit_inputs
from .mechanisms import CASES, NAMES, audit_mechanism, audit_names

CONFIDENCE = 0.999
FIT_SECONDS = {"independent": 0.08, "mixture": 1.6, "dp-cgan": 0.6, "dp-gan": 1.2}  # of one without and one with
QUICK_SECONDS, FULL_SECONDS = 30.0, 2_000.0  # for whole fits
QUICK_METHOD = "independent"  # the default's first measurements, without its training: fits take a moment
Step = Callable[[int, int], None]  # steps done, steps in all
Progress = Callable[[str, float, float], None]  # what is audited, expected seconds done, expected seconds in all
EXAMPLE = {
    "name": "audit",
    "target": "class",
    "columns": {
        "count": {"kind": "count", "bounds": [0, 9]},
        "assay": {"kind": "continuous", "bounds": [0, 5], "decimals": 2},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "class": {"kind": "categorical", "levels": ["a", "b", "c"]},
    },
}


@dataclass(frozen=True, kw_only=True)
class Trials:
    """How much is tried: trials a side of a measurement, of names, of whole fits, of the published GAN, of rows."""

    measurement: int
    names: int
    fits: int
    published: int
    drawn: int


QUICK = Trials(measurement=3_000, names=1_000, fits=300, published=40, drawn=60)
FULL = Trials(measurement=30_000, names=10_000, fits=1_000, published=40, drawn=200)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What attackers proved. Nothing here says that a guarantee holds: a bound below the claim does not refute it."""

    findings: tuple[Finding, ...]
    inputs: tuple[InputFinding, ...] = ()
    schema: str = ""
    medsynth: str = __version__

    @property
    def refuted(self) -> tuple[Finding, ...]:
        """The findings that refute a claim at their confidence."""
        return tuple(finding for finding in self.findings if finding.refutes)

    @property
    def withdrawn(self) -> tuple[Finding, ...]:
        """Those of them that refute what is published elsewhere, and what medsynth does not claim."""
        return tuple(finding for finding in self.refuted if finding.published)

    def inputs_by_mode(self) -> list[tuple[str, list[int], str]]:
        """Whether a schema was declared; how many odd cells left all identical, were refused, differed; in what."""
        lines = []
        for mode, words in (("schema", "declared"), ("none", "not declared")):
            own = [found for found in self.inputs if found.mode == mode]
            counts = [sum(found.result == result for found in own) for result in RESULTS]
            cells: dict[str, list[str]] = {}
            for found in own:
                for what in found.changed:
                    cells.setdefault(what, []).append(found.cell)
            changes = "; ".join(f"{what}: {', '.join(dict.fromkeys(names))}" for what, names in cells.items())
            lines.append((words, counts, changes))
        return lines

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "medsynth": self.medsynth,
            "schema": self.schema,
            "findings": [finding.to_json() for finding in self.findings],
            "inputs": [asdict(found) for found in self.inputs],
        }


@dataclass(frozen=True)
class Task:
    """One part of an audit: its name, about how many seconds it takes, and what it does."""

    name: str
    seconds: float
    run: Callable[[Step], list[Finding]]


def run(
    schema: Schema | None = None,
    *,
    method: str | None = None,
    quick: bool = False,
    confidence: float = CONFIDENCE,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Audit all kinds of measurements, then fits of `method` and files on simulated tables of `schema`.

    No table is opened and no budget is spent. `quick` makes fewer trials, which prove a little less of each claim, and
    audits fits of the baseline where no `method` is named. A method that samples lots or shards is audited by canaries
    in one fit too; without `quick` and without `method`, all of them are. Each finding holds with the given confidence
    by itself. Raises UsageError for an unknown method or a confidence outside (0.5, 1).
    """
    if not 0.5 < confidence < 1:
        raise UsageError("`confidence` must lie between 0.5 and 1.")
    known = simulated_schema(Schema.from_dict(EXAMPLE) if schema is None else schema)
    todo = _measurements(QUICK if quick else FULL, confidence)
    todo += _fits(known, method, quick, confidence)
    inputs: list[InputFinding] = []

    def files(step: Step) -> list[Finding]:
        inputs.extend(audit_inputs(known, step))
        return []

    todo.append(Task("input files", 0.3 * len(known.names), files))
    total, done, findings = sum(task.seconds for task in todo), 0.0, list[Finding]()
    with one_thread():
        for task in todo:
            progress(task.name, done, total)
            findings += task.run(partial(_within, progress, task, done, total))
            done += task.seconds
    progress("done", total, total)
    return Audit(findings=tuple(findings), inputs=tuple(inputs), schema=known.name)


def simulated_schema(schema: Schema) -> Schema:
    """A schema with a target, whose columns in a hierarchy have its widest groups for levels where none are named."""
    columns = {
        name: column.model_copy(update={"levels": (*_widest(column), column.unknown)})
        for name, column in without_levels(schema.columns).items()
    }
    return schema.model_copy(update={"columns": schema.columns | columns}).with_target(
        schema.target or schema.names[-1]
    )


def _widest(column: Categorical) -> list[str]:
    labels = {node.label for node in hierarchy(column.hierarchy or "").children(None)}
    return sorted(labels - {str(column.unknown)})


def _within(progress: Progress, task: Task, before: float, total: float, done: int, of: int) -> None:
    progress(f"{task.name}, {done} of {of}", before + task.seconds * done / of, total)


def _once(audit: Callable[..., Finding], *arguments: object) -> Callable[[Step], list[Finding]]:
    return lambda step: [audit(*arguments)]


def _stepwise(audit: Callable[..., Finding], *arguments: object) -> Callable[[Step], list[Finding]]:
    return lambda step: [audit(*arguments, progress=step)]


def _measurements(trials: Trials, confidence: float) -> list[Task]:
    """Every kind of measurement on its worst neighbours."""
    todo = []
    for case in CASES.values():
        count = trials.measurement // case.slow
        todo.append(Task(case.name, 1e-3 * count * case.slow**0.5, _once(audit_mechanism, case, count, confidence)))
    for label in NAMES:
        todo.append(Task("names released", 2e-3 * trials.names, _once(audit_names, label, trials.names, confidence)))
    return todo


def _fits(schema: Schema, method: str | None, quick: bool, confidence: float) -> list[Task]:
    """Whole fits, or one with canaries; the published loss-noise GAN; synthetic rows."""
    trials = QUICK if quick else FULL
    chosen = registry.settle(method or (QUICK_METHOD if quick else registry.DEFAULT))
    published = _stepwise(audit_loss_noise, schema, trials.published, confidence)
    todo = [Task(PUBLISHED, 0.4 * trials.published, published)]
    if not registry.METHODS[chosen].makes_claim:
        return todo
    if chosen not in SHARDED:
        each = FIT_SECONDS.get(chosen, 1.0)
        fits = max(4, min(trials.fits, round((QUICK_SECONDS if quick else FULL_SECONDS) / each)))
        todo.append(Task(f"{chosen}, fit", each * fits, _stepwise(audit_end_to_end, chosen, schema, fits, confidence)))
    sampled = [chosen] if chosen in SETTINGS else [] if quick or method else list(SETTINGS)
    todo += [Task(f"{name}, canaries", 25.0, _stepwise(audit_one_run, name, schema, confidence)) for name in sampled]

    def rows(step: Step) -> list[Finding]:
        return audit_rows(QUICK_METHOD, schema, trials.drawn, confidence, progress=step)

    return [*todo, Task("synthetic rows", 0.2 * trials.drawn, rows)]
