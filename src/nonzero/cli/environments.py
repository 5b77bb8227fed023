"""`nonzero envs`: the environments that `nonzero.make` knows."""

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import tyro

from nonzero.types import NonZeroError

if TYPE_CHECKING:
    from nonzero.envs.registry import Family


@dataclass(frozen=True)
class Envs:
    """List the environments with their sizes, family by family."""

    families: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="[FAMILY ...]", help_behavior_hint="")
    ] = ()
    """Families to list; all of them by default."""

    def run(self) -> None:
        """Print one table a family."""
        from rich.console import Console

        from nonzero.envs.registry import FAMILIES
        from nonzero.experiments.tables import rich_table

        known = {family.prefix: family for family in FAMILIES}
        for prefix in self.families:
            if prefix not in known:
                close = difflib.get_close_matches(prefix, known, n=1)
                hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(known)}."
                raise NonZeroError(f"unknown family '{prefix}': {hint}")
        console = Console()
        for family in [known[prefix] for prefix in self.families] or FAMILIES:
            console.print(f"\n{family.prefix}: {family.summary}", markup=False, highlight=False)
            reason = why_unusable(family)
            if reason:
                console.print(f"Not usable: {reason}", markup=False, highlight=False)
            console.print(rich_table([describe(family, name, not reason) for name in family.names]))


def describe(family: "Family", name: str, is_usable: bool) -> dict[str, object]:
    """One row of the table; sizes are known only where the environment can be made."""
    from nonzero.envs.registry import make

    full = f"{family.prefix}/{name}"
    if not is_usable:
        return {"name": full, "agents": "", "actions": "", "obs": "", "steps": "", "usable": False}
    spec = make(full).spec
    obs = "x".join(str(size) for size in spec.obs_shape)
    sizes = {"agents": spec.num_agents, "actions": spec.num_actions, "obs": obs, "steps": spec.max_steps}
    return {"name": full, **sizes, "usable": True}


def why_unusable(family: "Family") -> str | None:
    """What keeps a family from being used, with the remedy; None where its first environment can be made."""
    from nonzero.envs.registry import make

    if not family.is_installed():
        return family.install_hint()
    try:
        make(f"{family.prefix}/{family.names[0]}")
    except Exception as error:  # whatever a third party's package throws at import is the answer here
        return " ".join(f"{type(error).__name__}: {error}".split())
    return None
