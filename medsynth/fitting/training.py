"""The phases of a fit that measure private rows, and the sealing of the model."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Arrays, Codes, Floats
from ..artifact import QUALITY, Model
from ..cores import one_thread
from ..errors import DROPPED_TARGET, LEARNED, LOST, TIMES, WARNING, MedsynthError, Message, UsageError, some
from ..io.formats import FileForm
from ..methods.marginals import cleaned
from ..methods.registry import METHODS, Progress
from ..patients import stored
from ..patients.chain import Chain, later_rows
from ..patients.codes import names_of_codes
from ..patients.plan import CODES, plan_of_first_rows
from ..patients.split_rows import SplitRows, later_columns, split_rows, with_rows_column
from ..privacy.accounting.calibration import of_table
from ..privacy.contribution import PrivacyUnits
from ..privacy.hierarchy_selection import select_levels
from ..privacy.pair_selection import columns_of, select_pairs
from ..privacy.partition_selection import RawVault
from ..privacy.release import Releases
from ..rng import numpy_stream, stream_seed
from ..row_count import COUNTED_ROWS
from ..sampling.patients import ROWS_PER_PATIENT, rows_of_a_patient
from ..sampling.rejection import complete, rejection_sample, widened
from ..sampling.tables import FirstRows
from ..sampling.visits import broken_firsts
from ..schema import Schema
from ..schema.codec import encode, hierarchy_positions
from ..schema.columns.categorical import without_levels
from ..schema.columns.column import MAX_CODES, Column
from ..schema.learned import Learned, lost_target
from ..schema.linked import LinkedTables, chain_view, joint, number_name, placed_by
from . import expectation
from .planning import PlannedFit
from .private_rows import Coded, coded, codes_of, vault_of
from .private_table import ROWS_PER_PATIENT_LABEL, PrivateTable
from .private_tables import CodedTables, PrivateTables
from .public_rows import PublicRows, note_lacking
from .reservation import WayOut
from .settings import FitOptions

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..privacy.accounting.calibration import Plan
    from ..privacy.queries.measurements import Measurements
    from ..privacy.vault import Vault

PACKAGES = ("medsynth", "torch", "opacus", "numpy")  # whose versions a model states
BINS_OF_A_NUMBER, LATENT_POINTS, STEP_COPIES = 60, 128, 10  # rough sizes of the arrays of a generator step
MUCH_MEMORY_GIB = 2.0  # a fit that needs more warns the user
ROWS_OFF = 0.05  # warn if noisy counts differ by more than this share of the declared rows
SIMULATED_PATIENTS = 40_000  # at most, of several tables, to fit the rows that follow
MOSTLY_EMPTY = 0.9  # share of rows without a value, in a column whose unread cells are missing
MOSTLY_PLACED = 0.5  # share of rows of a table that another table's rows should place
FEWEST_SIMULATED = 500  # patients of several rows to fit the model of later rows, even if such patients are rare


def settle(
    private: PrivateTable, planned: PlannedFit, releases: Releases, rows: int
) -> tuple[Schema, dict[str, float]]:
    """Return the schema with all columns settled: what is open is learned from noisy measurements of the `rows` that
    stay.

    With it comes the share of rows whose value has no level, by open column, as the noisy counts show it. If the
    measurements show no classes of the target, the fit goes on without one. But if a person named the target, or the
    method needs one, TargetError is raised as soon as they show that.
    """
    schema = private.declared
    without_level = dict[str, float]()
    if private.open:
        data, std = private.data, _rows_std(planned)
        if planned.units is not None and planned.stay is not None:
            data = data.only(planned.stay)
        raw = RawVault(data, rows, releases, schema, private.na_values, planned.units, std)
        learned = _learned(private, planned, raw)
        schema = learned.schema
        if schema.target is not None and schema.columns[schema.target].size < 2:
            raise lost_target(schema.target)
        if schema.target != private.target:
            note = Message(
                f"{private.target!r}, the last column, is a key or has fewer than two classes, by the noisy counts. So "
                "the model predicts no column. This costs no more budget. To predict another column, name it as "
                "`target` next time.",
                None, kind=DROPPED_TARGET, column=private.target or "",
            )  # fmt: skip
            planned.options.notice(note)
            planned.ledger.note(note)
        without_level = {name: column.without_level(rows) for name, column in learned.columns.items()}
    schema = _with_hierarchy_levels(private, planned, releases, schema)
    return _with_pairs(private, planned, releases, schema), without_level


def settle_tables(private: PrivateTables, planned: PlannedFit, releases: Releases) -> PrivateTables:
    """Return the tables with all columns settled: what is open is learned from noisy measurements, table by table.

    If the measurements show no classes of a target that nobody named, another column of patients is the target.
    """
    settled = dict[str, Mapping[str, Column]]()
    for name, schema in private.open_schemas.items():
        stay, units = private.kept(name)
        rows, std = planned.plan.rows, planned.plan.rows_std
        if name != private.tables.first:
            label = of_table(name, ROWS_PER_PATIENT_LABEL)
            counted = vault_of(np.empty((len(stay), 0), np.int32), (), None, releases, units)
            rows, _ = counted_rows(counted, label, planned.plan.rows * units.max_rows)
            std = _std_of_counted(planned.plan, label, units.max_rows)
        raw = RawVault(private.cells[name].only(stay), rows, releases, schema, (), units, std, name)
        settled[name] = _learned(private, planned, raw, name).schema.columns
    tables = private.tables.with_columns(settled)
    declared = joint(tables)
    return replace(private, tables=tables, declared=declared, target=declared.target)


def _learned(private: PrivateTable, planned: PlannedFit, raw: RawVault, table: str = "") -> Learned:
    """Learn what is open, and tell the user and the ledger what was learned. `table`: the name of one of several."""
    notice = planned.options.notice
    required = private.target_named or not METHODS[planned.method.name].without_target
    regressions = getattr(planned.method.config, "regressions", ())
    used = {name for regression in regressions for name in regression.columns}
    learned = raw.measure_schema(required=required, used=used)
    summary = learned.summary()
    for text in summary:
        planned.ledger.note(Message(" ".join(of_table(table, text).split()), kind=LEARNED))  # a note is one line
    others = [text for text in summary if text.about.kind not in (LOST, TIMES, WARNING)]
    head = of_table(table, "Learned from noisy counts:")
    shown = [text.brief for text in others if text.brief]
    notice(Message("\n  - ".join([head, *others]), "\n  - ".join([head, *shown])))
    notice(Message(f"As a schema:\n{learned.schema.to_yaml()}"))
    for text in (text for text in summary if text not in others):
        notice(text)
    return learned


def _with_hierarchy_levels(private: PrivateTable, planned: PlannedFit, releases: Releases, schema: Schema) -> Schema:
    """Return the schema with the levels of its hierarchies, chosen by noisy counts if it does not list them."""
    columns = without_levels(private.declared.core.columns)
    if not columns:
        return schema
    codes = coded(
        private.data, partial(hierarchy_positions, columns=columns), [MAX_CODES] * len(columns), planned.options.folder
    )
    vault = vault_of(codes, tuple(columns), planned.stay, releases, planned.units)
    found = select_levels(columns, vault.measure_histograms, planned.plan)
    counts = "; ".join(f"{name}, {len(column.levels)}" for name, column in found.items())
    planned.options.notice(Message(f"Levels of codes, chosen by noisy counts: {counts}"))
    planned.ledger.note("Levels of codes were chosen by noisy counts of public hierarchies.")
    return schema.model_copy(update={"columns": schema.columns | found})


def _with_pairs(private: PrivateTable, planned: PlannedFit, releases: Releases, schema: Schema) -> Schema:
    """Return the schema with the labels of codes, chosen by noisy counts if it does not declare the pairs."""
    rules = schema.open_pairs
    if not rules:
        return schema
    names = columns_of(rules)
    part = schema.with_columns({name: schema.columns[name] for name in names}, rules=())
    codes = coded(private.data, partial(encode, schema=part), codes_of(part), planned.options.folder)
    vault = vault_of(codes, names, planned.stay, releases, planned.units)
    found = select_pairs(schema, vault.measure_marginals, planned.plan)
    for rule in rules:
        own = found.pairs[rule.defines or ""]
        text = "; ".join(f"{code}: {label}" for code, label in own.items())
        planned.options.notice(Message(f"{rule.text}, by noisy counts of pairs: {text}"))
    planned.ledger.note("Labels of codes were learned from noisy counts of pairs.")
    if found.target is not None and found.columns[found.target].size < 2:
        raise lost_target(found.target)
    return found


def encode_into_vault(
    private: PrivateTable, planned: PlannedFit, releases: Releases, schema: Schema, codes: Coded | None
) -> Vault:
    """Code the rows that stay and put them behind the vault. `codes`: those of the declared schema, or None."""
    core = schema.core
    return vault_of(final_codes(private, planned, core, codes), core.names, planned.stay, releases, planned.units)


def final_codes(private: PrivateTable, planned: PlannedFit, core: Schema, codes: Coded | None) -> Coded:
    """Return the rows' codes by the core of a settled schema: `codes` if nothing of it was open."""
    declared = private.declared
    if codes is None or private.open or without_levels(declared.core.columns) or declared.open_pairs:
        codes = codes_by(private, core, planned.options)
    if (heavy := fit_memory_gib(core)) > MUCH_MEMORY_GIB:
        planned.options.notice(
            f"These levels need about {heavy:.0f} GiB of memory. Declare fewer, or a hierarchy (docs/schema.md)."
        )
    return codes


