"""What one more part costs: milliseconds a measurement and site, and of the server's own, by trust and number of sites.

    python tests/benchmarks/federation_cost.py --data FOLDER [--sites 1 3 10 30] [--rows 3772]

FOLDER/thyroid holds the ann-thyroid files; with more rows than it has, rows are drawn from it again and again, as parts
of one large table would be. Fits of `independent` in this process, one site after another: what a message carries is
the method's sums over all 21 columns. Reading the table and making the plan, once for each site, are apart.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import panel_data
from federation import parts

from medsynth.federated.masks import write_key
from medsynth.federated.server import federated_fit
from medsynth.federated.site import Site
from medsynth.federated.study import study_of
from medsynth.federated.transport import InProcess, unpacked


def cost(trust: str, frames: list[Any], schema: Any) -> dict[str, float]:
    """Milliseconds of a fit over so many sites: to begin and to answer, a site; of the server, a measurement."""
    spent, asked, total = 0.0, list[float](), sum(map(len, frames))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keys = {f"site-{k}": write_key(folder / f"key-{k}") for k in range(len(frames))}
        study = study_of({
            "name": "cost", "schema": schema.to_dict(), "epsilon": 3.7, "rows": total, "trust": trust,
            "method": "independent", "sites": {name: key.public for name, key in keys.items()},
        })  # fmt: skip
        transport = InProcess({})
        for (name, key), frame in zip(keys.items(), frames, strict=True):
            (folder / name).mkdir()
            frame.to_parquet(folder / name / "t.parquet")
            started = time.perf_counter()
            site = Site(study, name, folder / name / "t.parquet", folder / name, key=key)
            spent += time.perf_counter() - started

            def answer(message: bytes, site: Site = site) -> bytes:
                started = time.perf_counter()
                found = site.answer(message)
                if unpacked(message)[0]["kind"] == "measure":
                    asked.append(time.perf_counter() - started)
                return found

            transport.sites[name] = answer
        started = time.perf_counter()
        _, end = federated_fit(study, transport, folder / "checkpoint")
        whole = time.perf_counter() - started
        end()
    count = len(frames)
    each = {"begin": 1e3 * spent / count, "answer": 1e3 * sum(asked) / len(asked)}
    rest = 1e3 * (whole - sum(asked)) * count / len(asked)
    return {**each, "server": rest, "kB": transport.received / len(asked) / 1e3}


def main() -> None:
    """Print a line a trust and number of sites."""
    given = argparse.ArgumentParser()
    given.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"))
    given.add_argument("--sites", type=int, nargs="+", default=[2, 3, 10, 30])
    given.add_argument("--rows", type=int)
    asked = given.parse_args()
    train, _, schema, target = panel_data.load("thyroid", asked.data)
    if asked.rows:
        train = train.sample(asked.rows, replace=True, random_state=0).reset_index(drop=True)
    print(f"{len(train)} rows; milliseconds")
    print("trust       sites  a site begins  a site answers  the server  kB an answer")
    for trust in ("none", "server", "secure-sum"):
        for count in asked.sites:
            found = cost(trust, parts(train, target, count, "same"), schema)
            print(f"{trust:11} {count:5} {found['begin']:14.0f} {found['answer']:15.1f} {found['server']:11.0f} "
                  f"{found['kB']:13.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
