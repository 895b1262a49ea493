"""The registry: settings are bounded by their fields, facts need no torch, and what is not declared is not offered."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import medsynth
from medsynth.errors import ArtifactError, SchemaError, UsageError
from medsynth.methods import registry
from medsynth.methods.registry import MethodEntry, Preset, bounds, restored_settings

CODES = [(name, None) for name in registry.METHODS] + [(m.name, preset) for preset, m in registry.presets().items()]


def test_the_registry_imports_no_torch() -> None:
    program = "import sys, medsynth.methods.registry; assert not {'torch', 'opacus'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("method, preset", CODES)
def test_every_setting_is_described_and_survives_a_file(method: Any, preset: Any) -> None:
    config = registry.load(method, preset).Config
    assert all(field.description for field in config.model_fields.values()) and config.model_fields
    made = config()
    assert restored_settings(config, made.model_dump(mode="json")) == made
    assert ("microbatches" in config.model_fields) == registry.METHODS[method].microbatches
    with pytest.raises(ArtifactError):
        restored_settings(config, {**made.model_dump(mode="json"), "other": 1})


@pytest.mark.parametrize("method, preset", CODES)
def test_every_method_follows_the_protocol(method: Any, preset: Any) -> None:
    module, facts = registry.load(method, preset), registry.find(method, preset)
    config = module.Config()
    assert all(query.weight > 0 for query in module.queries(config, 3000, 20, 3.7))
    assert isinstance(module.notes(config, 3000, 20, 3.7), list)
    takes = {"where", "balance", "fixed"} if facts.conditional_sampling else set()
    assert {"where", "balance", "fixed"} & set(inspect.signature(module.generate).parameters) == takes
    assert ("public" in inspect.signature(module.fit).parameters) == facts.public_rows


@pytest.mark.parametrize("method, preset", CODES)
@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "many"])
def test_no_number_goes_beyond_its_bounds(method: Any, preset: Any, wrong: Any) -> None:
    module = registry.load(method, preset)
    for name, default in module.Config():
        if isinstance(default, int | float) and not isinstance(default, bool):
            with pytest.raises(UsageError, match=name):
                registry.configured(method, module, {name: wrong})


def test_shares_leave_a_rest_and_bounds_are_in_words() -> None:
    module = registry.load("dp-gan")
    with pytest.raises(UsageError, match="less than 1"):
        registry.configured("dp-gan", module, {"class_share": 0.9})
    with pytest.raises(UsageError, match="a share above 0 and below 1"):
        registry.configured("dp-gan", module, {"class_share": 0})
    assert bounds(module.Config, "rate") == "above 0 and at most 1"
    # The share of declared regressions scales the others, and there may be none.
    registry.configured("mixture", registry.load("mixture"), {"by_class_share": 0.55, "inference_share": 0.5})
    with pytest.raises(UsageError, match="less than 1"):
        registry.configured("mixture", registry.load("mixture"), {"by_class_share": 0.65})


def test_names_are_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    with pytest.raises(UsageError, match="already"):
        registry.register(MethodEntry(name="dp-cgan", summary="another", code="nowhere:Nothing"))
    again = {"thyroid-study": Preset(summary="another", code="nowhere:Nothing")}
    with pytest.raises(UsageError, match="already"):
        registry.register(MethodEntry(name="another", summary="another", code="nowhere:Nothing", presets=again))


def test_what_a_method_does_not_declare_is_refused() -> None:
    with pytest.raises(UsageError, match="`microbatches` belongs to dp-cgan"):
        registry.configured("gs-wgan", registry.load("gs-wgan"), {"microbatches": 4})
    with pytest.raises(UsageError, match="`public` belongs to mixture or independent or margins or dp-gan"):
        registry.configured("gs-wgan", registry.load("gs-wgan"), {"public": True})
    with pytest.raises(medsynth.MedsynthError, match="no method"):
        registry.find("magic")


def test_what_a_preset_cannot_fit_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    """A learned schema allows missing values everywhere, a declared one only where they are declared."""
    table = tmp_path / "t.csv"
    table.write_text("age,y\n" + "".join(f"{k % 90},{k % 2}\n" for k in range(4000)))
    columns = {"age": {"kind": "count", "bounds": [0, 99], "missing": True}, "y": {"kind": "binary", "levels": [0, 1]}}
    for schema in (None, {"name": "t", "target": "y", "columns": columns}):
        with pytest.raises(SchemaError, match="without missing values"):
            medsynth.fit(table, epsilon=3.7, method="dp-cgan", preset="thyroid-study", schema=schema)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