def codes_by(private: PrivateTable, core: Schema, options: FitOptions) -> Coded:
    """Return the rows' codes by a schema's own columns. Raise SchemaError for the first cell that it does not allow."""

    def done(share: float) -> None:
        options.phase(f"reading the table, {share:.0%}")

    return coded(private.data, partial(encode, schema=core), codes_of(core), options.folder, done, private.unit)


def fit_memory_gib(schema: Schema) -> float:
    """Estimate the GiB that the fit of a generator needs: classes times levels times latent points."""
    levels = {n: c.size if c.categorical else BINS_OF_A_NUMBER for n, c in schema.columns.items()}
    return 4 * LATENT_POINTS * STEP_COPIES * levels.get(schema.target or "", 1) * sum(levels.values()) / 2**30


def rows_in_use(planned: PlannedFit, releases: Releases) -> tuple[int, Arrays]:
    """Return the number of rows that scales the measurements, and the shares of patients with 1, 2, ... rows.

    If patients are the unit, the number of kept rows depends on them: it comes from the noisy histogram of rows per
    patient. Otherwise it is the public row count.
    """
    plan = planned.plan
    if planned.units is None or planned.stay is None:
        return plan.rows, {}
    no_column = np.empty((len(planned.stay), 0), np.int32)
    return rows_of_patients(vault_of(no_column, (), None, releases, planned.units), plan)


