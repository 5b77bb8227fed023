"""The random numbers of the plain search: fresh ones to plan with, or those of the compiled search."""

from typing import Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from nonzero.search.expand import dirichlet_noise, simulation_draws


@runtime_checkable
class Draws(Protocol):
    """The random numbers of a search; simulation -1 is the root's expansion."""

    def noise(self, legal: np.ndarray, fraction: float, alpha: float) -> np.ndarray:
        """Dirichlet noise [I, A] over each agent's legal actions that sums to `fraction`."""
        ...

    def sampling(self, simulation: int, num_samples: int, num_agents: int) -> np.ndarray:
        """Uniform numbers [K, I] that sample a new node's candidates."""
        ...

    def tie(self, simulation: int) -> float:
        """A uniform number that breaks ties."""
        ...

    def proposal(self, simulation: int) -> PRNGKeyArray:
        """The key of the simulation's proposals."""
        ...

    def slot(self, weights: np.ndarray) -> int:
        """A slot drawn in proportion to `weights` [K]."""
        ...


class FreshDraws:
    """Draws from a numpy generator: what a planner needs."""

    def __init__(self, seed: int) -> None:
        self._generator = np.random.default_rng(seed)

    def noise(self, legal: np.ndarray, fraction: float, alpha: float) -> np.ndarray:
        """Dirichlet noise [I, A]."""
        noise = legal * (self._generator.dirichlet(np.full(legal.shape[1], alpha), legal.shape[0]) + 1e-4)
        return fraction * noise / noise.sum(axis=1, keepdims=True)

    def sampling(self, simulation: int, num_samples: int, num_agents: int) -> np.ndarray:
        """Uniform numbers [K, I]."""
        return self._generator.random((num_samples, num_agents))

    def tie(self, simulation: int) -> float:
        """A uniform number."""
        return self._generator.random()

    def proposal(self, simulation: int) -> PRNGKeyArray:
        """A key."""
        return jax.random.key(self._generator.integers(2**31))

    def slot(self, weights: np.ndarray) -> int:
        """A slot drawn in proportion to `weights` [K]."""
        return int(self._generator.choice(len(weights), p=weights))


drawn = jax.jit(simulation_draws, static_argnums=(2, 3, 4))


class SameDraws:
    """The draws of the compiled search of a batch of one under `key`."""

    def __init__(self, key: PRNGKeyArray, num_samples: int, num_agents: int) -> None:
        self._sizes = (1, num_samples, num_agents)
        self._noise_key, key = jax.random.split(key)
        self._action_key, self._key = jax.random.split(key)

    def noise(self, legal: np.ndarray, fraction: float, alpha: float) -> np.ndarray:
        """Dirichlet noise [I, A]."""
        noise = dirichlet_noise(
            self._noise_key, jnp.asarray(legal)[None], jnp.float32(fraction), jnp.float32(alpha)
        )
        return np.asarray(noise[0], np.float64)

    def sampling(self, simulation: int, num_samples: int, num_agents: int) -> np.ndarray:
        """Uniform numbers [K, I]."""
        return np.asarray(drawn(self._key, simulation, *self._sizes).sampling[0], np.float64)

    def tie(self, simulation: int) -> float:
        """A uniform number."""
        return float(drawn(self._key, simulation, *self._sizes).tie[0])

    def proposal(self, simulation: int) -> PRNGKeyArray:
        """The key of the simulation's proposals."""
        return drawn(self._key, simulation, *self._sizes).proposal

    def model(self, simulation: int) -> PRNGKeyArray:
        """The key of the simulation's step of the model, which the plain search leaves to its caller."""
        return drawn(self._key, simulation, *self._sizes).model

    def slot(self, weights: np.ndarray) -> int:
        """A slot drawn in proportion to `weights` [K]."""
        with np.errstate(divide="ignore"):
            logits = jnp.asarray(np.log(weights / weights.max()), jnp.float32)
        return int(jax.random.categorical(self._action_key, logits[None])[0])
