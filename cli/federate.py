"""The commands of `medsynth federate`: key, plan, site and fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import MedsynthError, OutputExists, UsageError

from .console import guarded, notify, result
from .fit import publish_fit
from .flags import translated
from .options import Encoding, Force, Json, Output, Quiet

if TYPE_CHECKING:
    from medsynth.federated.study import Study
    from medsynth.federated.transport import Transport

HELP = """Fits over several sites, each of which keeps its rows.

A study says whom sites trust. With `trust: none`, the default, a site's answers have all of their noise when they leave
it. With `trust: secure-sum` sites share the noise, and the server sees sums over all sites alone. With `trust: server`
whoever holds the server sees exact sums.
"""
app = typer.Typer(no_args_is_help=True, help=HELP)
StudyFile = Annotated[Path, typer.Argument(help="The study, a YAML file.")]
Sockets = Annotated[
    Path, typer.Option(help="Folder where the sockets of sites and fit lie: MEDSYNTH_SOCKETS of the FLARE processes.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on after a kill.")]


@app.command()
@guarded
def key(
    file: Annotated[Path, typer.Argument(help="Where to write the secret key, such as north.medsynth-key.")],
    as_json: Json = False,
) -> None:
    """Make a site's secret key for a secure sum, and print the public one, which goes into the study.

    Example:

        medsynth federate key north.medsynth-key
    """
    from medsynth.federated.masks import write_key

    made = write_key(file)
    result({"key": str(file), "public": made.public}, made.public, as_json=as_json)
    notify(f"Wrote {file}: SECRET, it stays at the site. The public key goes into the study, beside the site's name.")


@app.command()
@guarded
def allow(
    kit: Annotated[Path, typer.Argument(help="The startup kit of a FLARE server or site, as it was provisioned.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a startup kit's local policy: medsynth's relays may run, and no code that a job brings.

    Example:

        medsynth federate allow kits/north
    """
    from medsynth.federated.kit import restrict

    written = [str(path) for path in restrict(kit, force=force)]
    result({"written": written}, f"Wrote {' and '.join(written)}.", as_json=as_json)


@app.command()
@guarded
def plan(study: StudyFile, as_json: Json = False) -> None:
    """Show what a study's sites would answer, with which noise, whom they trust, and the digest to agree to.

    Example:

        medsynth federate plan study.yaml
    """
    from medsynth.federated.study import read_study

    result(*_described(read_study(study)), as_json=as_json)


def _described(study: Study) -> tuple[dict[str, Any], str]:
    from medsynth.privacy.accounting.accountant import rounded_up

    from .plan import measurements, table_of

    made = study.plan()
    rows = measurements(made)
    content = {
        "study": study.name, "digest": study.digest, "trust": study.trust, "sites": list(study.sites),
        "minimum": study.minimum, "honest": study.honest if study.trust == "secure-sum" else None,
        "method": study.method, "rows": study.rows, "epsilon": made.epsilon, "epsilon_asked": study.epsilon,
        "delta": made.delta, "noises": study.noises, "measurements": rows,
    }  # fmt: skip
    head = f"Study {study.name!r}: epsilon {rounded_up(made.epsilon)} at delta {made.delta:g}, by {study.method}."
    noise = f"The noise of a sum over all sites is {study.noises**0.5:.3g} times that of one table with all rows."
    return content, "\n".join([head, *map(translated, study.facts(made)), noise, "", *table_of(rows)])


