"""How many simulations a second the search makes, beside mctx and beside the network alone.

All use the same network and sample the same number of joint actions at every node; they alternate within a
run, so that whatever else the machine does hits all of them. The network alone is the bound.
"""

import importlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from nonzero.experiments.bench_model import WIDTH, Network, recurrent
from nonzero.search import preset, search
from nonzero.search.expand import merged, sample
from nonzero.types import ModelOutputs, NonZeroError

SHAPES = ((3, 9), (8, 14), (27, 36))
BATCHES = (1, 32, 256)
METHODS = ("mazero", "mctx", "network")


@dataclass(frozen=True)
class Setting:
    """One cell of the measurement."""

    agents: int
    actions: int
    batch: int
    simulations: int
    candidates: int


def bench_search(
    shapes: Sequence[tuple[int, int]] = SHAPES,
    batches: Sequence[int] = BATCHES,
    *,
    simulations: Sequence[int] = (100,),
    candidates: int = 7,
    methods: Sequence[str] = METHODS,
    alternations: int = 5,
    seconds: float = 1.0,
) -> list[dict[str, object]]:
    """Measure each method in each setting, `alternations` times for about `seconds`; one row each."""
    if alternations < 1 or seconds <= 0:
        raise ValueError(f"alternations and seconds must be positive, not {alternations} and {seconds}")
    rows: list[dict[str, object]] = []
    for agents, actions in shapes:
        for batch in batches:
            for count in simulations:
                setting = Setting(agents, actions, batch, count, candidates)
                rows += measure(setting, methods, alternations, seconds)
    return rows


def measure(
    setting: Setting, methods: Sequence[str], alternations: int, seconds: float
) -> list[dict[str, object]]:
    """The rows of one setting."""
    runs = {method: planner(method, setting) for method in methods}
    repeats = {}
    for method, run in runs.items():
        run(0)
        repeats[method] = max(1, round(seconds / timed(run, 1)))
    times: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(alternations):
        for method, run in runs.items():
            times[method].append(timed(run, repeats[method]) / repeats[method])
    work = setting.batch * setting.simulations
    return [
        vars(setting) | {"method": method, "simulations_per_second": work / statistics.median(times[method])}
        for method in methods
    ]


def timed(run: Callable[[int], None], repeats: int) -> float:
    """Seconds that `repeats` runs take."""
    start = time.perf_counter()
    for seed in range(repeats):
        run(seed)
    return time.perf_counter() - start


def planner(method: str, setting: Setting) -> Callable[[int], None]:
    """A function of a seed that plans once and waits for the result."""
    network = Network(jax.random.key(0), setting.actions)
    latent = jax.random.normal(jax.random.key(1), (setting.batch, setting.agents, WIDTH))
    plan: Callable[[jax.Array], Any]
    if method == "network":
        plan = network_alone(network, latent, setting)
    elif method == "mctx":
        plan = mctx_planner(network, latent, setting)
    else:
        plan = own_planner(method, network, latent, setting)

    def run(seed: int) -> None:
        jax.block_until_ready(plan(jax.random.key(seed)))

    return run


def own_planner(
    name: str, network: Network, latent: jax.Array, setting: Setting
) -> Callable[[jax.Array], Any]:
    """The search under the preset `name`."""
    root = (jax.jit(Network.outputs)(network, latent), latent)
    rules = preset(name)

    def plan(key: jax.Array) -> Any:
        return search(
            recurrent,
            network,
            root,
            key,
            num_simulations=setting.simulations,
            num_candidates=setting.candidates,
            rules=rules,
        )

    return plan


def network_alone(network: Network, latent: jax.Array, setting: Setting) -> Callable[[jax.Array], Any]:
    """As many evaluations of the network in a row as a search makes, each of the last one's latents."""

    @jax.jit
    def plan(network: Network, latent: jax.Array, key: jax.Array) -> Any:
        shape = (setting.simulations, setting.batch, setting.agents)
        actions = jax.random.randint(key, shape, 0, setting.actions)

        def step(index: int, carry: tuple[jax.Array, ModelOutputs]) -> tuple[jax.Array, ModelOutputs]:
            outputs, following = recurrent(network, key, actions[index], carry[0])
            return following, jax.tree.map(jnp.add, carry[1], outputs)

        return jax.lax.fori_loop(0, setting.simulations, step, (latent, network.outputs(latent)))

    return lambda key: plan(network, latent, key)


def mctx_planner(network: Network, latent: jax.Array, setting: Setting) -> Callable[[jax.Array], Any]:
    """mctx over joint actions sampled at every node: an action is a slot, the embedding has the samples."""
    try:
        mctx: Any = importlib.import_module("mctx")
    except ImportError as error:
        raise NonZeroError("measuring mctx needs it: pip install 'nonzero-mcts[bench]'") from error

    def sampled(key: jax.Array, outputs: ModelOutputs) -> tuple[jax.Array, jax.Array]:
        policy = jax.nn.softmax(outputs.policy_logits)
        draws = jax.random.uniform(key, (setting.batch, setting.candidates, setting.agents))
        candidates = merged(sample(policy, policy > 0, draws), setting.candidates)
        return candidates.actions, jnp.log(jnp.maximum(candidates.prior, 1e-30))

    def step(network: Network, key: jax.Array, slot: jax.Array, node: tuple) -> tuple[Any, tuple]:
        latent, actions = node
        chosen = actions[jnp.arange(setting.batch), slot]
        outputs, following = recurrent(network, key, chosen, latent)
        actions, logits = sampled(key, outputs)
        answer = mctx.RecurrentFnOutput(
            reward=outputs.reward, discount=outputs.discount, prior_logits=logits, value=outputs.value
        )
        return answer, (following, actions)

    @jax.jit
    def plan(network: Network, latent: jax.Array, key: jax.Array) -> Any:
        outputs = network.outputs(latent)
        actions, logits = sampled(key, outputs)
        root = mctx.RootFnOutput(prior_logits=logits, value=outputs.value, embedding=(latent, actions))
        answer = mctx.muzero_policy(network, key, root, step, setting.simulations)
        return answer.action, answer.action_weights

    return lambda key: plan(network, latent, key)
