"""The commands of `medsynth federate`: key, allow, plan, site and fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medsynth.errors import MedsynthError, OutputExists, UsageError
from medsynth.io.formats import SavedAs

from .console import guarded, notify, result
from .fit import publish_fit
from .flags import translated
from .options import Force, Json, Output, Quiet, with_saved

if TYPE_CHECKING:
    from medsynth.federated.study import Study
    from medsynth.federated.transport import Transport

HELP = """Fit one model over several sites, each of which keeps its rows.

The study file sets whom the sites trust. With `trust: none`, the default, each site adds all of the noise before an
answer leaves it. With `trust: secure-sum`, the sites share the noise, and the server sees only sums over all sites.
With `trust: server`, the server sees exact sums and adds the noise.
"""
app = typer.Typer(no_args_is_help=True, help=HELP)
StudyFile = Annotated[Path, typer.Argument(help="The study file (YAML).")]
Sockets = Annotated[
    Path, typer.Option(help="Folder of the sockets of sites and fit: the MEDSYNTH_SOCKETS of the FLARE processes.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")]


@app.command()
@guarded
def key(
    file: Annotated[Path, typer.Argument(help="Where to write the secret key, such as north.medsynth-key.")],
    as_json: Json = False,
) -> None:
    """Create a site's secret key for a secure sum. Print its public key, which goes into the study file.

    Example:

        medsynth federate key north.medsynth-key
    """
    from medsynth.federated.masks import write_key

    made = write_key(file)
    result({"key": str(file), "public": made.public}, made.public, as_json=as_json)
    notify(f"Wrote {file}: SECRET, keep it at the site. Put the public key into the study, after the site's name.")


@app.command()
@guarded
def allow(
    kit: Annotated[Path, typer.Argument(help="The startup kit of a FLARE server or site, as provisioned.")],
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write a startup kit's local policy: it runs medsynth's relays, and no code that comes with a job.

    Example:

        medsynth federate allow kits/north
    """
    from medsynth.federated.kit import restrict

    written = [str(path) for path in restrict(kit, force=force)]
    result({"written": written}, f"Wrote {' and '.join(written)}.", as_json=as_json)


@app.command()
@guarded
def plan(study: StudyFile, as_json: Json = False) -> None:
    """Show what the sites of a study would answer, the noise, whom they trust, and the digest to agree to.

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
    noise = f"A sum over all sites has {study.noises**0.5:.3g} times the noise of one table with all rows."
    return content, "\n".join([head, *map(translated, study.facts(made)), noise, "", *table_of(rows)])


@app.command()
@guarded
@with_saved
def site(
    saved: SavedAs,
    study: StudyFile,
    table: Annotated[Path, typer.Argument(help="This site's table, in any form that a fit reads. It stays here.")],
    name: Annotated[str, typer.Option(help="Name of this site in the study.")],
    accept: Annotated[str | None, typer.Option(metavar="DIGEST", help="Digest of the study that you agree to.")] = None,
    key: Annotated[Path | None, typer.Option(help="The site's secret key, for a secure sum.")] = None,
    sockets: Sockets = Path(),
    resume: Resume = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Answer a study's measurements at one site until the study ends. The site answers nothing else.

    The checkpoint and the log are in the current folder, and the budget file is next to the table.

    Examples:

        medsynth federate site study.yaml patients.csv --name north

        medsynth federate site study.yaml patients.csv --name north --accept 3f8c... --sockets sockets
    """
    from medsynth.federated.study import read_study

    agreed = read_study(study)
    if accept != agreed.digest:
        wrong = "You have not agreed to this study." if accept is None else "This is not the study that you agreed to."
        raise UsageError(
            f"{_described(agreed)[1]}\n\n{wrong} Read it. If you agree to it, add --accept {agreed.digest}"
        )
    from medsynth.federated.masks import SecretKey
    from medsynth.federated.site import Site, files_of
    from medsynth.federated.transport import serve, socket_of
    from medsynth.io.atomic import sole_writer

    checkpoint, _ = files_of(agreed, name, Path())
    if checkpoint.exists() and not (resume or force):
        raise OutputExists(f"{checkpoint} contains this site's answers, and they count. Add --resume to continue, or "
                           "--force to start again and charge the whole plan once more.")  # fmt: skip
    with sole_writer(checkpoint):
        own = Site(
            agreed, name, table, Path(), key=SecretKey.read(key) if key else None, saved=saved, resume=resume,
            notice=lambda text: notify(text, quiet=quiet),
        )  # fmt: skip
        notify(f"{name} is ready for study {agreed.name!r}. It runs until the study ends or Ctrl-C.", quiet=quiet)
        serve(socket_of(sockets, name), own.answer, lambda: own.finished)
    count = sum(entry.count for entry in own.ledger.entries)
    content = {"study": agreed.name, "digest": agreed.digest, "site": name, "measurements": count}
    result(content, f"The study has ended. This site answered {count} measurements.", as_json=as_json)


@app.command()
@guarded
def fit(
    study: StudyFile,
    kit: Annotated[Path | None, typer.Option(help="Startup kit of a FLARE administrator [default: no FLARE].")] = None,
    user: Annotated[str, typer.Option(help="Name of the administrator in the kit.")] = "admin@nvidia.com",
    simulator: Annotated[bool, typer.Option("--simulator", help="Carry messages with FLARE's simulator.")] = False,
    sockets: Sockets = Path(),
    seed: Annotated[int | None, typer.Option(help="Repeat initial weights and latent draws; never noise.")] = None,
    output: Output = None,
    resume: Resume = False,
    force: Force = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Fit a generator to the rows of all sites and write NAME.medsynth. It runs where the FLARE server runs.

    Without --kit, the sites are processes on this machine, and the fit reaches them through their sockets.

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
        raise OutputExists(f"{checkpoint} contains the measurements of an interrupted fit. Add --resume to "
                           "continue that fit, or --force to start a new one.")  # fmt: skip
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
    """Yield what carries the messages. Raise MedsynthError if FLARE is needed but not installed."""
    if kit is None and not simulator:
        from medsynth.federated import transport

        yield transport.Sockets(sockets)
        return
    try:
        from medsynth.federated import flare
    except ImportError:
        raise MedsynthError("NVIDIA FLARE is not installed. Run: pip install 'medsynth[federated]'.") from None
    submit = flare.submitted(kit, user) if kit else flare.simulated(list(study.sites), sockets)
    with flare.relayed(study.name, sockets, submit, study.minimum) as relay:
        yield relay
