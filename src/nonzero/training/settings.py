"""All that can be set about learning, in sections; the presets of `nonzero train` are these with values."""

from dataclasses import dataclass, field

from nonzero.model.settings import ModelSettings


@dataclass(frozen=True)
class SearchSettings:
    """How much the search may look at, and how much chance it adds."""

    simulations: int = 50
    """Simulations of a search."""
    candidates: int = 3
    """K, joint actions that a node may consider."""
    dirichlet_fraction: float = 0.25
    """Share of noise in the root's prior while learning."""
    dirichlet_alpha: float = 0.3
    """Concentration of that noise."""
    temperature: float = 1.0
    """Of the visits, when acting while learning; 0 takes the most visited."""
    changed_share: float = 0.0
    """Share of steps, while learning, in which two agents do something random instead of what was chosen."""


@dataclass(frozen=True)
class CollectSettings:
    """How play is gathered and kept."""

    environments: int = 5
    """Environments played side by side."""
    replay_steps: int = 100_000
    """Steps kept, of all environments together."""
    first_steps: int = 50
    """Steps of all environments together before the first update; their updates are then caught up on."""
    updates_per_step: int = 1
    """Gradient updates for each environment step."""
    priority_exponent: float = 0.6
    """How much priorities matter when sampling; 0 for not at all."""
    priority_correction: float = 0.4
    """β at the start of weights (N p)^-β that correct for it; at the end it is 1."""


GAINS = ("reward", "return")


@dataclass(frozen=True)
class TargetSettings:
    """What predictions are held against."""

    discount: float = 0.99
    """γ."""
    unroll_steps: int = 5
    """Steps that the model imagines from each sampled position."""
    return_steps: int = 5
    """n of n-step returns."""
    gain: str = "reward"
    """What the mixing network says of a joint action: its "reward" (the paper's), or its "return", which is
    the reward, and what the target network's value grows by."""
    old_after: int = 0
    """Environment steps after which a return counts one reward less, and so on; 0 for never."""
    target_interval: int = 200
    """Updates after which the target network moves towards the current one."""
    target_rate: float = 1.0
    """How far it then moves: 1 is all the way; less makes it an average over the last updates."""
    target_plays: bool = False
    """Whether the target network plays, while learning and when judged, rather than the current one."""
    reanalyse_share: float = 1.0
    """Share of each batch whose policy targets are searched anew with the target network."""
    stored_weight: float = 1.0
    """Weight, in the policy's loss, of the targets that acting had stored."""


@dataclass(frozen=True)
class LossSettings:
    """How the losses are weighed."""

    reward: float = 1.0
    """Weight of the reward loss."""
    value: float = 0.25
    """Weight of the value loss."""
    policy: float = 1.0
    """Weight of the policy loss."""
    consistency: float = 2.0
    """Weight of the consistency loss; 0 leaves it out."""
    surrogate: float = 1.0
    """Weight of the mixing network's loss, where there is one."""
    surrogate_ridge: float = 1e-4
    """λ, ridge on the predicted surrogate."""
    entropy: float = 0.0
    """Weight of the policy's entropy, which is made large."""
    advantage_temperature: float = 3.0
    """τ of the advantage weights."""
    advantage_clip: float = 3.0
    """The largest advantage weight."""


@dataclass(frozen=True)
class OptimiserSettings:
    """How parameters follow gradients."""

    batch: int = 256
    """Windows in a batch."""
    learning_rate: float = 1e-4
    """Of Adam."""
    adam_epsilon: float = 1e-5
    """Of Adam."""
    max_gradient_norm: float = 5.0
    """Longer gradients are shortened."""


@dataclass(frozen=True)
class Settings:
    """Everything; the defaults are the paper's table."""

    model: ModelSettings = field(default_factory=ModelSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    collect: CollectSettings = field(default_factory=CollectSettings)
    target: TargetSettings = field(default_factory=TargetSettings)
    loss: LossSettings = field(default_factory=LossSettings)
    optimiser: OptimiserSettings = field(default_factory=OptimiserSettings)
