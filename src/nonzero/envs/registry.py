"""Environments by name: `make("matgame/linear-4x5")`.

A family's module is imported when one of its names is asked for, so an environment whose extra is missing
costs nothing and stops nothing. A family's module offers `make(rest, **options)`, where `rest` is what
follows the first slash.
"""

import difflib
import importlib
import importlib.util
from dataclasses import dataclass

from nonzero.types import Environment, NonZeroError


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


FAMILIES: tuple[Family, ...] = ()


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
    environment = importlib.import_module(family.module).make(rest, **options)
    if environment is None:
        raise unknown(name)
    return environment
