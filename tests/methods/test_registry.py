"""The registry: settings are bounded by their fields, facts need no torch, and what is not declared is not offered."""

import subprocess
import sys

import pytest

import medsynth
from medsynth.errors import ArtifactError, UsageError
from medsynth.methods import registry
from medsynth.methods.protocol import Method, Preset
from medsynth.methods.settings import bounds, descriptions, restored_settings

CODES = [(name, None) for name in registry.METHODS] + [(m.name, preset) for preset, m in registry.presets().items()]


def test_the_registry_imports_no_torch():
    program = "import sys, medsynth.methods.registry; assert not {'torch', 'opacus'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("method, preset", CODES)
def test_every_setting_is_described_and_survives_a_file(method, preset):
    config = registry.module(method, preset).Config
    assert all(field.description for field in config.model_fields.values()) and descriptions(config)
    made = config()
    assert restored_settings(config, made.model_dump(mode="json")) == made
    assert ("microbatches" in config.model_fields) == registry.METHODS[method].microbatches
    with pytest.raises(ArtifactError):
        restored_settings(config, {**made.model_dump(mode="json"), "other": 1})


@pytest.mark.parametrize("method, preset", CODES)
@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "many"])
def test_no_number_goes_beyond_its_bounds(method, preset, wrong):
    module = registry.module(method, preset)
    for name, default in module.Config():
        if isinstance(default, int | float) and not isinstance(default, bool):
            with pytest.raises(UsageError, match=name):
                registry.configured(method, module, {name: wrong})


def test_shares_leave_a_rest_and_bounds_are_told_in_words():
    module = registry.module("dp-gan")
    with pytest.raises(UsageError, match="less than 1"):
        registry.configured("dp-gan", module, {"class_share": 0.9})
    with pytest.raises(UsageError, match="a share above 0 and below 1"):
        registry.configured("dp-gan", module, {"class_share": 0})
    assert bounds(module.Config, "rate") == "above 0 and at most 1"


def test_names_are_taken_once(monkeypatch):
    monkeypatch.setattr(registry, "METHODS", dict(registry.METHODS))
    with pytest.raises(UsageError, match="already"):
        registry.register(Method(name="dp-cgan", summary="another", module="nowhere"))
    again = {"thyroid-study": Preset(summary="another", module="nowhere")}
    with pytest.raises(UsageError, match="already"):
        registry.register(Method(name="another", summary="another", module="nowhere", presets=again))


def test_what_a_method_does_not_declare_is_refused():
    with pytest.raises(UsageError, match="`microbatches` belongs to dp-cgan"):
        registry.configured("gs-wgan", registry.module("gs-wgan"), {"microbatches": 4})
    with pytest.raises(UsageError, match="`public` belongs to dp-gan"):
        registry.configured("gs-wgan", registry.module("gs-wgan"), {"public": True})
    with pytest.raises(medsynth.MedsynthError, match="no method"):
        registry.find("magic")
