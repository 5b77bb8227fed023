"""Expansion: which joint actions a new node considers, and the random numbers of a simulation."""

from dataclasses import dataclass
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.types import PRIOR, Candidates

MAX_ENUMERATED = 4096


@dataclass(frozen=True)
class Expansion:
    """Which candidates a node starts with."""

    candidates: Literal["sampled", "enumerated"] = "sampled"
    """K independent draws from the factored prior, duplicates merged; or every joint action (tiny games)."""
    prior_share: float = 1.0
    """The share of the K slots that the prior fills (rounded up); the rest waits for proposals."""
    policy_floor: float = 0.0
    """Inside the tree an action below this share of its agent's likeliest one's probability is impossible."""
    legal_floor: float = 1e-4
    """Probability added to every legal action at the root, so that none is out of reach."""

    def num_prior(self, num_slots: int) -> int:
        """How many samples of the prior a node starts with."""
        return max(1, int(np.ceil(self.prior_share * num_slots))) if self.candidates == "sampled" else 0


class Draws(eqx.Module):
    """All random numbers of one simulation but the model's."""

    sampling: Float[Array, "B K I"]
    tie: Float[Array, "B"]
    proposal: PRNGKeyArray
    model: PRNGKeyArray


def simulation_draws(
    key: PRNGKeyArray, simulation: Int[Array, ""] | int, batch: int, num_samples: int, num_agents: int
) -> Draws:
    """The draws of one simulation; the root's candidates are drawn as those of simulation -1."""
    numbers, proposal, model = jax.random.split(jax.random.fold_in(key, simulation + 1), 3)
    count = num_samples * num_agents
    uniform = jax.random.uniform(numbers, (batch, 1 + count))
    return Draws(uniform[:, 1:].reshape(batch, num_samples, num_agents), uniform[:, 0], proposal, model)


def root_policy(
    rule: Expansion, logits: Float[Array, "B I A"], legal: Bool[Array, "B I A"], noise: Float[Array, "B I A"]
) -> Float[Array, "B I A"]:
    """The root's prior: the policy over legal actions mixed with `noise`, whose sum is the share it gets."""
    policy = legal * (jax.nn.softmax(logits, axis=-1) + rule.legal_floor)
    policy = policy / jnp.sum(policy, axis=-1, keepdims=True)
    return policy * (1.0 - jnp.sum(noise, axis=-1, keepdims=True)) + noise


@jax.jit
def dirichlet_noise(
    key: PRNGKeyArray,
    legal: Bool[Array, "B I A"],
    fraction: Float[Array, ""],
    alpha: Float[Array, ""],
) -> Float[Array, "B I A"]:
    """Dirichlet noise over each agent's legal actions, scaled to sum to `fraction`; nothing is drawn at 0."""

    def draw() -> Float[Array, "B I A"]:
        noise = legal * (jax.nn.softmax(log_gamma(key, alpha, legal.shape), axis=-1) + 1e-4)
        return fraction * noise / jnp.sum(noise, axis=-1, keepdims=True)

    return jax.lax.cond(fraction > 0, draw, lambda: jnp.zeros(legal.shape))


