"""Search algorithms as data: each is the one search with other rules.

`dataclasses.replace` changes one. What tells them apart:

| preset | candidates | selection | values |
|---|---|---|---|
| mazero | K prior samples, prior corrected by β̂/β | advantage, pUCT | OS(λ) |
| mazero-np | as mazero | advantage, pUCT with a uniform prior | OS(λ) |
| ma-alphazero | as mazero | Q, pUCT, root slots first once each | mean |
| sampled-muzero | as mazero | Q, pUCT from the first simulation on | mean |
| enumerate | every joint action (tiny games) | as sampled-muzero | mean |
"""

import difflib
from dataclasses import dataclass, field

from nonzero.search.backup import Averaging
from nonzero.search.expand import Expansion
from nonzero.search.proposals import SurrogateRule, Widening
from nonzero.search.select import Selection
from nonzero.types import NonZeroError


@dataclass(frozen=True)
class Rules:
    """All that tells one search algorithm from another."""

    expansion: Expansion = field(default_factory=Expansion)
    selection: Selection = field(default_factory=Selection)
    averaging: Averaging = field(default_factory=Averaging)
    surrogate: SurrogateRule | None = None
    widening: Widening | None = None
    """When proposals come in; without it the surrogate only scores."""


OPTIMISTIC = Averaging(rho=0.75, lam=0.8)
MUZERO = Selection(worth="q", counts_own_visit=True, tries_root_in_order=False)

PRESETS: dict[str, Rules] = {
    "mazero": Rules(selection=Selection(worth="advantage"), averaging=OPTIMISTIC),
    "mazero-np": Rules(selection=Selection(worth="advantage", prior="uniform"), averaging=OPTIMISTIC),
    "ma-alphazero": Rules(selection=Selection(worth="q")),
    "sampled-muzero": Rules(selection=MUZERO),
    "enumerate": Rules(expansion=Expansion(candidates="enumerated"), selection=MUZERO),
}


def preset(name: str) -> Rules:
    """The rules of the search called `name`."""
    if name not in PRESETS:
        close = difflib.get_close_matches(name, PRESETS, n=1, cutoff=0.4)
        hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(PRESETS)}."
        raise NonZeroError(f"unknown search preset '{name}': {hint}")
    return PRESETS[name]
