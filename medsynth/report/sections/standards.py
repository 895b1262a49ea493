"""Where a board finds each item of the documents that it works by, and what is still for people to write.

Items come from what was read of each document, in the form that `read` states. No clause is quoted.
"""

from __future__ import annotations

from ..data.context import Context
from ..data.verdict import Record
from .registry import Section


class Item(Record):
    """One item of a document. `sections`: ids of sections that answer it. `people`: what people add, if anything."""

    item: str
    sections: tuple[str, ...] = ()
    answer: str = ""
    people: str = ""


class Document(Record):
    """A document that boards work by. `read`: in what form its items were read here."""

    name: str
    read: str
    items: tuple[Item, ...]


class Crosswalk(Record):
    """All documents. The page names no section that it leaves out, such as attacks without held-out rows."""

    documents: tuple[Document, ...]


DOCUMENTS = (
    Document(
        name="NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees, 2025",
        read="a summary",
        items=(
            Item(item="Epsilon", sections=("claim",), people="Why this epsilon suits the purpose"),
            Item(item="Unit of privacy", sections=("claim",), people="Whether a patient can have several rows"),
            Item(item="Algorithm", sections=("ledger", "reproduce")),
            Item(item="Utility and bias", sections=("utility", "fidelity", "subgroups")),
            Item(item="Trust model", answer="The fit reads the rows on one machine, or each site reads its own rows.",
                 people="Who runs the fit, and on which machine"),
            Item(item="Side channels", answer="The claim does not cover how long a fit takes.",
                 people="That nobody watches the machine during the fit"),
            Item(item="Security and access control", people="Who can read the source table and the files of the fit"),
            Item(item="Exposure when data are collected", people="How the source table was collected"),
            Item(item="Hazard: the unit is too small", sections=("claim",),
                 answer="The claim names its unit, one row or one patient."),
            Item(item="Hazard: delta is too large", sections=("verdicts",),
                 answer="One verdict compares delta times the number of units with a limit."),
            Item(item="Hazard: uncounted access", sections=("ledger", "limits"),
                 answer="Each measurement is charged before it answers. A report that reads real rows is not counted."),
            Item(item="Hazard: tuning", sections=("tuning",), people="Which choices looked at real rows"),
            Item(item="Hazard: floating point", sections=("ledger",),
                 answer="Noise is drawn as whole numbers from the operating system's random source."),
            Item(item="Hazard: bounds that users contribute", sections=("variables",),
                 answer="Each column states whether its bounds were declared or learned with noise.",
                 people="That declared bounds and levels do not come from this table"),
            Item(item="Hazard: several releases", sections=("tuning",),
                 answer="The table's budget file counts all fits made where it is.",
                 people="Other releases about the same patients"),
        ),
    ),
    Document(
        name="ISO/IEC 27559, Privacy-enhancing data de-identification framework",
        read="the table of contents alone",
        items=(
            Item(item="6.2 Threat modelling: the recipient's practices, motives and capacity", sections=("purpose",),
                 people="The recipient's controls, motives and means"),
            Item(item="6.3 Transparency and harms", sections=("purpose", "limits"), people="Harms considered"),
            Item(item="7.2 Data principals, types, attributes, properties", sections=("source", "variables")),
            Item(item="7.3 Attack modelling", sections=("claim", "attacks"),
                 answer="The claim bounds the largest risk of any record. The attacks measure the average."),
            Item(item="8.2 Quantified identifiability, adversarial testing", sections=("attacks",)),
            Item(item="8.3 Mitigation and re-evaluation", sections=("purpose",), people="When to review again"),
            Item(item="9 Governance before and after", sections=("purpose",), people="Roles, incidents, expiry"),
        ),
    ),
    Document(
        name="Pilgram et al., consensus on privacy metrics, Patterns 2025",
        read="the abstract and the summary",
        items=(
            Item(item="Membership disclosure is reported", sections=("attacks",)),
            Item(item="Attribute disclosure is reported", sections=("attacks",)),
            Item(item="Similarity metrics are not privacy metrics", sections=("fidelity", "closest"),
                 answer="Distances are labelled as no measure of privacy. No verdict uses distances or copies."),
        ),
    ),
    Document(
        name="EMA Policy 0070, Health Canada: identity risk against 0.09",
        read="in other documents",
        items=(
            Item(item="Risk of identity disclosure", sections=("attacks",),
                 answer="No figure: no synthetic row belongs to a person, so none can be matched to its person. "
                        "The limit 0.09 is used for attacks on membership, by analogy."),
        ),
    ),
    Document(
        name="Article 29 Working Party, WP216, Anonymisation Techniques",
        read="its three criteria",
        items=(
            Item(item="Singling out", sections=("claim", "criteria")),
            Item(item="Linkability", sections=("claim", "criteria")),
            Item(item="Inference", sections=("attacks",),
                 answer="Attribute inference is compared with people who are not in the table. Knowledge about groups "
                        "remains."),
        ),
    ),
    Document(
        name="EDPB Opinion 28/2024",
        read="in other documents",
        items=(
            Item(item="Whether the model contains personal data", sections=("claim", "ledger"),
                 answer="The claim covers the model file as it covers the rows: the file has no row of the table.",
                 people="Whether the model file may leave"),
        ),
    ),
    Document(
        name="UK ICO, guidance on privacy-enhancing technologies and synthetic data",
        read="in other documents",
        items=(
            Item(item="Purposes", sections=("purpose",), people="Purpose and recipient"),
            Item(item="Utility", sections=("utility", "inference", "fidelity")),
            Item(item="Residual risk", sections=("claim", "attacks", "limits")),
            Item(item="Governance", people="Who decides, and who answers for it"),
        ),
    ),
    Document(
        name="European Health Data Space, label of data quality and utility",
        read="the items of the proposal",
        items=(
            Item(item="Documentation: metadata, data model, dictionary, provenance",
                 sections=("source", "variables", "reproduce"), people="Standards that the source table follows"),
            Item(item="Completeness, accuracy", sections=("fidelity",)),
            Item(item="Uniqueness", sections=("attacks",), answer="Exact copies are counted."),
            Item(item="Validity, consistency", sections=("plausibility",)),
            Item(item="Timeliness", sections=("source",), people="The period of the source table"),
            Item(item="Quality management, audit", people="Your quality management of the source"),
            Item(item="Bias, coverage, representativity", sections=("subgroups",), people="Whom the source covers"),
            Item(item="Average time a person appears", sections=("over_time",)),
            Item(item="Access and provision times, enrichments", people="All of it"),
        ),
    ),
    Document(
        name="Singapore PDPC, Proposed Guide on Synthetic Data Generation, 2024",
        read="the list of annexes",
        items=(
            Item(item="A Good practice", people="Your own handbook"),
            Item(item="B Data dictionary", sections=("variables",)),
            Item(item="C Methods", sections=("ledger", "reproduce")),
            Item(item="D Risks", sections=("claim", "attacks")),
            Item(item="E Evaluations", sections=("utility", "fidelity")),
        ),
    ),
    Document(
        name="Australia, Synthetic Health Data Governance Framework, draft 1.02",
        read="the pages that are online",
        items=(
            Item(item="Step 4: re-identification metrics", sections=("claim", "attacks"),
                 people="Whether the risk is very low"),
            Item(item="Step 4: utility report", sections=("utility", "fidelity")),
            Item(item="Step 4: review record", sections=("purpose", "tuning", "reproduce")),
            Item(item="Step 5: Five Safes, retention, re-approval", sections=("purpose",), people="All of it, dated"),
            Item(item="Appendix 11: outcome form", people="The form"),
        ),
    ),
    Document(
        name="Raab, McCall, Cavin: four checks of synthetic data, IJPDS 2972",
        read="the abstract",
        items=(
            Item(
                item="Labelling",
                answer="Files are named NAME.synthetic. Parquet and statistical files say that rows are synthetic.",
            ),
            Item(item="Disclosure", sections=("claim", "attacks")),
            Item(item="Structure", sections=("plausibility", "tables")),
            Item(item="Documentation of structural differences", sections=("structure", "variables")),
        ),
    ),
    Document(
        name="Survey of 28 researchers on metadata, IJPDS 3243",
        read="the abstract",
        items=(Item(item="Share missing, range and summary of each variable", sections=("variables", "synthetic")),),
    ),
    Document(name="AHRQ", read="not read: no document was found", items=()),
)  # fmt: skip


def _crosswalk(context: Context) -> Crosswalk:
    return Crosswalk(documents=DOCUMENTS)


STANDARDS = Section("standards", "Where a board finds each item", _crosswalk, Crosswalk)