def _rows_std(planned: PlannedFit) -> float | None:
    """Return the standard deviation of the number of rows in use; None if it is not known."""
    if planned.units is None:
        return planned.plan.rows_std
    return _std_of_counted(planned.plan, ROWS_PER_PATIENT_LABEL, planned.units.max_rows)


def _std_of_counted(plan: Plan, label: str, most: int) -> float:
    """Return the standard deviation of a number of rows that counts of patients with 1, 2, ... `most` rows gave."""
    return plan.events[label][0].multiplier * float(np.linalg.norm(np.arange(1, most + 1)))


def rows_of_patients(vault: Measurements, plan: Plan) -> tuple[int, Arrays]:
    """Measure the number of rows, and the shares of patients with 1, 2, ... rows, if patients are the unit."""
    if plan.max_rows is None:
        return plan.rows, {}
    rows, shares = counted_rows(vault, ROWS_PER_PATIENT_LABEL, plan.rows)
    return rows, {ROWS_PER_PATIENT: shares.astype(np.float32)}


def counted_rows(vault: Measurements, label: str, most: int) -> tuple[int, Floats]:
    """Measure the number of rows, from 2 to `most`, and the shares of patients with 1, 2, ... rows."""
    counts = vault.measure_rows_per_patient(label)
    total = counts.clip(min=0).sum()
    shares = cleaned(counts, total)
    rows = round(float(total * shares @ np.arange(1, len(shares) + 1)))
    return min(max(rows, 2), most), shares


