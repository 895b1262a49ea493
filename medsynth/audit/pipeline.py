"""The audit as a list of tasks: measurements, whole fits, one fit with canaries, inputs, synthetic rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib import resources
from itertools import groupby
from pathlib import Path
from typing import Any

from .. import __version__
from ..cores import one_thread
from ..errors import UsageError
from ..io.atomic import write_page
from ..methods import registry
from ..schema import Schema
from ..schema.columns.categorical import without_levels
from ..schema.columns.hierarchies import hierarchy
from .canaries import SETTINGS, SHARDED, audit_one_run
from .inputs import MODES, RESULTS, InputFinding, audit_inputs
from .mechanisms import CASES, NAMES, audit_mechanism, audit_names
from .statistics import Finding
from .whole_fits import PUBLISHED, audit_end_to_end, audit_loss_noise, audit_rows

CONFIDENCE = 0.999
FIT_SECONDS = {"independent": 0.02, "mixture": 0.06, "dp-cgan": 0.6, "dp-gan": 1.2}  # Without and with the target.
QUICK_SECONDS, FULL_SECONDS = 30.0, 2_000.0  # Seconds for whole fits.
Progress = Callable[[str, float, float], None]  # What is audited, expected seconds done, expected seconds in total.
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
    """Numbers of trials per side: of a measurement, of names, of whole fits, of the published GAN, of rows."""

    measurement: int
    names: int
    fits: int
    published: int
    drawn: int


QUICK = Trials(measurement=3_000, names=1_000, fits=300, published=40, drawn=60)
FULL = Trials(measurement=30_000, names=10_000, fits=10_000, published=40, drawn=200)


@dataclass(frozen=True, kw_only=True)
class Audit:
    """What attackers proved. A bound below the claim does not show that the guarantee holds."""

    findings: tuple[Finding, ...]
    inputs: tuple[InputFinding, ...] = ()
    schema: str = ""
    medsynth: str = __version__

    @property
    def refuted(self) -> tuple[Finding, ...]:
        """Return the findings that refute a claim at their confidence."""
        return tuple(finding for finding in self.findings if finding.refutes)

    def inputs_by_mode(self) -> list[tuple[str, list[int], str]]:
        """Return, with and without a schema, the numbers of odd cells by result, and what they changed."""
        lines = []
        for mode, words in zip(MODES, ("declared", "not declared"), strict=True):
            own = [found for found in self.inputs if found.mode == mode]
            cells: dict[str, dict[str, None]] = {}  # By what they changed, each once.
            for found in own:
                for what in found.changed:
                    cells.setdefault(what, {})[found.cell] = None
            counts = [sum(found.result == result for found in own) for result in RESULTS]
            lines.append((words, counts, "; ".join(f"{what}: {', '.join(names)}" for what, names in cells.items())))
        return lines

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "medsynth": self.medsynth,
            "schema": self.schema,
            "findings": [finding.to_json() for finding in self.findings],
            "inputs": [asdict(found) for found in self.inputs],
        }


def run(
    schema: Schema | None = None,
    *,
    method: str | None = None,
    quick: bool = False,
    confidence: float = CONFIDENCE,
    progress: Progress = lambda what, done, total: None,
) -> Audit:
    """Audit all kinds of measurements, then fits of `method` and files on simulated tables of `schema`.

    No table is opened and no budget is spent. `quick` makes fewer trials, which prove a little less of each claim. A
    method that samples lots or shards is also audited by
    canaries in one fit. Without `quick` and `method`, all of these methods are. Each finding by itself has the given
    confidence. Raises UsageError for an unknown method or a confidence outside (0.5, 1).
    """
    if not 0.5 < confidence < 1:
        raise UsageError("`confidence` must be above 0.5 and below 1.")
    known = simulated_schema(Schema.from_dict(EXAMPLE) if schema is None else schema)
    todo = [*_measurements(QUICK if quick else FULL, confidence), *_fits(known, method, quick, confidence)]
    todo.append(Task("input files", 0.3 * len(known.names), partial(audit_inputs, known)))
    total = sum(task.seconds for task in todo)
    before = 0.0
    found = list[Any]()
    with one_thread():
        for task in todo:

            def step(done: int, of: int, task: Task = task, before: float = before) -> None:
                progress(f"{task.name}, {done} of {of}", before + task.seconds * done / of, total)

            progress(task.name, before, total)
            made = task.audit(progress=step) if task.stepwise else task.audit()
            found += made if isinstance(made, list) else [made]
            before += task.seconds
    progress("done", total, total)
    return Audit(
        findings=tuple(each for each in found if isinstance(each, Finding)),
        inputs=tuple(each for each in found if isinstance(each, InputFinding)),
        schema=known.name,
    )


def simulated_schema(schema: Schema) -> Schema:
    """Return the schema with a target. Hierarchies without levels get their widest groups as levels."""
    columns = dict(schema.columns)
    for name, column in without_levels(schema.columns).items():
        labels = {node.label for node in hierarchy(column.hierarchy or "").children(None)} - {str(column.unknown)}
        columns[name] = column.model_copy(update={"levels": (*sorted(labels), column.unknown)})
    return schema.model_copy(update={"columns": columns}).with_target(schema.target or schema.names[-1])


@dataclass(frozen=True)
class Task:
    """One part of an audit: its name, its approximate time in seconds, its function, and whether it reports steps."""

    name: str
    seconds: float
    audit: Callable[..., Any]
    stepwise: bool = True


def _measurements(trials: Trials, confidence: float) -> Iterator[Task]:
    for case in CASES.values():
        count = trials.measurement // case.slow
        audit = partial(audit_mechanism, case, count, confidence)
        yield Task(case.name, 1e-3 * count * case.slow**0.5, audit, stepwise=False)
    for label in NAMES:
        audit = partial(audit_names, label, trials.names, confidence)
        yield Task("names released", 2e-3 * trials.names, audit, stepwise=False)


def _fits(schema: Schema, method: str | None, quick: bool, confidence: float) -> Iterator[Task]:
    """Yield tasks for whole fits or canaries, the published loss-noise GAN, and synthetic rows."""
    trials = QUICK if quick else FULL
    chosen = registry.settle(method or registry.DEFAULT)
    yield Task(PUBLISHED, 0.4 * trials.published, partial(audit_loss_noise, schema, trials.published, confidence))
    if not registry.METHODS[chosen].makes_claim:
        return
    if chosen not in SHARDED:
        each = FIT_SECONDS.get(chosen, 1.0)
        fits = max(4, min(trials.fits, round((QUICK_SECONDS if quick else FULL_SECONDS) / each)))
        yield Task(f"{chosen}, fit", each * fits, partial(audit_end_to_end, chosen, schema, fits, confidence))
    for name in [chosen] if chosen in SETTINGS else [] if quick or method else SETTINGS:
        yield Task(f"{name}, canaries", 25.0, partial(audit_one_run, name, schema, confidence))
    yield Task("synthetic rows", 0.2 * trials.drawn, partial(audit_rows, schema, trials.drawn, confidence))


def page(audit: Audit) -> str:
    """Return the audit as HTML."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = [(part, list(group)) for part, group in groupby(audit.findings, key=lambda finding: finding.part)]
    text = (resources.files(__package__) / "templates" / "audit.html").read_text(encoding="utf-8")
    template = environment.from_string(text)
    return str(template.render(audit=audit, parts=parts, first=audit.findings[0], inputs=audit.inputs_by_mode()))


def save(audit: Audit, output: Path, *, force: bool = False) -> Path:
    """Write the page and its JSON twin next to it. Returns the twin's path. Raises MedsynthError for existing files."""
    return write_page(output, page(audit), json.dumps(audit.to_json(), indent=1), force=force)
