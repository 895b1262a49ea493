"""Records, the review file's entries, and verdicts. `decide` contains the lines that decide a verdict."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, field_validator

from ...errors import UsageError
from ...schema.declared import parse_yaml

Role = Literal["direct identifier", "quasi identifier", "sensitive", "target", "other"]
Outcome = Literal["within", "beyond", "cannot tell", "no guarantee", "not judged", "not measured"]


class Record(BaseModel):
    """A record of the report. It refuses unknown fields and cannot change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Estimate(Record):
    """An estimate and its 95 % interval, if it has one. The value is None if it cannot be computed."""

    value: float | None
    low: float | None = None
    high: float | None = None

    @field_validator("value", "low", "high", mode="before")
    @classmethod
    def _number(cls, value: float | None) -> float | None:
        """Return None for a number that is not finite, since JSON has no NaN."""
        return None if value is None or not math.isfinite(value) else float(value)

    def __str__(self) -> str:
        """Return the value with three decimals."""
        return "not known" if self.value is None else f"{self.value:.3f}"


def of_both(figure: str, sides: Sequence[Any]) -> dict[str, Any]:
    """Return {FIGURE_real: ..., FIGURE_synthetic: ...} from a figure of real and of synthetic rows."""
    return {f"{figure}_real": sides[0], f"{figure}_synthetic": sides[1]}


MOST_TIMES = 20  # Held-out rows beyond this multiple of those there are too many to ask for.


class Threshold(Record):
    """A limit that an estimate must not exceed, and where the limit comes from."""

    limit: float
    source: str


class Thresholds(RootModel[dict[str, Threshold]]):
    """The thresholds that replace those of the questions, by key. A file can set each one, together with its source."""

    model_config = ConfigDict(frozen=True)
    root: dict[str, Threshold] = {}


def _said(what: str) -> Any:
    """Return a field that people may fill in, described for the draft of a review file."""
    return Field(default=None, description=what)


class ReviewedRegression(Record):
    """The regression that matters to the recipient."""

    outcome: str | None = None
    predictors: list[str] | None = None


class FiveSafes(Record):
    """The Five Safes, one answer each."""

    projects: str | None = _said("is this use appropriate?")
    people: str | None = _said("can the recipients be trusted to use the rows rightly?")
    settings: str | None = _said("where will they work, and what limits access?")
    data: str | None = _said("what remains of the disclosure risk? This report answers most of it")
    outputs: str | None = _said("who checks results before they are published?")


class CatalogueFacts(Record):
    """What a catalogue of health data must state and only people know."""

    identifier: str | None = _said("the table's number in the catalogue")
    access_url: str | None = _said("where the table is requested")
    legislation: list[str] = Field(default=[], description="addresses from the catalogue's list")
    health_category: list[str] = Field(default=[], description="addresses from the catalogue's list")
    access_body: str | None = _said("the body that grants access")
    access_body_contact: str | None = _said("its e-mail address or page")
    publisher: str | None = _said("who publishes the table")
    geography: list[str] = Field(default=[], description="countries such as DEU, or addresses of regions")
    coding_systems: list[str] = Field(default=[], description="addresses of the code lists that columns use")
    custodian: str | None = _said("who holds the source table")
    custodian_contact: str | None = _said("its e-mail address or page")


Use = Literal[
    "testing software", "teaching and training people", "exploring which columns go together",
    "training models that predict the target", "studying how patients change over time",
    "studying the time to an event", "studying how patients end", "estimating effects",
]  # fmt: skip


class Purpose(Record):
    """What is done with the rows, and who answers for it. The page prints a blank line for a missing entry."""

    purpose: str | None = _said("what the recipient wants to do with the rows")
    uses: list[Use] = Field(default=[], description=f"which of: {', '.join(get_args(Use))}")
    recipient: str | None = _said("who gets them")
    recipient_controls: str | None = _said("how the recipient protects them, and what they have signed")
    access: str | None = _said("open, on request, in a safe room")
    licence: str | None = _said("licence or agreement")
    harms: str | None = _said("harms considered, to patients and to groups")
    five_safes: FiveSafes | None = None
    review_date: str | None = _said("when this is reviewed again")
    expiry: str | None = _said("when the rows must be deleted")
    incident_contact: str | None = _said("whom to tell if something goes wrong")
    steward: str | None = _said("who signs")
    privacy_officer: str | None = _said("who signs")
    expert: str | None = _said("who signs")
    expert_date: str | None = _said("when the expert decided, for HIPAA")
    expert_reasoning: str | None = _said("why the expert finds the risk very small, for HIPAA")

    @field_validator("uses", mode="before")
    @classmethod
    def _list(cls, value: object) -> object:
        """Return the one use of a file that has no list, and none for an empty entry."""
        return [] if value is None else [value] if isinstance(value, str) else value


class Review(Purpose):
    """What only people know, as the review file has it. `thresholds` are your house's own."""

    table: str | None = _said("name of the source table")
    period: str | None = _said("when its patients were seen, such as 2019 to 2023-06-30")
    inclusion: str | None = _said("which patients it includes")
    contact: str | None = _said("whom to ask about the table")
    fits_on_this_table: int | None = _said("number of all fits, if the budget file does not know them")
    choices_looked_at_real_rows: bool | None = _said("true if a setting was chosen by looking at real rows")
    roles: dict[str, Role] = Field(
        default={},
        description="{age: quasi identifier}: direct identifier, quasi identifier, sensitive, target or other",
    )
    regression: ReviewedRegression | None = _said("{outcome: class, predictors: [age, tsh]}")
    catalogue: CatalogueFacts = CatalogueFacts()
    thresholds: Thresholds | None = Field(
        default=None, description='{epsilon: {limit: 4, source: "our data board, 2026"}}'
    )


