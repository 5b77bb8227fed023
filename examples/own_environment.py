"""Your own environment, complete: agents on a ring of places win by meeting on one.

Run it: `python examples/own_environment.py` checks every promise that NonZero relies on.
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero import EnvSpec, TimeStep
from nonzero.testing import check_env

MOVES = jnp.array([-1, 0, 1])


class MeetingState(eqx.Module):
    """Anything that changes during an episode, as arrays."""

    places: Int[Array, " I"]
    step: Int[Array, ""]


@dataclass(frozen=True)
class Meeting:
    """Agents step left, stay or step right; a step costs 0.1, meeting pays 1 and ends the episode."""

    num_agents: int = 3
    num_places: int = 7
    max_steps: int = 12

    @property
    def spec(self) -> EnvSpec:
        """What never changes."""
        return EnvSpec(
            name="meeting",
            num_agents=self.num_agents,
            num_actions=len(MOVES),
            obs_shape=(2 * self.num_places,),
            state_shape=(self.num_agents * self.num_places,),
            max_steps=self.max_steps,
            return_bounds=(-0.1 * self.max_steps, 1.0),
        )

    def reset(self, key: PRNGKeyArray) -> tuple[MeetingState, TimeStep]:
        """Everyone starts somewhere, not all on the same place."""
        places = jax.random.randint(key, (self.num_agents,), 0, self.num_places)
        has_met = jnp.all(places == places[0])
        places = places.at[0].add(has_met) % self.num_places
        state = MeetingState(places, jnp.int32(0))
        return state, self.time_step(state, jnp.float32(0.0), jnp.bool_(False))

    def step(
        self, state: MeetingState, actions: Int[Array, " I"], key: PRNGKeyArray
    ) -> tuple[MeetingState, TimeStep]:
        """All move at once; `key` is for games of chance, which this one is not."""
        del key
        places = (state.places + MOVES[actions]) % self.num_places
        has_met = jnp.all(places == places[0])
        state = MeetingState(places, state.step + 1)
        return state, self.time_step(state, jnp.where(has_met, 1.0, -0.1), has_met)

    def time_step(self, state: MeetingState, reward: Float[Array, ""], has_met: Bool[Array, ""]) -> TimeStep:
        """Each agent sees its own place and how many agents stand where."""
        own = jax.nn.one_hot(state.places, self.num_places)
        crowd = jnp.broadcast_to(own.mean(axis=0), own.shape)
        return TimeStep(
            obs=jnp.concatenate([own, crowd], axis=1),
            state=own.ravel(),
            legal=jnp.ones((self.num_agents, len(MOVES)), bool),
            reward=reward,
            terminated=has_met,
            # The clock may run out; what would have followed still counts, so this is no termination.
            truncated=~has_met & (state.step >= self.max_steps),
            won=has_met,
        )


if __name__ == "__main__":
    check_env(Meeting())
    print("meeting keeps every promise of an environment")
