"""The exact best payoff of a game: its own closed form, else enumeration, else unknown."""

import hashlib
import json
import os
import tempfile
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from nonzero.envs.payoffs_rules import Optimum, PayoffGame

MAX_JOINT_ACTIONS = 10**8
CACHED_FROM = 10**6
"""Enumerations of fewer joint actions take under a second and are not worth a file."""
CHUNK = 2**17
VERSION = 1


def optimum(game: PayoffGame) -> Optimum | None:
    """The best joint action of `game`; None, unknown, where it has no closed form and over 10^8 of them.

    Long enumerations are kept in the user's cache directory (`XDG_CACHE_HOME`, else `~/.cache`).
    """
    known = game.optimum()
    if known is not None:
        return known
    joint_actions = game.num_actions**game.num_agents
    if joint_actions > MAX_JOINT_ACTIONS:
        return None
    if joint_actions < CACHED_FROM:
        return enumerate_optimum(game)
    path = cache_path(game)
    cached = _read(path, game)
    if cached is None:
        cached = enumerate_optimum(game)
        _write(path, cached)
    return cached


def enumerate_optimum(game: PayoffGame) -> Optimum:
    """The best of all joint actions; of equals the first, agent 0 counting fastest."""
    if game.num_actions**game.num_agents > MAX_JOINT_ACTIONS:
        raise ValueError(f"{game.num_actions}^{game.num_agents} joint actions are too many to enumerate")
    value, index = _best_index(game)
    actions = _decode(index, game.num_agents, game.num_actions)
    return Optimum(float(value), tuple(int(action) for action in actions))


@eqx.filter_jit
def _best_index(game: PayoffGame) -> tuple[Float[Array, ""], Int[Array, ""]]:
    total = game.num_actions**game.num_agents
    chunk = min(CHUNK, total)

    def look_at(step: Int[Array, ""], best: tuple[Array, Array]) -> tuple[Array, Array]:
        # The last chunk looks at some joint actions twice rather than past the end.
        indices = jnp.minimum(step * chunk, total - chunk) + jnp.arange(chunk)
        actions = jax.vmap(lambda index: _decode(index, game.num_agents, game.num_actions))(indices)
        payoffs = jax.vmap(game.payoff)(actions)
        winner = jnp.argmax(payoffs)
        is_better = payoffs[winner] > best[0]
        return jnp.where(is_better, payoffs[winner], best[0]), jnp.where(is_better, indices[winner], best[1])

    start = jnp.float32(-jnp.inf), jnp.int32(0)
    return jax.lax.fori_loop(0, -(-total // chunk), look_at, start)


def _decode(index: Int[Array, ""], num_agents: int, num_actions: int) -> Int[Array, " I"]:
    return index // num_actions ** jnp.arange(num_agents) % num_actions


def cache_path(game: PayoffGame) -> Path:
    """Where the optimum of `game` is kept: the name hashes its kind, size, arrays and some payoffs."""
    digest = hashlib.sha256(f"{type(game).__qualname__} {game.num_agents}x{game.num_actions}".encode())
    for leaf in jax.tree.leaves(game):
        is_key = jnp.issubdtype(jnp.asarray(leaf).dtype, jax.dtypes.prng_key)
        digest.update(np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes())
    # Payoffs tell apart what the arrays do not: static settings, and rules that were edited meanwhile.
    shape = (1024, game.num_agents)
    probes = jnp.asarray(np.random.default_rng(0).integers(game.num_actions, size=shape), jnp.int32)
    digest.update(np.asarray(jax.vmap(game.payoff)(probes)).tobytes())
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nonzero"
    return folder / f"optimum-v{VERSION}-{digest.hexdigest()[:32]}.json"


def _read(path: Path, game: PayoffGame) -> Optimum | None:
    """The cached optimum; None where the file is missing, damaged or not of this game's size."""
    try:
        content = json.loads(path.read_text())
        value, actions = float(content["value"]), tuple(int(action) for action in content["actions"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    fits = len(actions) == game.num_agents and all(0 <= action < game.num_actions for action in actions)
    return Optimum(value, actions) if fits else None


def _write(path: Path, best: Optimum) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, suffix=".json", delete=False) as file:
            json.dump({"value": best.value, "actions": best.actions}, file)
        os.replace(file.name, path)
    except OSError:
        # A cache that cannot be written costs time, not correctness.
        return
