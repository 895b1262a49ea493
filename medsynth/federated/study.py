"""A study: what sites agree to before they answer. Its digest is on every message, and its plan is each site's own.

Nothing in it depends on a row. Every site derives the plan (labels, noise multipliers, rates, how often) from its own
copy of the study: no message can change a noise.
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

from ..errors import SchemaError, UsageError, validators_words
from ..fitting.private_table import ROWS_PER_PATIENT_LABEL, ROWS_PER_PATIENT_SHARE
from ..fitting.settings import MOST_ROWS, FitSettings, method_settings
from ..methods import registry
from ..privacy.accounting.accountant import rounded_up
from ..privacy.accounting.calibration import Plan, Query, default_delta, equivalent_rows, make_plan
from ..privacy.noise import FINEST_BITS, GRID_BITS, shares_distance
from ..schema import Schema
from ..schema.columns.categorical import without_levels
from ..schema.declared import parse_yaml

FORMAT = 3  # of studies and messages
METHODS = ("mixture", "independent", "dp-cgan", "gs-wgan", "dp-gan")
ALL_CRITICS = "all-critics"  # the preset of gs-wgan that keeps nothing secret from a server
Trust = Literal["none", "server", "secure-sum"]
TRUSTS: dict[Trust, str] = {
    "none": "each site adds all of the noise to its own answers, which everybody sees",
    "server": "sites send exact sums, and the server adds the noise once: whoever holds the server sees exact sums",
    "secure-sum": "sites send masked sums with a share of the noise each: the server sees the noised sum over all "
    "sites alone",
}
# What the claim is towards whoever holds the server, by trust.
TOWARDS: dict[Trust, str] = {
    "none": "Towards whoever holds the server, and the other sites, it is the same: a site's answers have all of their "
    "noise when they leave it",
    "secure-sum": "Towards whoever holds the server, and the other sites, it is the same, under that condition",
    "server": "Nothing is claimed towards whoever holds the server, and the claim needs one that runs this program "
    "unchanged",
}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
KEY = re.compile(r"[0-9a-f]{64}")
MOST_BYTES = 1 << 24  # of a study's file
MOST_SITES = 1000
SUMS_DELTA = 1e-3  # share of delta that is kept for what sums of noise shares differ from a normal variable
MOST_NUMBERS = 1 << 27  # of one answer


class Study(BaseModel):
    """A federated fit, as its sites agree to it. `table_schema` is the file's `schema`.

    `sites`: their names, with public keys where `trust` is secure-sum. `minimum`: how many must answer each
    measurement; all if not given. `honest`: of a secure sum, how many of those that answer are relied on to add their
    share of noise and to tell nobody; one fewer than `minimum` if not given. `rows`: of all sites together, public.
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
        """What follows from other keys where it is not given."""
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
        if schema.target is None:
            raise ValueError("the schema names no target. All sites must mean the same one: declare it")
        if schema.order is not None:
            raise ValueError("sites do not follow patients over time yet: leave `order` out of the schema")
        if hidden := list(without_levels(schema.core.columns)):
            raise ValueError(
                f"column {hidden[0]!r} has a hierarchy without levels, which sites would have to choose: declare them"
            )
        return schema

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not all(NAME.fullmatch(name) for name in self.sites):
            raise ValueError("the names of sites are letters, digits, - and _")
        if not 1 <= self.minimum <= len(self.sites) <= MOST_SITES:
            raise ValueError(f"the minimum lies between 1 and the number of sites, and these are {MOST_SITES} at most")
        if self.trust == "secure-sum":
            if len(self.sites) < 2 or not all(KEY.fullmatch(key) for key in self.sites.values()):
                raise ValueError("a secure sum takes two sites or more, each with its public key")
            if len(set(self.sites.values())) < len(self.sites):
                raise ValueError("two sites have the same public key")
            if self.honest > self.minimum:
                raise ValueError("more sites are relied on as honest than the minimum that answer")
        if self.method not in METHODS:
            raise ValueError(f"a federated fit takes one of these methods: {', '.join(METHODS)}")
        if self.method == "gs-wgan" and self.preset != ALL_CRITICS:
            raise ValueError(
                "over sites gs-wgan takes preset: all-critics. In its other forms one critic is sampled in secret, and "
                "a server sees which; or one follows another, with too much noise"
            )
        if self.method == "gs-wgan" and self.minimum < len(self.sites):
            raise ValueError("critics train at every step, so that gs-wgan needs all sites: leave minimum out")
        return self

    @property
    def noises(self) -> float:
        """How many times the planned variance a sum over all sites has."""
        each = {"none": 1.0, "server": 1 / len(self.sites), "secure-sum": 1 / self.honest}
        return len(self.sites) * each[self.trust]

    @property
    def digest(self) -> str:
        """SHA-256 of all that the study says, the schema's content and the version of medsynth included."""
        content = {
            "format": FORMAT,
            "medsynth": importlib.metadata.version("medsynth"),
            **self.model_dump(mode="json", exclude={"table_schema"}),
            "schema": json.dumps(self.table_schema.to_dict()),  # its columns keep their order
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @property
    def all_settings(self) -> dict[str, Any]:
        """The settings with those that sites add: as many shards at each of them, by the rule on all rows together."""
        if self.method != "gs-wgan":
            return self.settings
        count = self._configured(self.settings).shard_count(equivalent_rows(self.rows, self.table_schema.max_rows))
        return {**self.settings, "shards": max(1, count // len(self.sites)) * len(self.sites)}

    @property
    def fit_settings(self) -> FitSettings:
        """The study as settings of a fit."""
        return self._fit_settings(self.all_settings)

    def _fit_settings(self, settings: dict[str, Any]) -> FitSettings:
        return FitSettings(
            epsilon=self.epsilon, delta=self.delta, schema=self.table_schema, method=self.method, preset=self.preset,
            settings=settings, rows=self.rows, device="cpu",
        )  # fmt: skip

    def config(self) -> Any:
        """The method's configuration. Raises UsageError for settings that it does not have."""
        return self._configured(self.all_settings)

    def _configured(self, settings: dict[str, Any]) -> Any:
        module = registry.load(registry.settle(self.method, self.preset), self.preset)
        return registry.configured(self.method, module, method_settings(self._fit_settings(settings), public=False))

    def plan(self) -> Plan:
        """Return every measurement with its noise. Raises UsageError or BudgetError if sites cannot answer them."""
        module, config = registry.load(self.method, self.preset), self.config()
        core, most = self.table_schema.core, self.table_schema.max_rows
        rows = equivalent_rows(self.rows, most, self.noises)
        queries = [Query(label=ROWS_PER_PATIENT_LABEL, weight=ROWS_PER_PATIENT_SHARE**-0.5)] if most else []
        queries += module.queries(config, rows, len(core.columns), self.epsilon)
        if self.trust != "server" and getattr(config, "microbatches", None) is not None:
            raise UsageError(
                "Means of microbatches are no sums over sites. Leave microbatches out, or trust the server."
            )
        shared = self.trust == "secure-sum"
        delta = self.delta * (1 - SUMS_DELTA) if shared else self.delta
        made = make_plan(queries, epsilon=self.epsilon, delta=delta, rows=self.rows, max_rows=most)
        made = replace(made, delta=self.delta, noises=self.noises)
        if shared:
            _check_law(made, self.honest)
        return made

    def facts(self, plan: Plan) -> list[str]:
        """What the ledger says of the study, a sentence or two each; `plan` is the study's own."""
        names, least = ", ".join(self.sites), self.minimum
        condition = f" The claim holds if {self.honest} of the sites that answer keep their shares of the noise."
        found = [
            f"Federated study {self.name!r}, digest {self.digest}: sites {names}; at least {least} answer each "
            "measurement.",
            f"Trust: {self.trust}: {TRUSTS[self.trust]}.{condition if self.trust == 'secure-sum' else ''}",
            "A person with records at several sites is protected at each of them; their epsilons add up.",
            f"Towards whoever gets the model, the other sites included, epsilon is {rounded_up(plan.epsilon)}. "
            f"{TOWARDS[self.trust]}. Nothing is amplified by a sampling that server or sites see.",
        ]
        if self.trust != "server":
            found.append(
                "Each site derives every query itself, from the study and the releases so far. A server that breaks "
                "the rules chooses numbers, and gets answers to queries of the study's method alone."
            )
        if self.method == "gs-wgan":
            found.append(
                f"Critics stay at the sites, of {self.config().shards // len(self.sites)} shards at each. All answer "
                "every step; their gradients are clipped there."
            )
        return found


def _check_law(plan: Plan, honest: int) -> None:
    """Raises UsageError where noise shares add up to what differs from the planned law by more than is kept for it."""
    least = min(event.multiplier for event, _ in plan.events.values()) / math.sqrt(honest)
    scale = min(2.0 ** (GRID_BITS - 1), least * 2.0**FINEST_BITS)
    numbers = MOST_NUMBERS * sum(times for _, times in plan.events.values())
    distance = numbers * shares_distance(scale, honest)
    if scale < 1024 or (1 + math.exp(plan.epsilon)) * distance > SUMS_DELTA * plan.delta:
        raise UsageError("At this epsilon the noise is too small to be shared in a secure sum. Ask for less epsilon.")


def read_study(path: Path) -> Study:
    """The study in a YAML file; `schema` there is a mapping, or the name of a file next to it.

    Raises UsageError or SchemaError, naming what is wrong.
    """
    try:
        text = path.read_bytes()[: MOST_BYTES + 1].decode()
    except (OSError, ValueError):
        raise UsageError(f"{path} cannot be read as a study's text.") from None
    content = parse_yaml(text, str(path)) if len(text) <= MOST_BYTES else None
    if not isinstance(content, dict):
        raise UsageError(f"{path} is no study: a mapping with name, schema, epsilon, rows and sites.")
    if isinstance(content.get("schema"), str):
        content["schema"] = Schema.load(path.parent / content["schema"]).to_dict()
    return study_of(content, str(path))


def study_of(content: dict[str, Any], where: str = "the study") -> Study:
    """The study that a mapping declares. Raises UsageError or SchemaError where it declares none."""
    schema = content.get("schema")
    if schema is not None and not isinstance(schema, Schema):
        content = {**content, "schema": Schema.from_dict(schema, f"{where}, schema")}
    try:
        study = Study.model_validate(content)
    except ValidationError as error:
        first: Any = error.errors(include_input=False, include_url=False)[0]
        place = ", ".join(map(str, first["loc"]))
        message = validators_words(first["msg"])
        kind = SchemaError if place == "schema" else UsageError
        raise kind(f"{where}{f', {place}' if place else ''}: {message}.") from None
    registry.check_claim(registry.settle(study.method, study.preset))
    study.config()
    return study
