"""Planners to compare: the search under its presets, mctx, and the network alone, which is the bound.

All use the same network and sample the same number of joint actions at every node.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from nonzero.experiments.bench_model import WIDTH, Network, recurrent
from nonzero.experiments.mctx_search import mctx_search
from nonzero.search import preset, search
from nonzero.types import ModelOutputs, NonZeroError

PEER, BOUND = "mctx", "network"

Planner = Callable[[Network, jax.Array, jax.Array], Any]
"""From the network, the roots' latents [B, I, D] and a key to anything that needs the whole plan."""


@dataclass(frozen=True)
class Setting:
    """One cell of the measurement."""

    agents: int
    actions: int
    batch: int
    simulations: int
    candidates: int


def check_method(method: str) -> None:
    """Refuse what is neither mctx, installed, nor "network" nor a preset."""
    if method == PEER and importlib.util.find_spec(PEER) is None:
        raise NonZeroError("measuring mctx needs it: pip install 'nonzero-mcts[bench]'")
    if method not in (PEER, BOUND):
        preset(method)


def arguments(setting: Setting) -> tuple[Network, jax.Array]:
    """The network and the latents of a setting, random and always the same."""
    network = Network(jax.random.key(0), setting.actions)
    return network, jax.random.normal(jax.random.key(1), (setting.batch, setting.agents, WIDTH))


def planner(method: str, setting: Setting) -> Planner:
    """The function to compile that plans by `method`."""
    if method == BOUND:
        return network_alone(setting)
    return mctx_planner(setting) if method == PEER else own_planner(method, setting)


def own_planner(name: str, setting: Setting) -> Planner:
    """The search under the preset `name`."""
    rules = preset(name)

    def plan(network: Network, latent: jax.Array, key: jax.Array) -> Any:
        root = (network.outputs(latent), latent)
        return search(
            recurrent,
            network,
            root,
            key,
            num_simulations=setting.simulations,
            num_candidates=setting.candidates,
            rules=rules,
            is_exact=False,
        )

    return plan


def network_alone(setting: Setting) -> Planner:
    """As many evaluations of the network in a row as a search makes, each of the last one's latents."""

    def plan(network: Network, latent: jax.Array, key: jax.Array) -> Any:
        shape = (setting.simulations, setting.batch, setting.agents)
        actions = jax.random.randint(key, shape, 0, setting.actions)

        def step(index: jax.Array, carry: tuple[jax.Array, ModelOutputs]) -> tuple[jax.Array, ModelOutputs]:
            outputs, following = recurrent(network, key, actions[index], carry[0])
            return following, jax.tree.map(jnp.add, carry[1], outputs)

        return jax.lax.fori_loop(0, setting.simulations, step, (latent, network.outputs(latent)))

    return plan


def mctx_planner(setting: Setting) -> Planner:
    """mctx over joint actions sampled at every node."""

    def plan(network: Network, latent: jax.Array, key: jax.Array) -> Any:
        return mctx_search(
            recurrent,
            network,
            (network.outputs(latent), latent),
            key,
            num_simulations=setting.simulations,
            num_candidates=setting.candidates,
        )

    return plan
