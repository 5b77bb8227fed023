"""The conformance check: does an environment keep the promises of `nonzero.types.Environment`?

It plays whole episodes with random legal actions and stops at the first broken promise, naming it in a line.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nonzero.envs.wrappers import AutoReset, AutoResetState
from nonzero.types import Environment, EnvSpec, TimeStep

BATCH = 8
"""Transitions that are played again in one batch, besides the last of each episode."""
TOLERANCE = 1e-4
"""How much one compilation may differ from another, relative to the number or to 1."""


@dataclass(frozen=True)
class Transition:
    """One step of an episode: what was seen, done and returned."""

    state: Any
    seen: TimeStep
    actions: jax.Array
    key: jax.Array
    next_state: Any
    outcome: TimeStep


Episode = list[Transition]


def check_env(env: Environment[Any], *, episodes: int = 3, seed: int = 0) -> None:
    """Play random episodes of `env`; raise an AssertionError that names the first rule it breaks.

    The rules: a hashable spec; shapes, dtypes and finite values; a legal action for every agent before the
    end; flags apart, and only where due; an end within `max_steps`; returns within `return_bounds`; the same
    results from the same keys, alone or vmapped under `AutoReset`; a terminal TimeStep of its own; one
    compilation.
    """
    spec = env.spec
    if not isinstance(spec, EnvSpec):
        raise AssertionError(f"env.spec must be a nonzero.EnvSpec, not {type(spec).__name__}")
    _check_spec(spec)
    reset, step = _Compiled(env.reset), _Compiled(env.step)
    rng = np.random.default_rng(seed)
    keys = jax.random.split(jax.random.key(seed), episodes)
    _check_state_type(env, keys[0])
    played = [_play(spec, reset, step, key, rng) for key in keys]
    for name, compiled in (("reset", reset), ("step", step)):
        _require(
            compiled.traces == 1, spec, f"{name} was compiled {compiled.traces} times in one run, not once"
        )
    _check_same_again(spec, reset, step, keys, played)
    _check_batch(env, reset, step, played)
    _check_terminal_kept(spec, played)


class _Compiled:
    """A compiled function that counts how often it was traced."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.traces = 0

        def counted(*arguments: Any) -> Any:
            self.traces += 1
            return function(*arguments)

        self.call = jax.jit(counted)


def _require(is_kept: bool | np.bool_, spec: EnvSpec, broken: str) -> None:
    if not is_kept:
        raise AssertionError(f"{spec.name}: {broken}")


def _check_spec(spec: EnvSpec) -> None:
    try:
        hash(spec)
    except TypeError as error:
        raise AssertionError(
            f"{spec.name}: spec is not hashable ({error}); give it tuples, not lists"
        ) from None
    for field in ("num_agents", "num_actions", "max_steps"):
        _require(
            getattr(spec, field) >= 1, spec, f"spec.{field} must be at least 1, not {getattr(spec, field)}"
        )
    low, high = spec.return_bounds
    is_interval = math.isfinite(low) and math.isfinite(high) and low <= high
    _require(is_interval, spec, f"spec.return_bounds must be finite and in order, not {spec.return_bounds}")


def _check_state_type(env: Environment[Any], key: jax.Array) -> None:
    """The state must keep structure, shapes and dtypes, or it cannot be carried through a compiled loop."""
    actions = jnp.zeros(env.spec.num_agents, jnp.int32)
    first, _ = jax.eval_shape(env.reset, key)
    later, _ = jax.eval_shape(env.step, first, actions, key)
    same = jax.tree.structure(first) == jax.tree.structure(later)
    _require(same, env.spec, "step returns a state of another structure than reset does")
    for path, start in jax.tree_util.tree_leaves_with_path(first):
        _require(hasattr(start, "dtype"), env.spec, f"state{jax.tree_util.keystr(path)} is not an array")
    for (path, start), after in zip(
        jax.tree_util.tree_leaves_with_path(first), jax.tree.leaves(later), strict=True
    ):
        is_same = (start.shape, start.dtype) == (after.shape, after.dtype)
        where = f"state{jax.tree_util.keystr(path)}"
        _require(is_same, env.spec, f"{where} is {_type(start)} after reset but {_type(after)} after step")


