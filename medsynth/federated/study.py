"""Define a study: what sites agree to before they answer. Every message contains its digest.

Nothing in it depends on a row. Every site derives the plan (labels, noise multipliers, rates, counts) from its own copy
of the study, so no message can change the noise.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ..errors import STUDY_TRUST, Message, SchemaError, UsageError, validators_faults
from ..fitting.planning import check_inference
from ..fitting.private_table import rows_per_patient
from ..fitting.settings import MOST_ROWS, FitSettings, method_settings
from ..methods import registry
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan, equivalent_rows, make_plan
from ..privacy.accounting.limits import default_delta
from ..privacy.noise import FINEST_BITS, GRID_BITS, shares_distance
from ..schema import Schema
from ..schema.columns.categorical import without_levels
from ..schema.declared import parse_yaml

FORMAT = 3  # of studies and messages
METHODS = ("mixture", "independent", "dp-cgan", "gs-wgan", "dp-gan")
ALL_CRITICS = "all-critics"  # the preset of gs-wgan that keeps nothing secret from a server
Trust = Literal["none", "server", "secure-sum"]
TRUSTS: dict[Trust, str] = {
    "none": "each site adds all of the noise to its own answers, which everybody may see",
    "server": "sites send exact sums, and the server adds the noise once, so whoever runs the server sees exact sums",
    "secure-sum": "sites send masked sums, each with a share of the noise, so the server sees only the noised sum over "
    "all sites",
}
# The claim against whoever runs the server, by trust.
TOWARDS: dict[Trust, str] = {
    "none": "Against whoever runs the server, and against the other sites, it is the same: each site adds all of the "
    "noise before an answer leaves it",
    "secure-sum": "Against whoever runs the server, and against the other sites, it is the same, under that condition",
    "server": "Nothing is claimed against whoever runs the server, and the claim requires that the server runs this "
    "program unchanged",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
KEY = re.compile(r"[0-9a-f]{64}")
MOST_BYTES = 1 << 24  # of a study's file
MOST_SITES = 1000
SUMS_DELTA = 1e-3  # share of delta for the difference between sums of noise shares and a normal variable
MOST_NUMBERS = 1 << 27  # of one answer


class Study(BaseModel):
    """A federated fit, as its sites agree to it. `table_schema` is the file's `schema`.

    `sites`: their names, with public keys if `trust` is secure-sum. `minimum`: how many sites must answer each
    measurement; all by default. `honest`: for a secure sum, the number of answering sites that must add their share of
    noise and keep it secret; `minimum` minus one by default. `rows`: the public row count of all sites together.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field(pattern=f"^{NAME.pattern}$")
    table_schema: Schema = Field(alias="schema")
    method: str = registry.DEFAULT
    preset: str | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    epsilon: float = Field(gt=0, allow_inf_nan=False)
    delta: float = Field(gt=0, lt=1)
    rows: int = Field(ge=2, le=MOST_ROWS)
    trust: Trust = "none"
    sites: dict[str, str]
    minimum: int = Field(ge=1)
    honest: int = Field(ge=1)

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, content: Any) -> Any:
        """Fill in keys that are not given from other keys."""
        if not isinstance(content, dict) or not isinstance(content.get("sites"), list | dict):
            return content
        sites = content["sites"]
        sites = sites if isinstance(sites, dict) else {str(name): "" for name in sites}
        found = {"minimum": len(sites), **content, "sites": sites}
        if isinstance(found["minimum"], int):
            found = {"honest": max(1, found["minimum"] - 1), **found}
        rows = found.get("rows")
        return {"delta": default_delta(rows if isinstance(rows, int) else None), **found}

    @field_validator("table_schema", mode="after")
    @classmethod
    def _declared(cls, schema: Schema) -> Schema:
        if schema.open or schema.other_columns == "learn":
            raise ValueError("sites cannot learn what a schema leaves open. Declare its columns in full")
        if schema.open_pairs:
            raise ValueError(f"sites cannot learn the pairs of rule {schema.open_pairs[0].text!r}. Declare `pairs`")
        if schema.target is None:
            raise ValueError("the schema names no target. Declare it, so that all sites use the same one")
        if schema.order is not None:
            raise ValueError("sites cannot follow patients over time yet. Leave `order` out of the schema")
        if hidden := list(without_levels(schema.core.columns)):
            raise ValueError(
                f"column {hidden[0]!r} has a hierarchy without levels. Sites cannot choose them: declare the levels"
            )
        return schema

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(NAME.fullmatch(name) for name in self.sites):
            raise ValueError("a site's name may contain only letters, digits, - and _")
        if not 1 <= self.minimum <= len(self.sites) <= MOST_SITES:
            raise ValueError(f"the minimum must lie between 1 and the number of sites, which is at most {MOST_SITES}")
        if self.trust == "secure-sum":
            if len(self.sites) < 2:
                raise ValueError("a secure sum needs at least two sites. Add a site, or choose another trust")
            if without := [name for name, key in self.sites.items() if not KEY.fullmatch(key)]:
                raise ValueError(
                    f"a secure sum needs each site's public key, and {without[0]!r} has none: 64 digits and letters a "
                    "to f. The site creates its key, and sends you the public one"
                )
            if len(set(self.sites.values())) < len(self.sites):
                raise ValueError("two sites have the same public key. Give each site its own")
            if self.honest > self.minimum:
                raise ValueError("honest must not be larger than minimum")
        if self.method not in METHODS:
            raise ValueError(f"a federated fit needs one of these methods: {', '.join(METHODS)}")
        if self.method == "gs-wgan" and self.preset != ALL_CRITICS:
            raise ValueError(
                "over sites gs-wgan needs preset: all-critics. Its other forms use one critic at a time: the server "
                "would see which one was sampled, or a public order would need too much noise"
            )
        if self.method == "gs-wgan" and self.minimum < len(self.sites):
            raise ValueError("gs-wgan needs all sites, because critics train at every step. Leave minimum out")
        return self

    @property
    def noises(self) -> float:
        """The variance of a sum over all sites, relative to the planned variance."""
        each = {"none": 1.0, "server": 1 / len(self.sites), "secure-sum": 1 / self.honest}
        return len(self.sites) * each[self.trust]

    @property
    def digest(self) -> str:
        """SHA-256 of the study, including the schema's content and the version of medsynth."""
        content = {
            "format": FORMAT,
            "medsynth": importlib.metadata.version("medsynth"),
            **self.model_dump(mode="json", exclude={"table_schema"}),
            "schema": json.dumps(self.table_schema.to_dict()),  # its columns keep their order
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings, plus those for sites: equally many shards at each, by the rule on all rows together."""
        if self.method != "gs-wgan":
            return self.settings
        count = self._configured(self.settings).shard_count(equivalent_rows(self.rows, self.table_schema.max_rows))
        return {**self.settings, "shards": max(1, count // len(self.sites)) * len(self.sites)}

    def fit_settings(self, settings: dict[str, Any]) -> FitSettings:
        """Return the study as settings of a fit, with these `settings` of its method."""
        return FitSettings(
            epsilon=self.epsilon, delta=self.delta, schema=self.table_schema, method=self.method, preset=self.preset,
            settings=settings, rows=self.rows, device="cpu", anyway=True,
        )  # fmt: skip

    def config(self) -> Any:
        """Return the method's configuration. Raise UsageError for settings that it does not have."""
        return self._configured(self.all_settings)

    def _configured(self, settings: dict[str, Any]) -> Any:
        module = registry.load(registry.settle(self.method, self.preset), self.preset)
        return registry.configured(self.method, module, method_settings(self.fit_settings(settings), public=False))

    def plan(self) -> Plan:
        """Return every measurement with its noise. Raise UsageError or BudgetError if sites cannot answer them."""
        module = registry.load(self.method, self.preset)
        config = self.config()
        core, most = self.table_schema.core, self.table_schema.max_rows
        check_inference(config, most)
        rows = equivalent_rows(self.rows, most, self.noises)
        queries = [rows_per_patient()] if most else []
        queries += module.queries(config, rows, len(core.columns), self.epsilon)
        if self.trust != "server" and getattr(config, "microbatches", None) is not None:
            raise UsageError(
                "Means of microbatches are not sums over sites. Leave microbatches out, or set trust: server."
            )
        shared = self.trust == "secure-sum"
        delta = self.delta * (1 - SUMS_DELTA) if shared else self.delta
        made = make_plan(
            queries, epsilon=self.epsilon, delta=delta, rows=self.rows, max_rows=most,
            one_row_a_patient=self.table_schema.one_row_a_patient,
        )  # fmt: skip
        made = replace(made, delta=self.delta, noises=self.noises)
        if shared:
            _check_law(made, self.honest)
        return made

    def facts(self, plan: Plan) -> list[str]:
        """Return facts about the study for the ledger, one or two sentences each. `plan`: the study's own."""
        names = ", ".join(self.sites)
        least = self.minimum
        condition = f" The claim holds if {self.honest} of the sites that answer add their noise and keep it secret."
        trust = f"Trust: {self.trust}: {TRUSTS[self.trust]}.{condition if self.trust == 'secure-sum' else ''}"
        found = [
            f"Federated study {self.name!r}, digest {self.digest}: sites {names}; at least {least} answer each "
            "measurement.",
            Message(trust, None, kind=STUDY_TRUST, entry=self.trust),
            "A patient with records at several sites is protected at each of them; their epsilons add up.",
            f"Against whoever gets the model, including the other sites, epsilon is {rounded_up(plan.epsilon)}. "
            f"{TOWARDS[self.trust]}. No claim relies on sampling that the server or a site can see.",
        ]
        if self.trust != "server":
            found.append(
                "Each site derives every query itself, from the study and the releases so far. A dishonest server can "
                "only choose numbers, and gets answers only to queries of the study's method."
            )
        if self.method == "gs-wgan":
            found.append(
                f"Critics stay at the sites, on {self.config().shards // len(self.sites)} shards at each. All sites "
                "answer every step, and clip the gradients themselves."
            )
        return found


def _check_law(plan: Plan, honest: int) -> None:
    """Raise UsageError if sums of noise shares differ too much from the planned distribution."""
    least = min(event.multiplier for event, _ in plan.events.values()) / math.sqrt(honest)
    scale = min(2.0 ** (GRID_BITS - 1), least * 2.0**FINEST_BITS)
    numbers = MOST_NUMBERS * sum(times for _, times in plan.events.values())
    distance = numbers * shares_distance(scale, honest)
    if scale < 1024 or (1 + math.exp(plan.epsilon)) * distance > SUMS_DELTA * plan.delta:
        raise UsageError("At this epsilon the noise is too small for a secure sum. Set a smaller epsilon.")


def read_study(path: Path) -> Study:
    """Return the study in a YAML file. Its `schema` is a mapping, or the name of a file next to it.

    Raises UsageError or SchemaError that names the mistake.
    """
    try:
        text = path.read_bytes()[: MOST_BYTES + 1].decode()
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read as text. Name a study file.") from None
    content = parse_yaml(text, str(path)) if len(text) <= MOST_BYTES else None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is not a study. A study is a mapping with name, schema, epsilon, rows and sites.")
    if isinstance(content.get("schema"), str):
        content["schema"] = Schema.load(path.parent / content["schema"]).to_dict()
    return study_of(content, str(path))


def study_of(content: dict[str, Any], where: str = "the study") -> Study:
    """Return the study that a mapping declares. Raise UsageError or SchemaError if it is not valid."""
    schema = content.get("schema")
    if schema is not None and not isinstance(schema, Schema):
        content = {**content, "schema": Schema.from_dict(schema, f"{where}, schema")}
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        first = validators_faults(error)[0]
        place = ", ".join(map(str, first["loc"]))
        kind = SchemaError if place == "schema" else UsageError
        raise kind(f"{where}{f', {place}' if place else ''}: {first['msg']}.") from None
    registry.check_claim(registry.settle(study.method, study.preset))
    study.config()
    return study
