"""`nonzero doctor`: what is installed, what works, and what to do about the rest."""

import importlib.util
import platform
from dataclasses import dataclass

EXTRAS: dict[str, tuple[str, ...]] = {
    "smax": ("jaxmarl",),
    "jumanji": ("jumanji",),
    "pettingzoo": ("pettingzoo",),
    "ray": ("ray",),
    "tensorboard": ("tensorboardX",),
    "bench": ("mctx", "optuna", "nevergrad"),
}
"""The extras of use to those who do not develop NonZero, and the packages that each must bring."""


@dataclass(frozen=True)
class Doctor:
    """Show versions, devices, and which extras and games are usable."""

    def run(self) -> None:
        """Print the tables, then one remedy a line."""
        from rich.console import Console

        from nonzero.experiments.results import versions
        from nonzero.experiments.tables import rich_table

        console = Console()
        found = versions() | {"platform": platform.platform(), "devices": devices()}
        console.print(rich_table([{"what": name, "found": text} for name, text in found.items()]))
        remedies: dict[str, str] = {}
        console.print(rich_table(extras(remedies)))
        console.print(rich_table(games(remedies)))
        for name, remedy in remedies.items():
            console.print(f"{name}: {remedy}", markup=False, highlight=False, soft_wrap=True)
        if not remedies:
            console.print("Everything is usable.")


def devices() -> str:
    """The devices that jax computes on, such as "2 x cpu", or why it finds none."""
    import jax

    try:
        kinds = [device.device_kind for device in jax.devices()]
    except RuntimeError as error:
        return " ".join(f"none: {error}".split())
    return ", ".join(f"{kinds.count(kind)} x {kind}" for kind in sorted(set(kinds)))


def extras(remedies: dict[str, str]) -> list[dict[str, object]]:
    """One row an extra; the command that installs a missing one goes into `remedies`."""
    rows = []
    for extra, packages in EXTRAS.items():
        missing = [name for name in packages if importlib.util.find_spec(name) is None]
        if missing:
            remedies[f"extra {extra}"] = f"pip install 'nonzero-mcts[{extra}]'"
        state = f"no: {', '.join(missing)} missing" if missing else "yes"
        rows.append({"extra": extra, "brings": ", ".join(packages), "usable": state})
    return rows


def games(remedies: dict[str, str]) -> list[dict[str, object]]:
    """One row a family of environments; what stops one goes into `remedies`."""
    from nonzero.cli.catalogue import why_unusable
    from nonzero.envs.registry import FAMILIES

    rows = []
    for family in FAMILIES:
        reason = why_unusable(family)
        if reason:
            remedies[f"games {family.prefix}"] = reason
        rows.append({"games": family.prefix, "listed": len(family.names), "usable": not reason})
    return rows