def _type(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _play(
    spec: EnvSpec, reset: _Compiled, step: _Compiled, key: jax.Array, rng: np.random.Generator
) -> Episode:
    """Play one episode with random legal actions, checking each TimeStep."""
    state, seen = reset.call(key)
    _check_time_step(spec, seen, "after reset")
    is_fresh = not (seen.is_last or seen.won or seen.reward)
    _require(is_fresh, spec, "reset must return reward 0 and no terminated, truncated or won")
    episode: Episode = []
    for number in range(1, spec.max_steps + 1):
        actions = jnp.asarray([rng.choice(np.flatnonzero(row)) for row in np.asarray(seen.legal)], jnp.int32)
        step_key = jax.random.fold_in(key, number)
        next_state, outcome = step.call(state, actions, step_key)
        _check_time_step(spec, outcome, f"after step {number}")
        episode.append(Transition(state, seen, actions, step_key, next_state, outcome))
        state, seen = next_state, outcome
        if outcome.is_last:
            break
    _require(bool(seen.is_last), spec, f"the episode did not end within spec.max_steps = {spec.max_steps}")
    _check_return(spec, float(sum(float(transition.outcome.reward) for transition in episode)))
    return episode


def _check_return(spec: EnvSpec, total: float) -> None:
    low, high = spec.return_bounds
    slack = 1e-4 * max(1.0, abs(low), abs(high))
    _require(
        low - slack <= total <= high + slack,
        spec,
        f"an episode's return {total:.6g} lies outside spec.return_bounds {spec.return_bounds}",
    )


def _check_time_step(spec: EnvSpec, seen: TimeStep, when: str) -> None:
    agents, actions = spec.num_agents, spec.num_actions
    floats, flag = np.dtype("float32"), ((), np.dtype(bool))
    expected = {
        "obs": ((agents, *spec.obs_shape), floats),
        "state": (tuple(spec.state_shape), floats),
        "legal": ((agents, actions), np.dtype(bool)),
        "reward": ((), floats),
        "terminated": flag,
        "truncated": flag,
        "won": flag,
    }
    for field, (shape, dtype) in expected.items():
        array = np.asarray(getattr(seen, field))
        fits = array.shape == shape and array.dtype == dtype
        _require(fits, spec, f"{field} {when} is {_type(array)}, not {dtype}{list(shape)}")
        if dtype == floats:
            _require(bool(np.isfinite(array).all()), spec, f"{field} {when} holds NaN or infinity")
    both = bool(seen.terminated) and bool(seen.truncated)
    _require(not both, spec, f"{when} both terminated and truncated are set: an episode ends for one reason")
    _require(bool(seen.is_last) or not bool(seen.won), spec, f"won is set {when}, before the episode's end")
    if not seen.is_last:
        stuck = np.flatnonzero(~np.asarray(seen.legal).any(axis=1))
        _require(len(stuck) == 0, spec, f"{when} agent {stuck[:1]} has no legal action though play goes on")


def _check_same_again(
    spec: EnvSpec, reset: _Compiled, step: _Compiled, keys: jax.Array, played: list[Episode]
) -> None:
    """The same inputs must give the same outputs, bit by bit."""
    for key, episode in zip(keys, played, strict=True):
        first = episode[0]
        again = reset.call(key)
        _require(
            _is_same(again, (first.state, first.seen)), spec, "reset with the same key gives another start"
        )
        for transition in (first, episode[-1]):
            again = step.call(transition.state, transition.actions, transition.key)
            same = _is_same(again, (transition.next_state, transition.outcome))
            _require(same, spec, "step with the same state, actions and key gives another outcome")


def _check_batch(env: Environment[Any], reset: _Compiled, step: _Compiled, played: list[Episode]) -> None:
    """A batch under `AutoReset` must give what single resets and steps give.

    Tracing anew brings hidden Python state to light too. Only a failure pays for finding out which differs.
    """
    steps = [one for episode in played for one in episode]
    spread = [steps[int(index)] for index in np.linspace(0, len(steps) - 1, min(BATCH, len(steps)))]
    chosen = spread + [episode[-1] for episode in played]
    keys = [jax.random.split(one.key) for one in chosen]
    ends = [step.call(one.state, one.actions, key[0]) for one, key in zip(chosen, keys, strict=True)]
    starts = [reset.call(key[1]) for key in keys]
    current = [start if end[1].is_last else end for start, end in zip(starts, ends, strict=True)]
    expected = _stack([(AutoResetState(*now), end[1]) for now, end in zip(current, ends, strict=True)])

    states = _stack([one.state for one in chosen])
    actions = _stack([one.actions for one in chosen])
    wrapped = AutoResetState(states, _stack([one.seen for one in chosen]))
    batch = jax.jit(jax.vmap(AutoReset(env).step))(wrapped, actions, _stack([one.key for one in chosen]))
    if _is_same(batch, expected, TOLERANCE):
        return
    step_keys, reset_keys = jnp.moveaxis(_stack(keys), 1, 0)
    for name, results, again in (
        ("reset", starts, jax.vmap(env.reset)(reset_keys)),
        ("step", ends, jax.vmap(env.step)(states, actions, step_keys)),
    ):
        same = _is_same(again, _stack(results), TOLERANCE)
        _require(same, env.spec, f"{name} differs when vmapped or traced anew: is there hidden state?")
    _require(False, env.spec, "under AutoReset, play does not go on with the first TimeStep of a new episode")


def _check_terminal_kept(spec: EnvSpec, played: list[Episode]) -> None:
    """An environment that resets by itself shows the next start in place of its end, every time."""

    def looks(a: TimeStep, b: TimeStep) -> bool:
        return _is_same((a.obs, a.state), (b.obs, b.state))

    def restarts(episode: Episode) -> bool:
        start, before, end = episode[0].seen, episode[-1].seen, episode[-1].outcome
        return looks(start, end) and not looks(start, before)

    _require(
        not all(restarts(episode) for episode in played),
        spec,
        "the last TimeStep looks like the first: step must not reset by itself, AutoReset does that",
    )


def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _is_same(a: Any, b: Any, tolerance: float = 0.0) -> bool:
    """Whether two pytrees hold the same numbers, within `tolerance` relative to 1 or to the larger."""
    if jax.tree.structure(a) != jax.tree.structure(b):
        return False
    pairs = zip(map(_numbers, jax.tree.leaves(a)), map(_numbers, jax.tree.leaves(b)), strict=True)
    return all(
        x.shape == y.shape
        and np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=x.dtype.kind == "f")
        for x, y in pairs
    )


def _numbers(leaf: Any) -> np.ndarray:
    is_key = jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(leaf) if is_key else leaf)
