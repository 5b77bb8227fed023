"""What a training run is told: environment, algorithm, steps, seed, and settings from a preset with changes.

Presets and the `config.toml` of a run are the same TOML: a table for each section of `Settings`. A name that
does not exist is refused with the closest one that does.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

from nonzero.training.settings import GAINS, Settings
from nonzero.types import NonZeroError

Section = TypeVar("Section")
PRESETS = ("default", "paper")


@dataclass(frozen=True)
class RunConfig:
    """All that decides what a run does."""

    env: str
    algo: str
    steps: int
    seed: int
    settings: Settings = field(default_factory=Settings)
    env_options: Mapping[str, Any] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse numbers that do not fit together, before any work."""
        count, first = self.settings.collect.environments, self.settings.collect.first_steps
        for name, steps in (("steps", self.steps), ("collect.first_steps", first)):
            if steps < count or steps % count:
                raise NonZeroError(
                    f"{name} must be a multiple of collect.environments ({count}), as all of them step "
                    f"together, not {steps}"
                )
        if self.settings.collect.replay_steps < 20 * count:
            raise NonZeroError("collect.replay_steps is less than 20 steps for each environment")
        search, target = self.settings.search, self.settings.target
        for name, share in (
            ("target.reanalyse_share", target.reanalyse_share),
            ("target.target_rate", target.target_rate),
            ("search.changed_share", search.changed_share),
        ):
            if not 0 <= share <= 1:
                raise NonZeroError(f"{name} is a share, from 0 to 1, not {share}")
        if target.stored_weight == 0 and round(target.reanalyse_share * self.settings.optimiser.batch) == 0:
            raise NonZeroError(
                "target.reanalyse_share of optimiser.batch is less than one window and target.stored_weight "
                "is 0: the policy would learn nothing"
            )
        if self.settings.target.gain not in GAINS:
            raise NonZeroError(unknown("target.gain", self.settings.target.gain, GAINS))


def load_preset(name: str) -> Settings:
    """The settings of the preset called `name`."""
    if name not in PRESETS:
        raise NonZeroError(unknown("preset", name, PRESETS))
    text = files("nonzero.experiments").joinpath("presets", f"{name}.toml").read_text(encoding="utf-8")
    return changed(Settings(), tomllib.loads(text))


def changed(section: Section, values: Mapping[str, Any], path: str = "") -> Section:
    """`section`, a dataclass, with what `values` says; unknown names and wrong types are refused."""
    kinds = get_type_hints(type(section))
    new: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            raise NonZeroError(unknown("setting", path + name, [path + known for known in kinds]))
        old = getattr(section, name)
        new[name] = (
            changed(old, value, f"{path}{name}.")
            if is_dataclass(old) and isinstance(value, Mapping)
            else converted(value, old, path + name)
        )
    return replace(section, **new)  # pyright: ignore[reportArgumentType, reportCallIssue]


def converted(value: object, old: object, name: str) -> object:
    """`value` as the kind of `old`: TOML has lists for tuples, and 1 may stand for 1.0."""
    if isinstance(old, tuple) and isinstance(value, (list, tuple)):
        return tuple(converted(item, old[0], name) for item in value)
    if isinstance(old, float) and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if type(value) is not type(old):
        raise NonZeroError(f"{name} is of type {type(old).__name__}, not {value!r}")
    return value


def unknown(kind: str, name: str, known: Iterable[str]) -> str:
    """What to say about a name that does not exist."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"unknown {kind} '{name}': " + (
        f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}."
    )


def to_toml(config: RunConfig) -> str:
    """The whole configuration as TOML."""
    document = asdict(config)
    settings = document.pop("settings")
    tables = {"env_options": document.pop("env_options"), **{f"settings.{k}": v for k, v in settings.items()}}
    lines = [f"{name} = {literal(value)}" for name, value in document.items()]
    for table, values in tables.items():
        lines += ["", f"[{table}]", *(f"{name} = {literal(value)}" for name, value in values.items())]
    return "\n".join(lines) + "\n"


def literal(value: object) -> str:
    """A value in TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(literal(item) for item in value)}]"
    return repr(value)


def read_config(path: Path) -> RunConfig:
    """The configuration that `to_toml` wrote."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        settings = changed(Settings(), document.pop("settings", {}))
        config = RunConfig(**document, settings=settings)
    except OSError as error:
        raise NonZeroError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, TypeError) as error:
        raise NonZeroError(f"cannot read {path}: {error}") from error
    return config


def difference(one: RunConfig, other: RunConfig) -> str | None:
    """The first thing in which two configurations differ, or None."""
    left, right = (tomllib.loads(to_toml(config)) for config in (one, other))
    return next(iter(differing(left, right)), None)


def differing(left: Mapping[str, Any], right: Mapping[str, Any], path: str = "") -> list[str]:
    """What differs, as lines `name: old is not new`."""
    found = []
    for name in {**left, **right}:
        old, new = left.get(name), right.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differing(old, new, f"{path}{name}.")
        elif old != new:
            found.append(f"{path}{name} was {old!r}, now {new!r}")
    return found