def note_counted_rows(planned: PlannedFit, tensors: Arrays) -> None:
    """Report noisy counts that differ clearly from the declared number of rows, which the plan used."""
    declared = planned.plan.rows
    counted = float(tensors.get(COUNTED_ROWS, [declared])[0])
    if planned.units is not None or abs(counted - declared) <= ROWS_OFF * declared:
        return  # each patient keeps only some rows, and the fit counts them in any case
    text = f"By noisy counts the table has about {counted:.0f} rows, but its public row count is {declared}"
    planned.options.notice(
        f"{text}. The model follows the counts. But the fit divided its budget for the public number, which is also "
        "the default number of sampled rows. Set `rows` to a closer number in the next fit."
    )
    planned.ledger.note(f"{text}.")


def plan_on(planned: PlannedFit, rows: int) -> Plan:
    """Return the plan of a fit on this number of rows."""
    return planned.plan.used_on(rows, _rows_std(planned))


def train(
    planned: PlannedFit, plan: Plan, vault: Measurements, core: Schema, seed: int | None,
    public_rows: PublicRows | None = None,
) -> Arrays:  # fmt: skip
    """Train the method's generator of the columns of a core, by a plan. Return its tensors."""
    method = planned.method
    progress = _told(planned, plan, planned.method.device)
    public = {} if public_rows is None else {"public": public_rows.codes(core)}
    with one_thread():
        return method.module.fit(method.config, core, vault, plan, seed, method.device, progress, **public)


def _told(planned: PlannedFit, plan: Plan, device: str) -> Progress:
    """Return a callback that reports the progress of training, with the number of measurements so far."""

    def progress(done: int, total: int) -> None:
        if callable(show := planned.options.progress):
            show(plan, device, done, total, planned.ledger.times_measured(plan.most_frequent))

    return progress


def expected_similarity(
    planned: PlannedFit, rows: int, schema: Schema, tensors: Arrays, without_level: Mapping[str, float],
    seed: int | None, public: PublicRows | None = None, settled: Collection[str] = (),
) -> Arrays:  # fmt: skip
    """Return what the noise leaves of each column, as a tensor: by rows of the model itself, without a private one.

    `public`: the rows that settled the columns `settled`.
    """
    simulated = expectation.counts_columns(planned.plan) and len(schema.core.names) <= expectation.MOST_SIMULATED
    if planned.options.no_dp or not (simulated and planned.ledger.complete):
        return {}
    plan = plan_on(planned, rows)
    method = planned.method
    count = min(rows, expectation.MOST_ROWS)
    codes = method.module.generate(tensors, method.config, schema.core, rows, count, stream_seed(seed, "quality"))
    _note_unread(planned, schema.core, codes, without_level)
    if public is not None and settled:
        note_lacking(public, schema.core, codes, settled, planned.options.notice, planned.ledger)
    found = expectation.of_model(plan, schema.core, codes)
    lost = [without_level.get(name, 0.0) for name in schema.core.names]
    return {QUALITY: np.clip(found - lost, 0.0, 1.0).astype(np.float32)}


def _note_unread(planned: PlannedFit, core: Schema, codes: Codes, learned: Collection[str]) -> None:
    """Say which declared columns are empty in nearly all rows of the model, since cells may have an undeclared form."""
    empty = {name: float((codes[:, k] >= core.columns[name].size).mean()) for k, name in enumerate(core.names)}
    found = [name for name, share in empty.items() if share > MOSTLY_EMPTY and name not in learned]
    if found := [name for name in found if core.columns[name].reads_as_missing]:
        text = (
            f"Nearly all rows of the model have no value in {some(found)}. If the table has more values there, they "
            "are not written as declared, and were read as missing. Check the table with its schema."
        )
        planned.options.notice(text)
        planned.ledger.note(text)