def log_gamma(key: PRNGKeyArray, alpha: Float[Array, ""], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Logarithms of Gamma(α) numbers, by Marsaglia and Tsang's method.

    All numbers are drawn at once, then all again until none is left that was refused (one in twenty is):
    jax.random.gamma goes number by number, which took as long as many simulations.
    """
    power_key, key = jax.random.split(key)
    scale = alpha + 2.0 / 3.0

    def draw(carry: tuple) -> tuple:
        number, drawn, is_drawn = carry
        normal_key, uniform_key = jax.random.split(jax.random.fold_in(key, number))
        normal = jax.random.normal(normal_key, shape)
        cube = (1.0 + normal / jnp.sqrt(9.0 * scale)) ** 3
        log_cube = jnp.log(jnp.maximum(cube, 1e-30))
        chance = jnp.square(normal) / 2.0 + scale * (1.0 - cube + log_cube)
        is_accepted = (cube > 0) & (jnp.log(jax.random.uniform(uniform_key, shape)) < chance)
        drawn = jnp.where(is_accepted & ~is_drawn, jnp.log(scale) + log_cube, drawn)
        return number + 1, drawn, is_drawn | is_accepted

    start = (jnp.int32(0), jnp.zeros(shape), jnp.zeros(shape, bool))
    _, drawn, _ = jax.lax.while_loop(lambda carry: ~jnp.all(carry[2]), draw, start)
    # That was Gamma(α + 1); times U^(1/α) it is Gamma(α).
    return drawn + jnp.log(jax.random.uniform(power_key, shape, minval=1e-30)) / alpha


def interior_policy(
    rule: Expansion, logits: Float[Array, "B I A"]
) -> tuple[Float[Array, "B I A"], Bool[Array, "B I A"]]:
    """The prior inside the tree, and which actions it holds possible, [B, I, A] each."""
    # In terms of logits: the compiler would compute probabilities anew for every sample that asks.
    possible = logits > -jnp.inf
    if rule.policy_floor > 0:
        possible &= logits >= jnp.max(logits, axis=-1, keepdims=True) + np.log(rule.policy_floor)
        logits = jnp.where(possible, logits, -jnp.inf)
    return jax.nn.softmax(logits, axis=-1), possible


def new_candidates(
    rule: Expansion,
    policy: Float[Array, "B I A"],
    possible: Bool[Array, "B I A"],
    sampling: Float[Array, "B K I"],
    num_slots: int,
) -> Candidates:
    """The candidates of a new node, in `num_slots` slots."""
    if rule.candidates == "enumerated":
        return enumerated(policy, possible)
    return merged(sample(policy, possible, sampling), num_slots)


def sample(
    policy: Float[Array, "B I A"], possible: Bool[Array, "B I A"], draws: Float[Array, "B K I"]
) -> Int[Array, "B K I"]:
    """Joint actions of possible actions: each agent's cumulative policy inverted at `draws`."""
    num_actions = policy.shape[-1]
    number = jnp.arange(num_actions, dtype=jnp.int32)
    # As a matrix product: an eighth of the time that jnp.cumsum takes on a CPU.
    cumulative = jnp.matmul(
        policy, np.triu(np.ones((num_actions, num_actions), np.float32)), precision="highest"
    )
    # Rounding in the sum may leave the last possible action short of the total, or lift an impossible one.
    reachable = jnp.where(possible, cumulative, -jnp.inf)[:, None]
    last = jnp.max(jnp.where(possible, number, 0), axis=-1)[:, None]
    threshold = (draws * cumulative[:, None, :, -1])[..., None]
    return jnp.minimum(jnp.min(jnp.where(reachable > threshold, number, num_actions), axis=-1), last)


def merged(actions: Int[Array, "B K I"], num_slots: int) -> Candidates:
    """Samples as candidates: of equal ones the first stays and the slots of the others are empty.

    A candidate's prior in the bound is π·β̂/β, with β̂ its share of the samples. Samples here come from the
    prior itself, so β is π and the share is what remains.
    """
    batch, num_samples, _ = actions.shape
    equal = jnp.all(actions[:, :, None] == actions[:, None], axis=-1)
    number = np.arange(num_samples)
    filled = ~jnp.any(equal & (number[None, :] < number[:, None]), axis=-1)
    prior = jnp.where(filled, jnp.sum(equal, axis=-1) / num_samples, 0.0)
    spare = num_slots - num_samples
    return Candidates(
        actions=jnp.pad(actions, ((0, 0), (0, spare), (0, 0))),
        prior=jnp.pad(prior, ((0, 0), (0, spare))),
        filled=jnp.pad(filled, ((0, 0), (0, spare))),
        origin=jnp.full((batch, num_slots), PRIOR, jnp.int8),
    )


def enumerated(policy: Float[Array, "B I A"], possible: Bool[Array, "B I A"]) -> Candidates:
    """Every joint action as a candidate, the possible ones filled, with its probability as prior."""
    batch, num_agents, num_actions = policy.shape
    shape = (num_actions,) * num_agents
    actions = np.stack(np.unravel_index(np.arange(num_actions**num_agents), shape), axis=-1).astype(np.int32)
    agents = np.arange(num_agents)
    filled = jnp.all(possible[:, agents, actions], axis=-1)
    return Candidates(
        actions=jnp.broadcast_to(actions, (batch, *actions.shape)),
        prior=jnp.where(filled, jnp.prod(policy[:, agents, actions], axis=-1), 0.0),
        filled=filled,
        origin=jnp.full(filled.shape, PRIOR, jnp.int8),
    )
