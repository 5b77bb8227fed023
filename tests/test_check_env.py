"""The conformance check must fail on environments that are broken, each in one way."""

import copy
import itertools
import runpy
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from jax.experimental import io_callback
from jaxtyping import Array, Float, Int, PRNGKeyArray

from nonzero.testing import check_env
from nonzero.types import EnvSpec, TimeStep

LENGTH = 4
SPEC = EnvSpec("walk", 2, 3, (2,), (2,), LENGTH, (0.0, 2.0 * LENGTH))


class WalkState(eqx.Module):
    place: Float[Array, ""]
    step: Int[Array, ""]


Edit = Callable[[TimeStep, WalkState], dict[str, Any]]


def unchanged(seen: TimeStep, state: WalkState) -> dict[str, Any]:
    del seen, state
    return {}


@dataclass(frozen=True, eq=False)
class Walk:
    """A sound environment of four steps, with places for a test to break it."""

    spec: Any = SPEC
    edit: Edit = unchanged
    """Fields of a TimeStep to put in place of the right ones."""
    edit_state: Callable[[Any], Any] = lambda state: state
    """What step returns in place of its right state."""
    start: Callable[[PRNGKeyArray], Any] = jax.random.uniform
    drift: Callable[[], float] = lambda: 0.0
    """Read when step is traced."""

    def reset(self, key: PRNGKeyArray) -> tuple[Any, TimeStep]:
        state = WalkState(self.start(key), jnp.int32(0))
        return state, self.look(state)

    def step(self, state: Any, actions: Int[Array, " I"], key: PRNGKeyArray) -> tuple[Any, TimeStep]:
        place = state.place + actions.sum() + jax.random.uniform(key) + self.drift()
        state = WalkState(place, state.step + 1)
        return self.edit_state(state), self.look(state)

    def look(self, state: WalkState) -> TimeStep:
        is_over = state.step == LENGTH
        seen = TimeStep(
            obs=jnp.full((2, 2), state.place),
            state=jnp.stack([state.place, state.step.astype(jnp.float32)]),
            legal=jnp.ones((2, 3), bool),
            reward=jnp.where(state.step > 0, jnp.float32(1.0), 0.0),
            terminated=is_over,
            truncated=is_over & False,
            won=is_over,
        )
        return replace(seen, **self.edit(seen, state))


def test_a_sound_environment_passes() -> None:
    check_env(Walk(), episodes=2)


def with_spec(**changes: Any) -> Walk:
    spec = copy.copy(SPEC)
    for name, value in changes.items():
        # Past the constructor, whose types are checked here but not where users run.
        object.__setattr__(spec, name, value)
    return Walk(spec=spec)


def with_fields(**fields: Callable[[TimeStep, WalkState], Any]) -> Walk:
    return Walk(edit=lambda seen, state: {name: make(seen, state) for name, make in fields.items()})


class Restarting(Walk):
    """Resets by itself, as if play went on."""

    def step(self, state: Any, actions: Int[Array, " I"], key: PRNGKeyArray) -> tuple[Any, TimeStep]:
        after, seen = super().step(state, actions, key)
        first_state, first = self.reset(key)
        kept = replace(first, reward=seen.reward, terminated=seen.terminated, won=seen.won)
        choose = lambda new, old: jnp.where(seen.is_last, new, old)  # noqa: E731
        return jax.tree.map(choose, first_state, after), jax.tree.map(choose, kept, seen)


@jax.custom_batching.custom_vmap
def plus_one(x: Array) -> Array:
    return x + 1


@plus_one.def_vmap
def _wrong_in_a_batch(axis_size: int, in_batched: list[bool], x: Array) -> tuple[Array, bool]:
    del axis_size
    return x + 2, in_batched[0]


def callback_noise(state: WalkState) -> Array:
    counter = itertools.count()
    shape = jax.ShapeDtypeStruct((), jnp.float32)

    def count() -> Any:
        return jnp.float32(next(counter))

    del state
    return io_callback(count, shape)


def rising() -> Callable[[], float]:
    counter = itertools.count()
    return lambda: float(next(counter))


