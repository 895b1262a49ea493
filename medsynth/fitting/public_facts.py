"""What a fit takes as public without measuring it: listed for a person before anything is spent, and in the ledger."""

from __future__ import annotations

from .private_table import PrivateTable, PublicRows


def public_facts(private: PrivateTable, rows: int, public_rows: PublicRows | None, *, declared_rows: bool) -> list[str]:
    """The facts that no noise covers and that neighbouring tables share, one phrase each.

    They come from declarations, from the header line and the file's form; none but the row count changes with a row.
    `rows`: the count that the plan is made for; `declared_rows`: whether the user gave it.
    """
    table, schema = private.data, private.declared
    facts = [f"the header: {len(table.header)} columns, their names and their order"]
    facts.append(f"the form of the input: {table.form or 'commas and UTF-8, Parquet or a frame'}")
    if declared_rows:
        facts.append(f"the number of rows, {rows}, as `rows` declares it")
    elif table.expected_rows is None:
        facts.append(f"the number of rows, {rows}, the table's own")
    else:
        facts.append(f"the number of rows, {rows}: the whole table's own, times the share that is kept for training")
    if schema is None:
        facts.append("that no schema is declared: kinds, levels and bounds are measured, and charged")
    else:
        facts.append(f"the schema {schema.name!r} with all that it declares, and that the table meets it")
    facts.append(f"the target, {private.target!r}")
    if private.max_rows is not None:
        facts.append(f"that a patient counts with at most {private.max_rows} rows, whichever they are")
    if public_rows is not None:
        facts.append("the rows of `public`")
    return [*facts, "`epsilon`, `delta`, the method and its settings"]