def train_in_order(
    private: PrivateTable, planned: PlannedFit, out: WayOut, schema: Schema, codes: Coded | None,
    rows: int, sizes: Arrays,
) -> Arrays:  # fmt: skip
    """Train the method's generator on first rows, one per patient, and the model of later rows. Return their tensors.

    `rows`: the number of all rows; `sizes`: the shares of patients with one, two, ... rows.
    """
    codes = final_codes(private, planned, schema.core, codes)
    assert isinstance(codes, np.ndarray) and planned.units is not None
    split = split_rows(codes[planned.stay], planned.units, schema)
    mean = rows_of_a_patient(sizes)
    patients = max(2, round(rows / mean))
    single = float(sizes[ROWS_PER_PATIENT][0])
    of_first = with_rows_column(schema)
    core = of_first.core
    firsts = vault_of(split.first, core.names, None, out.releases, split.patients)
    plan = plan_of_first_rows(planned.plan, patients)
    found = train(planned, plan, firsts, core, out.seed)
    planned.options.phase("later rows")
    method = planned.method
    count = simulated_patients(mean - 1)

    def sampler(rows: int, seed: int | None) -> Codes:
        return np.asarray(method.module.generate(found, method.config, core, patients, rows, seed))

    seed = stream_seed(out.seed, "first rows")
    try:
        whole = rejection_sample(sampler, of_first, count, seed, partial(broken_firsts, schema=of_first))
    except UsageError:  # the budget is spent: the fit ends, and a sample says that the model's rows break the rules
        whole = complete(sampler(count, seed), of_first)
    simulated = whole[:, [of_first.names.index(name) for name in core.names]]
    of_rows = patients * single, patients * (1 - single)
    return {**found, **train_later(planned, out, schema, split, of_rows, simulated)}


def simulated_patients(later: float) -> int:
    """Return the number of simulated patients to fit later rows, if a patient has `later` such rows on average."""
    from ..patients.training import SIMULATED

    return int(np.clip(SIMULATED / max(later, 0.05), 2_000, 100_000))


def train_later(
    planned: PlannedFit, out: WayOut, schema: Schema, split: SplitRows, patients: tuple[float, float],
    simulated: NDArray[np.int32], table: str = "",
) -> Arrays:  # fmt: skip
    """Train the model of the rows that follow first ones.

    `patients`: the numbers of patients with one row and with several, by noisy counts. `simulated`: first rows,
    (patients, core of `with_rows_column`). `table`: the name of one of several tables.
    """
    from ..patients.training import ChainTraining

    fewest = np.where(np.arange(len(simulated)) < FEWEST_SIMULATED, 2, 1)
    counts = np.maximum(simulated[:, -1] + 1, fewest).astype(np.int64)
    later = ChainTraining(
        schema=schema,
        vault=vault_of(split.later, later_columns(schema), None, out.releases, split.patients_of_later),
        last=vault_of(split.last, later_columns(schema), None, out.releases, split.patients_of_last),
        plan=planned.plan, patients=max(2.0, patients[1]), single=patients[0], first=simulated[:, :-1],
        counts=counts, rng=numpy_stream(out.seed, f"later rows{table}"),
        progress=_told(planned, planned.plan, "cpu"), table=table,
    )  # fmt: skip
    with one_thread():
        return stored.tensors(later.run())


def train_tables(private: PrivateTables, codes: CodedTables, planned: PlannedFit, out: WayOut) -> Arrays:
    """Train the method's generator on patients, and the models of the rows that follow in each table."""
    method, core, patients = planned.method, codes.schema.core, planned.plan.rows
    units = PrivacyUnits(np.arange(len(codes.patients)), 1)
    vault = vault_of(codes.patients, core.names, None, out.releases, units)
    plan = replace(plan_of_first_rows(planned.plan, patients), planned_rows=None)
    found = train(planned, plan, vault, core, out.seed)
    seed = stream_seed(out.seed, "first rows")
    core_codes = method.module.generate(found, method.config, core, patients, SIMULATED_PATIENTS, seed)
    first_rows = FirstRows(private.tables)
    simulated = widened(core_codes, codes.schema)
    for k, name in enumerate(private.tables.others):
        if name not in codes.rows:
            continue
        planned.options.phase(f"later rows of {name}")
        first = _first_rows(simulated, first_rows, name)
        share = patients / len(simulated)
        of_rows = share * float((first[:, -1] == 0).sum()), share * float((first[:, -1] > 0).sum())
        enough = simulated_patients(float(first[:, -1].mean()) if len(first) else 0.0)
        chain = train_later(
            planned, out, chain_view(private.tables, name), codes.rows[name], of_rows, first[:enough], name
        )
        found |= stored.of_table(k, chain)
        _note_placed(planned, private.tables, name, stored.restored(chain, chain_view(private.tables, name)), first)
    return found | _train_together(private.tables, codes, planned, out, simulated)


