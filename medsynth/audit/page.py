"""The audit on one self-contained page without network or script. The JSON next to it has every number."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

from ..io.atomic import write_page
from .pipeline import Audit

TEMPLATE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Audit: {{ audit.schema }}</title><style>

body{font:16px/1.5 system-ui,sans-serif;max-width:68rem;margin:2rem auto;padding:0 1rem;color:#1b1b1b;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5rem 0 1.5rem}caption,th,td{text-align:left}

th,td{padding:.3rem .6rem;border-bottom:1px solid #ccc;vertical-align:top}td.n,th.n{text-align:right}
.bar{background:#e4e4e4;width:8rem;height:.7rem;position:relative}.bar i{background:#0072b2;height:100%;display:block}

.refuted{color:#a30000;font-weight:600}small{color:#555}@media print{body{font-size:11px;margin:0}}
</style></head><body>

<h1>What attackers proved</h1><p>medsynth {{ audit.medsynth }}, simulated tables of the schema {{ audit.schema }}.</p>
<p>Each proven figure is a lower bound: a mechanism that leaks less would not let an attacker guess so well. A bound
above its claim refutes the claim. A bound below its claim does not prove the claim: this page is evidence and not a
certificate. All tables were simulated. No table of yours was opened, and no budget was spent.</p>

{% for part, findings in parts %}
<h2>{{ part[0]|upper }}{{ part[1:] }}</h2>
<table><thead><tr><th scope="col">attacked</th><th scope="col" class="n">claimed</th>

<th scope="col" class="n">proven</th><th scope="col">share</th><th scope="col" class="n">epsilon claimed</th>

<th scope="col" class="n">epsilon proven</th><th scope="col" class="n">trials</th></tr></thead><tbody>
{% for f in findings %}

<tr><th scope="row">{{ f.name }}<br><small>{{ f.worst_case }}</small></th>
{% for number in f.shown[:2] %}<td class="n">{{ number }}</td>{% endfor %}

<td>{% if f.share is not none %}<div class="bar" role="img" aria-label="{{ "%.0f"|format(100 * f.share) }} per cent">

<i style="width:{{ [100 * f.share, 100]|min }}%"></i></div>{{ "%.0f"|format(100 * f.share) }} %{% endif %}
{% if f.refutes %}<span class="refuted">refuted</span>{% endif %}</td>

{% for number in f.shown[2:] %}<td class="n">{{ number }}</td>{% endfor %}
<td class="n">{{ "{:,}".format(f.trials) }}</td></tr>
{% endfor %}</tbody></table>{% endfor %}

<p>Each line by itself has a confidence of {{ "%.4g"|format(100 * first.confidence) }} %. Claimed and proven are mu, the
separation of two neighbouring tables in standard deviations of the noise, or the chance of an outcome that only one of
them can produce. Epsilon is at delta {{ first.delta }}.</p>
<h2>Input files</h2><p>Each simulated file has one odd cell. The table counts what it changed outside its own row before
any measurement. "Refused": the file does not match its schema, which the claim requires.</p>

<table><thead><tr><th scope="col">schema</th><th scope="col" class="n">identical</th>
<th scope="col" class="n">refused</th>

<th scope="col" class="n">differs</th><th scope="col">what changed, and by which cells</th></tr></thead><tbody>

{% for mode, counts, changes in inputs %}
<tr><th scope="row">{{ mode }}</th>{% for n in counts %}<td class="n">{{ n }}</td>{% endfor %}

<td>{{ changes }}</td></tr>{% endfor %}</tbody></table>
</body></html>
"""


def page(audit: Audit) -> str:
    """Return the audit as HTML."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    parts = [(part, list(group)) for part, group in groupby(audit.findings, key=lambda finding: finding.part)]
    template = environment.from_string(TEMPLATE)
    return str(template.render(audit=audit, parts=parts, first=audit.findings[0], inputs=audit.inputs_by_mode()))


def save(audit: Audit, output: Path, *, force: bool = False) -> Path:
    """Write the page and its JSON twin next to it. Returns the twin's path. Raises MedsynthError for existing files."""
    return write_page(output, page(audit), json.dumps(audit.to_json(), indent=1), force=force)
