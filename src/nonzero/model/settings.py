"""The sizes of the networks; apart from them, so that the command line can list these without jax."""

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelSettings:
    """Sizes of the networks."""

    history: int = 4
    """Observations that an agent sees at once, the latest last."""
    width: int = 128
    """Numbers in an agent's latent."""
    representation_layers: tuple[int, ...] = (128,)
    """Hidden layers of the representation h."""
    dynamics_layers: tuple[int, ...] = (128,)
    """Hidden layers of the dynamics g."""
    head_layers: tuple[int, ...] = (32,)
    """Hidden layers of the heads of reward, value and policy."""
    mixing_layers: tuple[int, ...] = (64, 64)
    """Hidden layers of the mixing network m."""
    projection_layers: tuple[int, ...] = (128, 128)
    """Layers of the projection in the consistency loss; the prediction goes through half its width."""
    attention_layers: int = 1
    """Rounds of attention across agents in the communication e."""
    attention_heads: int = 4
    """Heads of each attention layer."""
    bins: int = 101
    """Bins of the distributions of reward and value."""
    rank: int = 4
    """R, the pairwise factors of the surrogate that the mixing network predicts."""
