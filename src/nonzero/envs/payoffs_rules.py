"""The rules of one-shot payoff games: every agent picks an action, all get the same payoff.

A game is a pytree whose arrays grow with agents × actions (times a small power), never with the number of
joint actions. Two games of one kind and size differ only in their arrays, so a function compiled with the
game as an argument serves every seed. Axes as in `nonzero.types`; E counts pairs of agents.
"""

import abc
import math
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nonzero.envs.payoffs_best import MOST_HALVES, best_of_halves, best_on_ring
from nonzero.envs.payoffs_noise import NOISE_BOUND, gaussian_plus_uniform, joint_action_words


@dataclass(frozen=True)
class Optimum:
    """The best payoff of a game and a joint action that has it."""

    value: float
    actions: tuple[int, ...]


class PayoffGame(eqx.Module):
    """A payoff for every joint action; `payoff` may be compiled and vmapped."""

    num_agents: int = eqx.field(static=True)
    num_actions: int = eqx.field(static=True)

    @abc.abstractmethod
    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """The expected payoff of a joint action `[I]`."""

    @abc.abstractmethod
    def bounds(self) -> tuple[float, float]:
        """Numbers that no payoff and no drawn reward lies outside; not always attained."""

    def reward(self, actions: Int[Array, " I"], key: PRNGKeyArray) -> Float[Array, ""]:
        """The reward `[]` of playing `actions` `[I]` once: the payoff itself unless the game is noisy."""
        del key
        return self.payoff(actions)

    def optimum(self) -> Optimum | None:
        """The best joint action where it is known without enumeration, else None."""
        return None

    def known_optimum(self, actions: Int[Array, " I"] | None) -> Optimum | None:
        """An `Optimum` of the joint action `[I]`, valued by this game's own arithmetic."""
        if actions is None:
            return None
        return Optimum(float(self.payoff(actions)), tuple(int(action) for action in actions))


class Linear(PayoffGame):
    """Σ_i (a_i + 1)."""

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """The sum of the actions counted from one."""
        return jnp.sum(actions + 1).astype(jnp.float32)

    def bounds(self) -> tuple[float, float]:
        """All first actions, all last actions."""
        return float(self.num_agents), float(self.num_agents * self.num_actions)

    def optimum(self) -> Optimum | None:
        """Every agent's last action."""
        return self.known_optimum(jnp.full(self.num_agents, self.num_actions - 1))


class NoisyLinear(Linear):
    """The linear game with noise N(0, 2²) + U(−3, 3) drawn anew each time; `payoff` is the mean."""

    def reward(self, actions: Int[Array, " I"], key: PRNGKeyArray) -> Float[Array, ""]:
        """The linear payoff with fresh noise."""
        # Hashed once more, since the words of a key made straight from a small seed are not random.
        return self.payoff(actions) + gaussian_plus_uniform(jax.random.fold_in(key, 0))

    def bounds(self) -> tuple[float, float]:
        """The linear bounds, widened by the largest noise."""
        low, high = Linear.bounds(self)
        return low - NOISE_BOUND, high + NOISE_BOUND


class Nonlinear(PayoffGame):
    """The linear game plus noise N(0, 2²) + U(−3, 3) that belongs to the joint action."""

    key: PRNGKeyArray

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """The linear payoff plus this joint action's own noise, hashed from key and actions."""
        key = self.key
        for word in joint_action_words(actions, self.num_actions):
            key = jax.random.fold_in(key, word)
        return jnp.sum(actions + 1).astype(jnp.float32) + gaussian_plus_uniform(key)

    def bounds(self) -> tuple[float, float]:
        """The linear bounds, widened by the largest noise."""
        linear = self.num_agents, self.num_agents * self.num_actions
        return linear[0] - NOISE_BOUND, linear[1] + NOISE_BOUND


class Additive(PayoffGame):
    """Σ_i table[i, a_i], or `link_scale · asinh` of it."""

    table: Float[Array, "I A"]
    link_scale: float | None = eqx.field(static=True, default=None)

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """The agents' own terms added up, through the link if there is one."""
        total = jnp.sum(self.table[jnp.arange(self.num_agents), actions])
        return total if self.link_scale is None else self.link_scale * jnp.arcsinh(total)

    def bounds(self) -> tuple[float, float]:
        """Everyone's worst and everyone's best."""
        worst, best = jnp.argmin(self.table, axis=1), jnp.argmax(self.table, axis=1)
        return widened(float(self.payoff(worst)), float(self.payoff(best)))

    def optimum(self) -> Optimum | None:
        """Everyone's best: the link is increasing."""
        return self.known_optimum(jnp.argmax(self.table, axis=1))


