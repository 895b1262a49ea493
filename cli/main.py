"""Define the command `medsynth`. Each command's file declares its options and calls one function of the library."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from medsynth import __version__

from . import answers, audit, demo, export, federate, fit, ledger, metadata, methods, plan, report, sample, schema
from .app import command as page
from .console import INTERRUPTED, open_streams
from .flags import in_lines, register

app = typer.Typer(
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="""Turn a table of patients into a synthetic table with a differential-privacy guarantee.

    The usual order, in one folder:

        medsynth fit patients.csv --epsilon 3.7 --holdout 0.25

        medsynth sample -n 10000

        medsynth report

        medsynth ledger --verify
    """,
    epilog="Exit codes: 0 done, 1 error, 2 usage, 3 budget too small, 4 table and schema differ, "
    "5 a verdict named by `report --fail-on`, 130 interrupted.",
)


def _version(show: bool) -> None:
    if show:
        print(f"medsynth {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    register(context.command)


app.command("fit")(fit.fit)
app.command("sample")(sample.sample)
app.command("estimate")(answers.estimate)
app.command("tables")(answers.tables)
app.command("combine")(sample.combine)
app.command("plan")(plan.plan)
app.command("methods")(methods.methods)
app.command("report")(report.report)
app.command("metadata")(metadata.metadata)
app.command("export")(export.export)
app.command("ledger")(ledger.ledger)
app.command("inspect")(ledger.inspect)
app.command("withdraw")(ledger.withdraw)
app.command("audit")(audit.audit)
app.command("demo")(demo.demo)
app.command("app")(page.app)
app.add_typer(schema.app, name="schema")
app.add_typer(federate.app, name="federate")


def main() -> None:
    """Run the command line: the entry point of the console script."""
    open_streams()
    if in_lines():  # the program that shows progress also stops the command, even if it was started in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except KeyboardInterrupt:  # before a command starts
        sys.exit(INTERRUPTED)
