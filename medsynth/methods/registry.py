"""The methods by name. A new one is a module that follows the protocol and one `register` call."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import UsageError, did_you_mean
from .protocol import Method, MethodModule, Preset
from .settings import MethodConfig, read_settings

METHODS: dict[str, Method] = {}
DEFAULT = "mixture"
ALIASES = {"warm-dp-cgan": "mixture"}  # earlier names, of which there are model files
_HERE = __package__


def register(method: Method) -> None:
    """Offer a method under its name. Raises UsageError where the name, or that of a preset, is taken."""
    if method.name in METHODS:
        raise UsageError(f"There is a method {method.name!r} already.")
    if taken := presets().keys() & method.presets.keys():
        raise UsageError(f"There is a preset {min(taken)!r} already.")
    METHODS[method.name] = method


def presets() -> dict[str, Method]:
    """The method of each preset, by the preset's name."""
    return {preset: method for method in METHODS.values() for preset in method.presets}


def settle(method: str | None, preset: str | None = None) -> str:
    """The name of the method meant: the one given, by its present name, else the preset's own, else the default.

    Raises UsageError for an unknown name and for a preset of another method.
    """
    owners = presets()
    if preset is not None and preset not in owners:
        raise UsageError(f"There is no preset {preset!r}. The presets are: {', '.join(owners)}.")
    chosen = method or (owners[preset].name if preset is not None else DEFAULT)
    chosen = ALIASES.get(chosen, chosen)
    if chosen not in METHODS:
        raise UsageError(f"There is no method {chosen!r}.{did_you_mean(chosen, METHODS)}")
    if preset is not None and chosen != owners[preset].name:
        raise UsageError(f"`preset` {preset} belongs to {owners[preset].name}. Leave `method` out.")
    return chosen


def find(method: str | None, preset: str | None = None) -> Method:
    """The facts of the method meant. Raises UsageError as `settle` does."""
    return METHODS[settle(method, preset)]


def module(method: str | None, preset: str | None = None) -> MethodModule:
    """The code of a method or of one of its presets. Raises UsageError for an unknown name."""
    return find(method, preset).load(preset)


def check_claim(method: str) -> None:
    """Raises UsageError for a method without a privacy claim: it is fitted without noise, and never planned."""
    if (reason := METHODS[method].no_claim) is not None:
        raise UsageError(f"{method} gives no guarantee: {reason}. It is offered with `no_dp` alone.")


def configured(method: str, module: MethodModule, settings: Mapping[str, object]) -> MethodConfig:
    """A method's configuration with some settings changed; texts are read as what the setting is.

    Raises UsageError for a setting that the method does not have, or a value that it cannot take.
    """
    facts = METHODS[method]
    if "microbatches" in settings and not facts.microbatches:
        takers = " or ".join(m.name for m in METHODS.values() if m.microbatches)
        raise UsageError(f"`microbatches` belongs to {takers}: {method} clips no means of groups of rows.")
    if settings.get("inference") and not facts.replicable:
        takers = " or ".join(m.name for m in METHODS.values() if m.replicable)
        raise UsageError(f"`inference` belongs to {takers}: {method} measures no moments of declared regressions.")
    if settings.get("public") and not facts.public_rows:
        takers = " or ".join(m.name for m in METHODS.values() if m.public_rows)
        raise UsageError(f"`public` belongs to {takers}: {method} learns from no public rows.")
    return read_settings(method, module.Config, settings)


register(
    Method(
        name="mixture",
        summary="a mixture of products of column distributions, fitted to noisy counts of columns and pairs by class",
        module="medsynth.mixture.method",
        conditional_sampling=True,
        replicable=True,
    )
)
register(
    Method(
        name="independent",
        summary="the baseline: the mixture without pairs, columns independent given the class",
        module="medsynth.mixture.independent",
        conditional_sampling=True,
        replicable=True,
    )
)
register(
    Method(
        name="dp-cgan",
        summary="a conditional GAN whose critic learns from clipped, noised gradients of random features",
        module=f"{_HERE}.dp_cgan.method",
        presets={
            "thyroid-study": Preset(
                summary="networks and hyper-parameters of the thyroid study, with corrections",
                module=f"{_HERE}.dp_cgan.thyroid_study",
            )
        },
        microbatches=True,
    )
)
register(
    Method(
        name="gs-wgan",
        summary="critics trained on shards without noise; the gradient that the generator receives is noised",
        module=f"{_HERE}.gs_wgan.method",
        presets={
            "public-order": Preset(
                summary="critics are used in a public order, without amplification by secret sampling",
                module=f"{_HERE}.gs_wgan.public_order",
            ),
            "all-critics": Preset(
                summary="the clipped gradients of all critics added up and noised once: nothing to keep secret",
                module=f"{_HERE}.gs_wgan.all_critics",
            ),
        },
        conditional_sampling=True,
    )
)
register(
    Method(
        name="dp-gan",
        summary="a Wasserstein GAN with gradient penalty, its gradients clipped in groups of parameters",
        module=f"{_HERE}.dp_gan.method",
        presets={
            "federated-averaging": Preset(
                summary="each row trains the critic by itself for some steps; its change is clipped, all are averaged",
                module=f"{_HERE}.dp_gan.federated_averaging",
            )
        },
        conditional_sampling=True,
        public_rows=True,
    )
)
register(
    Method(
        name="dp-merf",
        summary="one noised mean embedding of random features, then free training of the generator",
        module=f"{_HERE}.dp_merf.method",
    )
)
register(
    Method(
        name="pate-gan",
        summary="teachers on shards vote on generated rows; noised votes teach a student, the student the generator",
        module=f"{_HERE}.pate_gan.method",
        conditional_sampling=True,
    )
)
register(
    Method(
        name="g-pate",
        summary="teachers on shards vote on the gradient that the generator receives, in noised counts",
        module=f"{_HERE}.g_pate.method",
        conditional_sampling=True,
    )
)
register(
    Method(
        name="loss-noise",
        summary="noise on the loss as published; it protects nobody and is offered for comparison",
        module=f"{_HERE}.loss_noise.method",
        conditional_sampling=True,
        no_claim="its noise never reaches the released parameters",
    )
)
CLAIMING = tuple(name for name, method in METHODS.items() if method.makes_claim)