def draft_review() -> str:
    """Return a review file to fill in: each entry is empty, with a comment that says what it is."""

    def lines(kind: type[Record], before: str = "") -> Iterator[str]:
        for name, field in kind.model_fields.items():
            kinds = (field.annotation, *get_args(field.annotation))
            if nested := [own for own in (FiveSafes, CatalogueFacts) if own in kinds]:
                yield from (f"{name}:", *lines(nested[0], "  "))
            else:
                value = field.default if isinstance(field.default, dict | list) else ""
                yield f"{before}{name}: {value}".rstrip() + f"  # {field.description}"

    head = "# What only people know. The page leaves room for what stays empty."
    return "\n".join([head, *lines(Review)]) + "\n"


Kind = TypeVar("Kind", bound=BaseModel)


def load(path: Path | None, kind: type[Kind]) -> Kind:
    """Read a Review or Thresholds from a YAML file, or return the default without a file. Raises UsageError."""
    if path is None:
        return kind()
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"{path} cannot be read as a text file. Check its name and encoding.") from None
    try:
        return kind.model_validate(parse_yaml(text, str(path)) or {})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the file"
        unknown = first["type"] == "extra_forbidden" and not issubclass(kind, RootModel)
        known = f" The keys are: {', '.join(kind.model_fields)}." if unknown else ""
        raise UsageError(f"{path}: {place}: {first['msg']}.{known}") from None


class Verdict(Record):
    """A question, the estimate that answers it, and the threshold of that estimate.

    `key` is the threshold's name. `outcome` is the result, and `met` is the same as yes or no, or None without a
    decision. `plain`: what the figure means, for page one. `advice`: what to do about an outcome other than "within".
    `more_rows`: about how many more held-out rows would settle an open one. `allowed`: what the claim lets the figure
    reach at most, if it limits it. `decimals` are those shown.
    """

    key: str
    question: str
    measure: str
    estimate: Estimate
    limit: float
    source: str
    outcome: Outcome
    met: bool | None
    detail: str
    plain: str = ""
    advice: str = ""
    more_rows: int | None = None
    allowed: float | None = None
    decimals: int = 3


# Words for outcomes that `failing` accepts in addition to the keys of verdicts.
FAILURES: dict[str, tuple[Outcome, ...]] = {
    "beyond": ("beyond", "no guarantee"),
    "undecided": ("cannot tell", "not judged", "not measured"),
    "any": ("beyond", "no guarantee", "cannot tell", "not judged", "not measured"),
}


def check_failures(wanted: Sequence[str], keys: Collection[str]) -> None:
    """Raise UsageError for a word that is neither in FAILURES nor the key of a verdict."""
    if unknown := [word for word in wanted if word not in FAILURES and word not in keys]:
        raise UsageError(f"`fail_on` does not accept {', '.join(unknown)}. Use {', '.join([*FAILURES, *keys])}.")


def check_thresholds(given: Thresholds, keys: Collection[str]) -> None:
    """Raise UsageError for a threshold without a question."""
    if unknown := [key for key in given.root if key not in keys]:
        raise UsageError(f"A threshold is for {unknown[0]!r}, but no question has this key. Use {', '.join(keys)}.")


def failing(verdicts: Sequence[Verdict], wanted: Sequence[str]) -> list[Verdict]:
    """Return the verdicts with an outcome in `wanted`, or with a key in it and an outcome other than `within`."""
    outcomes = {outcome for word in wanted for outcome in FAILURES.get(word, ())}
    return [v for v in verdicts if v.outcome in outcomes or (v.key in wanted and v.outcome != "within")]


def compared(estimate: Estimate, limit: float) -> Outcome:
    """Return where the interval lies: within the limit, wholly beyond it, or around it. A value is its own interval."""
    if estimate.value is None:
        return "not measured"
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return "within" if high <= limit else "beyond" if low > limit else "cannot tell"


def rows_to_settle(estimate: Estimate, limit: float, held_out: int) -> int | None:
    """Return about how many more held-out rows would settle a verdict, or None if no affordable number would.

    An interval shrinks with the root of the number of rows. If the value stays, its end reaches the limit with
    `held_out` times (reach / distance to the limit) squared rows. The number is rounded up to two digits.
    """
    if estimate.value is None or estimate.low is None or estimate.high is None:
        return None
    inside = estimate.value <= limit
    reach = estimate.high - estimate.value if inside else estimate.value - estimate.low
    distance = abs(limit - estimate.value)
    if reach > distance * math.sqrt(MOST_TIMES):
        return None
    more = max(held_out * ((reach / distance) ** 2 - 1), 1.0)
    step = int(10 ** max(math.floor(math.log10(more)) - 1, 0))
    return math.ceil(more / step) * step


def impossible_gain(loss: Estimate, threshold: Threshold) -> Outcome | None:
    """Return "not judged" for a gain larger than the limit: a model cannot teach more than the real rows do."""
    return "not judged" if -(loss.value or 0.0) > threshold.limit else None
