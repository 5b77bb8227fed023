"""Search algorithms as data: each is the one search with other rules.

`dataclasses.replace` changes one. What tells them apart:

| preset | candidates | selection | values |
|---|---|---|---|
| nonzero | K prior samples, then changes of the best | at the root NonUCT, below as sampled-muzero | mean |
| paper | prior samples, then NonUCT at expansion; θ by gradient steps | largest η | OS(λ) |
| flat | as nonzero | NonUCT at the root, and no tree below it | mean |
| flat-r0 | as flat, with the paper's surrogate of rank 0 | as flat | mean |
| without-mixing-net | as nonzero; θ starts where the policy leans, the model unheard | as nonzero | mean |
| without-curvature | as nonzero, one agent's changes, no interactions in θ | as nonzero | mean |
| without-both | both of these | as nonzero | mean |
| mazero | K prior samples, prior corrected by β̂/β | advantage, pUCT | OS(λ) |
| mazero-np | as mazero | advantage, pUCT with a uniform prior | OS(λ) |
| ma-alphazero | as mazero | Q, pUCT, root slots first once each | mean |
| sampled-muzero | as mazero | Q, pUCT from the first simulation on | mean |
| enumerate | every joint action (tiny games) | as sampled-muzero | mean |
"""

import difflib
import math
from dataclasses import dataclass, field, replace
from typing import Any

from nonzero.search.backup import Averaging
from nonzero.search.expand import MAX_ENUMERATED, Expansion
from nonzero.search.gradient import GradientRule
from nonzero.search.guide import Guide
from nonzero.search.proposals import SurrogateRule, Widening
from nonzero.search.select import Selection
from nonzero.surrogate.posterior import Beliefs
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
    guide: Guide | None = None
    """The bandit that decides at the root, in place of `selection`."""

    @property
    def learns_surrogate(self) -> bool:
        """Whether θ starts where a model says, so that a model should learn to say it."""
        return any(
            isinstance(rule, (Guide, GradientRule)) and rule.uses_model
            for rule in (self.guide, self.surrogate)
        )

    @property
    def sees_pairs(self) -> bool:
        """Whether θ has terms of pairs of agents."""
        if isinstance(self.surrogate, GradientRule):
            return self.surrogate.rank > 0
        return self.guide is None or self.guide.beliefs.pair_share > 0

    def counterfactuals(self, num_agents: int) -> int:
        """Samples of Eq. 7 for each simulation; with one agent there is nothing to combine."""
        if isinstance(self.surrogate, GradientRule) and num_agents > 1:
            return self.surrogate.counterfactuals
        return 0

    def without_chance(self) -> "Rules":
        """The rules for a model that always answers alike."""
        return self if self.guide is None else replace(self, guide=self.guide.without_chance())


OPTIMISTIC = Averaging(rho=0.75, lam=0.8)
MUZERO = Selection(worth="q", counts_own_visit=True, tries_root_in_order=False)

GUIDED = Rules(selection=MUZERO, guide=Guide())
ADDITIVE = Beliefs(pair_share=0.0)
PAPER = Rules(
    expansion=Expansion(prior_share=0.5),
    selection=Selection(kappa=math.inf, exploration=0.0),
    averaging=OPTIMISTIC,
    surrogate=GradientRule(rank=0, counterfactuals=1, target="reward"),
    # All proposals come with the node: Algorithm 1 has none later.
    widening=Widening(start=MAX_ENUMERATED, rate=0.0),
)


def guided(**changes: Any) -> Rules:
    """The rules of nonzero, its guide changed."""
    return replace(GUIDED, guide=replace(Guide(), **changes))


PRESETS: dict[str, Rules] = {
    "nonzero": GUIDED,
    "paper": PAPER,
    "flat": guided(asks_anew=math.inf),
    "flat-r0": guided(asks_anew=math.inf, beliefs=ADDITIVE),
    "without-mixing-net": guided(uses_model=False),
    "without-curvature": guided(beliefs=ADDITIVE, pairs=False),
    "without-both": guided(uses_model=False, beliefs=ADDITIVE, pairs=False),
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