def _train_together(
    tables: LinkedTables, codes: CodedTables, planned: PlannedFit, out: WayOut, simulated: Codes
) -> Arrays:
    """Train the model of which codes a patient has, over all tables. Return its tensors."""
    from ..patients.codes_training import train_together

    if CODES not in planned.plan.events:
        return {}
    planned.options.phase("codes that go together")
    names = (*codes.schema.core.names, *names_of_codes(tables))
    units = PrivacyUnits(np.arange(len(codes.patients)), 1)
    vault = vault_of(np.column_stack([codes.patients, codes.together]), names, None, out.releases, units)
    plan = plan_of_first_rows(planned.plan, planned.plan.rows)
    with one_thread():
        return train_together(vault, plan, tables, codes.schema, simulated).tensors(codes.schema)


def _note_placed(planned: PlannedFit, tables: LinkedTables, name: str, chain: Chain, first: Codes) -> None:
    """State how many rows of a table come at or after a row of the table that places them, in rows of the model."""
    other = placed_by(tables, name)
    if other is None or not len(first):
        return
    first = first[:FEWEST_SIMULATED]
    place = chain.schema.core.names.index(number_name(other))
    later = later_rows(chain, first[:, :-1], first[:, -1].astype(np.int64) + 1, numpy_stream(0, f"placed {name}"))
    number = np.concatenate([first[:, place], *(rows[:, place] for _, rows in later)])
    share = float((number > 0).mean())
    cure = "" if share >= MOSTLY_PLACED else " Most rows are placed by chance: leave `latest` out of this table."
    text = f"In the model {share:.0%} of the rows of {name!r} come at or after a row of {other!r} (`latest`).{cure}"
    planned.options.notice(text)
    planned.ledger.note(text)


def _first_rows(patients: Codes, first: FirstRows, name: str) -> Codes:
    """Return first rows of simulated patients in a table, (patients, columns of its view and later rows)."""
    own = patients[first.count(patients, name) > 0]
    columns = chain_view(first.tables, name).core.columns.values()
    most = np.array([column.size + column.gaps - 1 for column in columns])  # the model may leave such a cell empty
    return np.column_stack([np.minimum(first.core(own, name), most), first.count(own, name) - 1]).astype(np.int32)


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that decide a fit."""
    return {"python": platform.python_version(), **{name: importlib.metadata.version(name) for name in PACKAGES}}


def seal(
    planned: PlannedFit, rows: int, schema: Schema, tensors: Arrays, tables: LinkedTables | None = None,
    form: FileForm | None = None,
) -> Model:  # fmt: skip
    """Return the artifact. Raise MedsynthError unless the ledger is exactly the plan."""
    if not planned.ledger.complete:
        raise MedsynthError("The ledger differs from the plan. Nothing was released. Please report this error.")
    options, plan, method = planned.options, planned.plan, planned.method
    return Model(
        name=schema.name,
        method=method.name,
        preset=options.preset,
        config=method.settings,
        schema=schema,
        ledger=planned.ledger,
        epsilon=None if options.no_dp else plan.epsilon,
        epsilon_asked=options.epsilon,
        rows=rows,
        rows_declared=options.rows is not None,
        rows_read=plan.rows,
        device=method.device,
        versions=versions(),
        tensors=tensors,
        tables=tables,
        form=form or FileForm(),
    )