class LowRank(PayoffGame):
    """Σ_i w[i, a_i] + Σ_{i<j} Σ_f σ_f V[i, a_i, f] V[j, a_j, f]: all pairs interact, through few factors."""

    w: Float[Array, "I A"]
    v: Float[Array, "I A R"]
    signs: Float[Array, " R"]

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """The pair sum from the square of the sum, in time linear in the agents."""
        agents = jnp.arange(self.num_agents)
        rows = self.v[agents, actions]
        pairs = jnp.sum(rows, axis=0) ** 2 - jnp.sum(rows**2, axis=0)
        return jnp.sum(self.w[agents, actions]) + 0.5 * jnp.sum(self.signs * pairs)

    def bounds(self) -> tuple[float, float]:
        """Each agent's and each pair's own extremes added up."""
        w, v, signs = (np.asarray(x, np.float64) for x in (self.w, self.v, self.signs))
        low, high = w.min(axis=1).sum(), w.max(axis=1).sum()
        for i in range(self.num_agents):
            products = np.einsum("af,f,jbf->jab", v[i], signs, v[i + 1 :])
            low, high = low + products.min(axis=(1, 2)).sum(), high + products.max(axis=(1, 2)).sum()
        return widened(low, high)

    def optimum(self) -> Optimum | None:
        """Every half of a joint action with every other half; unknown where there are over 10^4 halves."""
        if self.num_actions ** -(-self.num_agents // 2) > MOST_HALVES:
            return None
        arrays = (np.asarray(x, np.float64) for x in (self.w, self.v, self.signs))
        return self.known_optimum(jnp.asarray(best_of_halves(*arrays), jnp.int32))


class Pairwise(PayoffGame):
    """Σ_i own[i, a_i] + Σ_e tables[e, a_left(e), a_right(e)]: chosen pairs of agents interact."""

    own: Float[Array, "I A"]
    left: Int[Array, " E"]
    right: Int[Array, " E"]
    tables: Float[Array, "E A A"]
    best: Int[Array, " I"]
    limits: tuple[float, float] | None = eqx.field(static=True, default=None)
    """Bounds that hold for all games of a family: what is compiled for one of them then serves all."""

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """One look-up per agent and per pair."""
        own = self.own[jnp.arange(self.num_agents), actions]
        pairs = self.tables[jnp.arange(self.left.shape[0]), actions[self.left], actions[self.right]]
        return jnp.sum(own) + jnp.sum(pairs)

    def bounds(self) -> tuple[float, float]:
        """Each agent's and each pair's own extremes added up, if the family has none of its own."""
        if self.limits is not None:
            return self.limits
        own, tables = np.asarray(self.own, np.float64), np.asarray(self.tables, np.float64)
        low = own.min(axis=1).sum() + tables.min(axis=(1, 2)).sum()
        return widened(low, own.max(axis=1).sum() + tables.max(axis=(1, 2)).sum())

    def optimum(self) -> Optimum | None:
        """The joint action that was best by construction."""
        return self.known_optimum(self.best)


class Penalty(PayoffGame):
    """The mean over all pairs of the penalty game 10, 0, k / 0, 2, 0 / k, 0, 10 on hidden labels."""

    labels: Int[Array, "I A"]
    """The game's action behind each agent's action; labels above 2 pay nothing with anyone."""
    penalty: float = eqx.field(static=True, default=-30.0)

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """How many agents bear each label decides how many pairs of each kind there are."""
        labels = self.labels[jnp.arange(self.num_agents), actions]
        count = jnp.sum(labels[:, None] == jnp.arange(3), axis=0).astype(jnp.float32)
        same = 0.5 * count * (count - 1.0)
        total = 10.0 * (same[0] + same[2]) + 2.0 * same[1] + self.penalty * count[0] * count[2]
        return total / math.comb(self.num_agents, 2)

    def bounds(self) -> tuple[float, float]:
        """No pair gets less than the penalty or more than 10."""
        return widened(min(self.penalty, 0.0), 10.0)

    def optimum(self) -> Optimum | None:
        """All pairs at 10: everyone on label 0 (everyone on label 2 is as good)."""
        return self.known_optimum(jnp.argmax(self.labels == 0, axis=1))


class NK(PayoffGame):
    """NK landscape, K = 2: the mean over a hidden ring of random terms of each agent and its next two."""

    order: Int[Array, " I"]
    """The agent at each place of the ring."""
    tables: Float[Array, "I A A A"]
    """By place, then by the actions at that place and the next two."""

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        """One look-up per place of the ring."""
        first = actions[self.order]
        second, third = jnp.roll(first, -1), jnp.roll(first, -2)
        return jnp.mean(self.tables[jnp.arange(self.num_agents), first, second, third])

    def bounds(self) -> tuple[float, float]:
        """Each place's own extremes, averaged."""
        tables = np.asarray(self.tables, np.float64).reshape(self.num_agents, -1)
        return widened(tables.min(axis=1).mean(), tables.max(axis=1).mean())

    def optimum(self) -> Optimum | None:
        """Dynamic programming around the ring; unknown where d⁵·n passes 10^10, about a minute."""
        if self.num_actions**5 * self.num_agents > 10**10:
            return None
        best = np.empty(self.num_agents, np.int32)
        best[np.asarray(self.order)] = best_on_ring(np.asarray(self.tables, np.float64))
        return self.known_optimum(jnp.asarray(best))


def widened(low: float, high: float) -> tuple[float, float]:
    """Bounds with room for the rounding of a float32 sum."""
    slack = 1e-5 * max(abs(low), abs(high), 1.0)
    return float(low) - slack, float(high) + slack
