"""Fit: from a private table to an artifact. The only room that opens private rows and builds the vault."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .. import rng
from ..artifact import Model
from ..errors import MedsynthError, UsageError
from ..methods import registry
from ..methods.shared.marginals import cleaned
from ..privacy import hierarchy_selection, partition_selection
from ..privacy.accounting.calibration import Plan, check_budget, make_plan
from ..privacy.accounting.ledger import Ledger
from ..privacy.checkpoint import Checkpoint
from ..sampling.rejection import SIZES
from ..schema import Schema
from ..transforms.table_codec import encode, places
from .private_table import HEAVY, PATIENTS, Notice, Opened, check_target, open_public, open_table, weight

if TYPE_CHECKING:
    import pandas as pd

DEVICES = ("auto", "cpu", "cuda")
NO_DP_BUDGET = 300.0  # sets the schedule of a fit without noise, which makes no claim
Progress = Callable[[Plan, str, int, int, int], None]  # plan, device, steps done, steps in all, lots asked so far


def fit(
    table: Path | str | pd.DataFrame,
    *,
    epsilon: float | None = None,
    no_dp: bool = False,
    delta: float = 1e-5,
    schema: Schema | Path | str | None = None,
    target: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    microbatches: int | None = None,
    settings: Mapping[str, object] | None = None,
    rows: int | None = None,
    public: Path | str | None = None,
    device: str = "auto",
    seed: int | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    notice: Notice = lambda text: None,
    progress: Progress = lambda plan, device, done, total, lots: None,
) -> Model:
    """Fit a generator to `table` under (epsilon, delta)-differential privacy for one of its rows.

    Exactly one of `epsilon` and `no_dp` is given. The latter adds no noise: an upper bound of what a method can do, a
    model that makes no claim.

    `rows` declares the public row count (else the table's own is taken as public and a notice says so). `seed`
    repeats initial weights and latent draws only: noise and lots come from the operating system. Messages for
    a person go to `notice`.

    `settings` change the method's own, by name (docs/methods/).

    `public` is a table of the same columns whose rows you declare public: no claim covers them. dp-gan begins there.

    A `checkpoint` keeps every noisy answer before it is used; with `resume` those of a fit that was killed are used
    again and none is drawn twice. It is private: remove it once the model is saved.

    Raises UsageError, BudgetError, TableError or SchemaError; see medsynth.errors.
    """
    started = time.perf_counter()
    if no_dp == (epsilon is not None):
        raise UsageError("Give exactly one of --epsilon and --no-dp.")
    asked, epsilon = epsilon, NO_DP_BUDGET if epsilon is None else epsilon
    check_budget(epsilon, delta)
    if rows is not None and rows < 2:
        raise UsageError("--rows must be two or more.")
    method = registry.settle(method, preset)
    if device not in DEVICES:
        raise UsageError("--device must be auto, cpu or cuda.")
    # Before torch is imported: a mistake is told at once.
    opened = open_table(table, schema, target, notice)
    codes = encode(opened.data, opened.declared.core) if opened.declared else None
    module = registry.module(method, preset)
    if not no_dp:
        registry.check_claim(method)
    config = registry.configured(method, module, _settings(settings, microbatches, public is not None))
    chosen_device = choose_device(device)
    declared = opened.declared
    notes = ["The header, the columns' types and the schema are public by declaration."]
    if declared is None:
        notes = [
            "The header and the columns' types are taken as public; levels and bounds were learned from noisy answers."
        ]
        notice(
            "No schema: levels and bounds are learned privately, for part of the budget. A declared schema does better."
        )
    shown = None if public is None else open_public(public, declared)
    if shown is not None:
        notes.append(shown.note)
        notice("--public: its rows are public because you say so. No claim covers them.")
    entropy = rng.NoNoise() if no_dp else rng.system_entropy()
    stay, units = opened.capped(entropy)
    declared_rows = rows is not None
    if rows is None:
        rows = len(stay)
        notes.append("The row count was not declared: the table's own was taken as public.")
        notice(f"The table's row count, {rows}, is taken as public. --rows N declares another.")
    else:
        notes.append("The row count is public by declaration.")
    if delta > 1 / (10 * rows):
        notice(f"delta {delta:g} is large for {rows} rows: below {1 / (10 * rows):.1g} is advised.")
    queries = opened.queries(module, epsilon, config, rows)
    plan = make_plan(queries, epsilon=epsilon, delta=delta, rows=rows, most=opened.most)
    for note in module.notes(config, plan.equivalent_rows, opened.columns, epsilon):
        notice(note)

    from ..privacy.vault import Vault

    if no_dp:
        notice("--no-dp: NOT DIFFERENTIALLY PRIVATE. The model and its rows may give patients away. Share neither.")
    ledger = plan.ledger(entropy.source)
    ledger.notes.extend(notes)
    journal = None
    if checkpoint is not None:
        asked_for = {
            "method": method,
            "preset": preset,
            "config": config.model_dump(mode="json"),
            "seed": seed,
            "rows": rows,
            "delta": delta,
        }
        facts = {**asked_for, "noise": entropy.source, "plan": plan.to_json(), **opened.facts()}
        facts |= {"public": shown.digest if shown else None}
        journal = Checkpoint(checkpoint, facts, resume=resume)
        seed = journal.seed if seed is None else seed
        if journal.answers:
            notice(f"Resuming: {journal.answers} answers of the fit that was killed are used again.")
    known = declared
    if known is None:
        known = _learned(opened, rows, ledger, entropy, journal)
        notice(f"Target: {opened.target!r}. --target names another.")
        notice(f"Learned from noisy answers:\n{known.to_yaml()}")
    check_target(known)
    if coded := opened.unrolled:
        keys = Vault(places(opened.data, coded)[stay], tuple(coded), ledger, entropy, units, journal)
        found = hierarchy_selection.chosen(coded, keys, plan)
        known = known.model_copy(update={"columns": known.columns | found})
        notice(
            "Levels of codes, chosen by noisy counts: " + "; ".join(f"{n}, {len(c.levels)}" for n, c in found.items())
        )
        ledger.notes.append("Levels of codes were chosen by noisy counts of public hierarchies.")
    core = known.core
    if codes is None or opened.unrolled:
        codes = encode(opened.data, core)
    if (heavy := weight(core)) > HEAVY:
        notice(
            f"So many levels take about {heavy:.0f} GiB of memory. Fewer, or a hierarchy, take less (docs/schema.md)."
        )
    vault = Vault(codes[stay], core.names, ledger, entropy, units, journal)
    sizes = {}
    if units is not None:
        answer = vault.measure_rows_per_patient(PATIENTS)
        sizes[SIZES] = cleaned(answer, answer.clip(min=0).sum()).astype(np.float32)
    dtypes = opened.data.dtypes
    del opened, codes
    with _one_thread():
        tensors = module.train(
            config,
            core,
            vault,
            plan,
            seed,
            chosen_device,
            lambda done, total: progress(plan, chosen_device, done, total, ledger.asked(plan.repeated)),
            **({} if shown is None else {"public": encode(shown.data, core)}),
        )
    if not ledger.complete:
        raise MedsynthError("The ledger differs from the plan. Nothing was released; please report this.")
    return Model(
        name=known.name,
        method=method,
        preset=preset,
        config=config.model_dump(mode="json"),
        schema=known,
        ledger=ledger,
        epsilon=None if no_dp else plan.epsilon,
        epsilon_asked=asked,
        rows=rows,
        rows_declared=declared_rows,
        device=chosen_device,
        seconds=round(time.perf_counter() - started, 2),
        versions=versions(),
        tensors={**tensors, **sizes},
        dtypes=dtypes,
    )


def _learned(opened: Opened, rows: int, ledger: Ledger, entropy: rng.Entropy, journal: Checkpoint | None) -> Schema:
    """The schema that noisy answers tell of, or that a killed fit has on file with what it charged."""
    label = "learned schema"
    if kept := journal.recall(label) if journal else None:
        told = json.loads(kept[1])
        for entry in Ledger.from_json(told["ledger"]).entries:
            for _ in range(entry.count):
                ledger.charge(entry.label, entry.event, entry.sensitivity)
        return Schema.from_dict(told["schema"])
    extract = partition_selection.Extract(opened.data, opened.kinds, rows, ledger, entropy)
    schema = extract.schema("learned", opened.target)
    if journal:
        journal.keep(label, [], json.dumps({"schema": schema.to_dict(), "ledger": ledger.to_json()}))
    return schema


def plan_fit(
    table: Path | str | int,
    *,
    epsilon: float,
    delta: float = 1e-5,
    schema: Schema | Path | str | None = None,
    target: str | None = None,
    method: str | None = None,
    preset: str | None = None,
    microbatches: int | None = None,
    settings: Mapping[str, object] | None = None,
    rows: int | None = None,
    public: bool = False,
    columns: int = 20,
) -> tuple[Plan, float, list[str]]:
    """The plan that `fit` would follow on `table`, an estimate of its seconds, and notes. Nothing is asked of the rows.

    A number of rows instead of a table plans for one of `columns` columns that has a schema. Raises what `fit` raises
    before it asks.
    """
    check_budget(epsilon, delta)
    method = registry.settle(method, preset)
    registry.check_claim(method)
    opened = None if isinstance(table, int) else open_table(table, schema, target, lambda text: None)
    module = registry.module(method, preset)
    config = registry.configured(method, module, _settings(settings, microbatches, public))
    if opened is None:
        count, asked = int(table), partial(module.queries, columns=columns, epsilon=epsilon)  # type: ignore[arg-type]
    else:
        columns = opened.columns
        count = len(opened.capped(rng.system_entropy())[0]) if rows is None else rows
        asked = partial(opened.queries, module, epsilon)
    if count < 2:
        raise UsageError("A plan needs two rows or more.")
    most = opened.most if opened else None
    plan = make_plan(asked(config, count), epsilon=epsilon, delta=delta, rows=count, most=most)
    return plan, module.seconds(config, count), module.notes(config, plan.equivalent_rows, columns, epsilon)


def _settings(settings: Mapping[str, object] | None, microbatches: int | None, public: bool) -> dict[str, object]:
    if "public" in (settings or {}):
        raise UsageError("--set public: rows are declared public by --public TABLE.")
    named = {"microbatches": microbatches, "public": public or None}
    return {**(settings or {}), **{name: value for name, value in named.items() if value is not None}}


@contextmanager
def _one_thread() -> Iterator[None]:
    """These networks and matrices are too small to share: on a busy machine threads made fits 40 times slower."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def choose_device(device: str) -> str:
    """The device of DEVICES to train on, cpu or cuda. Raises MedsynthError for absent CUDA."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise MedsynthError("There is no CUDA device here. Use --device cpu, or install PyTorch's CUDA build.")
    return "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"


def versions() -> dict[str, str]:
    """The versions that a fit ran with."""
    packages = ("medsynth", "torch", "opacus", "numpy")
    return {"python": platform.python_version(), **{p: importlib.metadata.version(p) for p in packages}}