BROKEN: dict[str, tuple[Walk, str]] = {
    "spec of another type": (Walk(spec={"name": "walk"}), "env.spec must be a nonzero.EnvSpec, not dict"),
    "unhashable spec": (with_spec(obs_shape=[2]), "spec is not hashable"),
    "no agents": (with_spec(num_agents=0), "spec.num_agents must be at least 1"),
    "infinite bounds": (with_spec(return_bounds=(0.0, float("inf"))), "return_bounds must be finite"),
    "bounds out of order": (with_spec(return_bounds=(1.0, 0.0)), "return_bounds must be finite and in order"),
    "obs of another width": (
        with_spec(obs_shape=(3,)),
        r"obs after reset is float32\[2, 2\], not float32\[2, 3\]",
    ),
    "state of another width": (with_spec(state_shape=(5,)), r"state after reset is float32\[2\]"),
    "legal of another width": (with_spec(num_actions=4), r"legal after reset is bool\[2, 3\]"),
    "half precision": (
        with_fields(obs=lambda seen, state: seen.obs.astype(jnp.float16)),
        "obs after reset is float16",
    ),
    "NaN": (
        with_fields(obs=lambda seen, state: jnp.where(state.step == 2, jnp.nan, seen.obs)),
        "obs after step 2 holds NaN",
    ),
    "infinite reward": (
        with_fields(reward=lambda seen, state: seen.reward / (state.step != 3)),
        "reward after step 3 holds NaN or infinity",
    ),
    "no legal action": (
        with_fields(legal=lambda seen, state: seen.legal.at[1].set(state.step != 2)),
        r"after step 2 agent \[1\] has no legal action",
    ),
    "reward on reset": (
        with_fields(reward=lambda seen, state: jnp.float32(1.0)),
        "reset must return reward 0",
    ),
    "over at reset": (
        with_fields(terminated=lambda seen, state: jnp.bool_(True)),
        "reset must return reward 0",
    ),
    "two endings": (
        with_fields(truncated=lambda seen, state: seen.terminated),
        "both terminated and truncated are set",
    ),
    "won too early": (
        with_fields(won=lambda seen, state: state.step > 0),
        "won is set after step 1, before the episode's end",
    ),
    "no end": (
        with_fields(
            terminated=lambda seen, state: jnp.bool_(False), won=lambda seen, state: jnp.bool_(False)
        ),
        "did not end within spec.max_steps = 4",
    ),
    "late end": (with_spec(max_steps=3), "did not end within spec.max_steps = 3"),
    "return above the bounds": (with_spec(return_bounds=(0.0, 3.9)), "return 4 lies outside"),
    "return below the bounds": (with_spec(return_bounds=(4.1, 5.0)), "return 4 lies outside"),
    "state of another structure": (
        Walk(edit_state=lambda state: (state.place, state.step)),
        "another structure than reset",
    ),
    "state of another dtype": (
        Walk(edit_state=lambda state: replace(state, step=jnp.int8(0))),
        r"state.step is int32\[\] after reset but int8\[\] after step",
    ),
    "weakly typed start": (Walk(start=lambda key: 0.5), "step was compiled 2 times in one run, not once"),
    "hidden Python state": (Walk(drift=rising()), "differs when vmapped or traced anew"),
    "another world in a batch": (
        Walk(edit_state=lambda state: replace(state, place=plus_one(state.place))),
        "step differs when vmapped or traced anew",
    ),
    "randomness beside the key": (
        with_fields(obs=lambda seen, state: seen.obs + callback_noise(state)),
        "with the same key gives another start",
    ),
    "resets by itself": (
        Restarting(start=lambda key: jnp.float32(0.0)),
        "the last TimeStep looks like the first",
    ),
}


@pytest.mark.parametrize("breakage", BROKEN)
def test_a_broken_environment_fails_with_the_rule_it_breaks(breakage: str) -> None:
    env, says = BROKEN[breakage]
    with pytest.raises(AssertionError, match=says) as caught:
        check_env(env)
    assert "\n" not in str(caught.value)


def test_the_example_passes_the_check_as_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(Path(__file__).parent.parent / "examples" / "own_environment.py"), run_name="__main__")
    assert capsys.readouterr().out == "meeting keeps every promise of an environment\n"