@app.command()
@guarded
def site(
    study: StudyFile,
    table: Annotated[Path, typer.Argument(help="This site's own table, CSV or Parquet. It stays here.")],
    name: Annotated[str, typer.Option(help="Which of the study's sites this is.")],
    accept: Annotated[str | None, typer.Option(metavar="DIGEST", help="The digest of the study you agree to.")] = None,
    key: Annotated[Path | None, typer.Option(help="The site's secret key, for a secure sum.")] = None,
    sockets: Sockets = Path(),
    encoding: Encoding = None,
    resume: Resume = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Answer a study's measurements at one site until it ends. Nothing but the study's own measurements is answered.

    Checkpoint and log lie in the current folder, the budget file beside the table.

    Examples:

        medsynth federate site study.yaml patients.csv --name north

        medsynth federate site study.yaml patients.csv --name north --accept 3f8c... --sockets sockets
    """
    from medsynth.federated.study import read_study

    agreed = read_study(study)
    if accept != agreed.digest:
        wrong = "You have not agreed to this study." if accept is None else "The study is not the one you agreed to."
        raise UsageError(
            f"{_described(agreed)[1]}\n\n{wrong} Read it; if you agree to it, give --accept {agreed.digest}"
        )
    from medsynth.federated.masks import SecretKey
    from medsynth.federated.site import Site, files_of
    from medsynth.federated.transport import serve, socket_of
    from medsynth.io.atomic import sole_writer

    checkpoint, _ = files_of(agreed, name, Path())
    if checkpoint.exists() and not (resume or force):
        raise OutputExists(f"{checkpoint} holds what this site has answered; it counts. --resume goes on with it. "
                           "--force begins anew, and charges the whole plan again.")  # fmt: skip
    with sole_writer(checkpoint):
        own = Site(
            agreed, name, table, Path(), key=SecretKey.read(key) if key else None, encoding=encoding, resume=resume,
            notice=lambda text: notify(text, quiet=quiet),
        )  # fmt: skip
        notify(f"{name} is ready for study {agreed.name!r}; it ends with the study, or by Ctrl-C.", quiet=quiet)
        serve(socket_of(sockets, name), own.answer, lambda: own.finished)
    count = sum(entry.count for entry in own.ledger.entries)
    content = {"study": agreed.name, "digest": agreed.digest, "site": name, "measurements": count}
    result(content, f"The study has ended: {count} measurements were answered.", as_json=as_json)


@app.command()
@guarded
def fit(
    study: StudyFile,
    kit: Annotated[Path | None, typer.Option(help="Startup kit of a FLARE administrator [default: no FLARE]")] = None,
    user: Annotated[str, typer.Option(help="The administrator's name in the kit.")] = "admin@nvidia.com",
    simulator: Annotated[bool, typer.Option("--simulator", help="Carry messages by FLARE's simulator.")] = False,
    sockets: Sockets = Path(),
    seed: Annotated[int | None, typer.Option(help="Repeat initial weights and latent draws; never noise.")] = None,
    output: Output = None,
    resume: Resume = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a generator to the rows of all sites and write NAME.medsynth. It runs where the FLARE server runs.

    Without --kit the sites are processes of this machine, reached by their sockets.

    Examples:

        medsynth federate fit study.yaml --kit admin@nvidia.com --sockets sockets

        medsynth federate fit study.yaml --kit admin@nvidia.com --sockets sockets --resume
    """
    from medsynth.federated.study import read_study
    from medsynth.io.atomic import check_outputs, sole_writer

    agreed = read_study(study)
    model = output or Path(f"{agreed.name}.medsynth")
    checkpoint = model.with_name(f"{model.name.removesuffix('.medsynth')}.medsynth-checkpoint")
    check_outputs(model, inputs=(study,), force=force)
    check_outputs(checkpoint, inputs=(study, model), force=True)
    if checkpoint.exists() and not (resume or force):
        raise OutputExists(f"{checkpoint} holds what a fit that was interrupted has measured. --resume goes on with "
                           "it, --force begins anew.")  # fmt: skip
    from medsynth.federated.server import federated_fit

    with sole_writer(model), _transport(agreed, kit, user, simulator, sockets) as transport:
        fitted, end = federated_fit(
            agreed, transport, checkpoint, resume=resume, seed=seed,
            notice=lambda text: notify(text, quiet=quiet), told=lambda line: notify(line, quiet=quiet or as_json),
        )  # fmt: skip
        fitted.save(model, force=force)
        end()
    checkpoint.unlink(missing_ok=True)
    publish_fit(fitted, model, as_json)


@contextmanager
def _transport(study: Study, kit: Path | None, user: str, simulator: bool, sockets: Path) -> Iterator[Transport]:
    """What carries the messages. Raises MedsynthError where FLARE is asked for and not installed."""
    if kit is None and not simulator:
        from medsynth.federated import transport

        yield transport.Sockets(sockets)
        return
    try:
        from medsynth.federated import flare
    except ImportError:
        raise MedsynthError("NVIDIA FLARE is not installed: pip install 'medsynth[federated]'.") from None
    submit = flare.submitted(kit, user) if kit else flare.simulated(list(study.sites), sockets)
    with flare.relayed(study.name, sockets, submit, study.minimum) as relay:
        yield relay
