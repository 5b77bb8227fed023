"""Environments by name: `make("matgame/linear-4x5")`.

A family's module is imported when one of its names is asked for, so an environment whose extra is missing
costs nothing and stops nothing. A family's module offers `make(rest, **options)`, where `rest` is what
follows the first slash.
"""

import difflib
import importlib
import importlib.util
import inspect
from collections.abc import Callable
from dataclasses import dataclass

from nonzero.types import BasePolicy, Environment, NonZeroError


@dataclass(frozen=True)
class Family:
    """A group of environments that one module makes."""

    prefix: str
    module: str
    summary: str
    names: tuple[str, ...]
    """Names to list and to suggest, without the prefix; a family may accept more (any size, say)."""
    needs: str | None = None
    """The importable package that this family cannot do without."""
    extra: str | None = None
    """The optional dependency of this project that brings `needs`."""

    def is_installed(self) -> bool:
        """Whether the package behind this family can be imported."""
        return self.needs is None or importlib.util.find_spec(self.needs) is not None

    def install_hint(self) -> str:
        """The command that makes this family usable."""
        return f"pip install 'nonzero-mcts[{self.extra}]'"


TABLE_SIZES = ("2x3", "4x5", "6x8", "8x10")
COORDINATION = ("additive", "asinh-additive", "low-rank", "paired-traps", "climbing", "penalty", "nk")
RACES = ("protoss", "terran", "zerg")

FAMILIES: tuple[Family, ...] = (
    Family(
        prefix="matgame",
        module="nonzero.envs.matgame",
        summary="one payoff game played ten times; any size NxD (agents x actions); options seed, noise",
        names=(
            *(f"{kind}-{size}" for kind in ("linear", "nonlinear") for size in TABLE_SIZES),
            *(f"mazero-{number}" for number in range(1, 5)),
            *(f"{kind}-{size}" for kind in COORDINATION for size in ("6x8", "8x10")),
        ),
    ),
    Family(
        prefix="smax",
        module="nonzero.envs.smax",
        summary="StarCraft-like battles in JAX against a scripted enemy",
        names=(
            *("3m", "2s3z", "8m", "3s5z", "25m", "5m_vs_6m", "10m_vs_11m", "27m_vs_30m", "3s5z_vs_3s6z"),
            *("3s_vs_5z", "6h_vs_8z", "smacv2_5_units", "smacv2_10_units", "smacv2_20_units"),
            *(f"{race}_{size}" for race in RACES for size in ("5_vs_5", "10_vs_10", "10_vs_11")),
        ),
        needs="jaxmarl",
        extra="smax",
    ),
    Family(
        prefix="jumanji",
        module="nonzero.envs.jumanji",
        summary="cooperative Jumanji games: level-based foraging, robot warehouse",
        names=(
            *("lbf-8x8-2p-2f-coop", "lbf-2s-8x8-2p-2f-coop", "lbf-10x10-3p-3f", "lbf-15x15-3p-5f"),
            *("rware-tiny-2ag", "rware-tiny-4ag", "rware-small-4ag", "rware-tiny-4ag-easy"),
        ),
        needs="jumanji",
        extra="jumanji",
    ),
)


def names() -> list[str]:
    """Every listed environment, whether or not its extra is installed."""
    return [f"{family.prefix}/{name}" for family in FAMILIES for name in family.names]


def unknown(name: str) -> NonZeroError:
    """The error for a name that no family knows, with the closest known one."""
    close = difflib.get_close_matches(name, names(), n=1, cutoff=0.4)
    hint = f"did you mean '{close[0]}'?" if close else "`nonzero envs` lists the known ones."
    return NonZeroError(f"unknown environment '{name}': {hint}")


def make(name: str, **options: object) -> Environment:
    """Make the environment called `name`; `options` are those of its family, such as `seed` or `noise`."""
    prefix, _, rest = name.partition("/")
    family = next((family for family in FAMILIES if family.prefix == prefix), None)
    if family is None:
        raise unknown(name)
    if not family.is_installed():
        if rest not in family.names:
            raise unknown(name)
        raise NonZeroError(f"'{name}' needs the package {family.needs}: {family.install_hint()}")
    build = importlib.import_module(family.module).make
    _refuse_unknown_options(prefix, tuple(inspect.signature(build).parameters)[1:], options)
    environment = build(rest, **options)
    if environment is None:
        raise unknown(name)
    return environment


def base_policies(name: str) -> dict[str, Callable[[Environment], BasePolicy]]:
    """The policies that the family of the environment called `name` offers to plan with, by name."""
    prefix = name.partition("/")[0]
    family = next((family for family in FAMILIES if family.prefix == prefix), None)
    if family is None:
        raise unknown(name)
    return getattr(importlib.import_module(family.module), "BASE_POLICIES", {})


def base_policy(env: Environment, policy: str) -> BasePolicy:
    """The policy called `policy` for a registered environment: from a state and a key to legal actions."""
    name = env.spec.name
    offered = base_policies(name)
    if policy not in offered:
        close = difflib.get_close_matches(policy, offered, n=1)
        known = f"it has {', '.join(offered)}." if offered else "it has none."
        hint = f"did you mean '{close[0]}'?" if close else known
        raise NonZeroError(f"{name} has no base policy '{policy}': {hint}")
    return offered[policy](env)


def _refuse_unknown_options(prefix: str, known: tuple[str, ...], options: dict[str, object]) -> None:
    for option in options:
        if option not in known:
            listed = ", ".join(known) or "none"
            raise NonZeroError(f"{prefix} environments have no option '{option}'; their options: {listed}")
