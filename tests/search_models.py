"""Games as tables, for the compiled search and for the plain one, and rules that the presets do not cover."""

from dataclasses import dataclass
from itertools import count
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from nonzero.search import PRESETS, Averaging, Expansion, SearchResult, Selection, search
from nonzero.search.draws import SameDraws
from nonzero.search.presets import Rules
from nonzero.search.proposals import Proposal, Widening
from nonzero.search.reference import Plan, Said, plan
from nonzero.types import SINGLE, Candidates, ModelOutputs


@dataclass(frozen=True)
class TableGame:
    """States are numbers; a joint action adds its agents' strides to the state."""

    logits: np.ndarray
    value: np.ndarray
    reward: np.ndarray
    discount: np.ndarray
    stride: np.ndarray
    has_chance: bool = False
    """Whether a coin is tossed in every step."""

    def outputs(self, state: jax.Array) -> ModelOutputs:
        """What the model says of states [B]."""
        tables = (jnp.asarray(x) for x in (self.logits, self.value, self.reward, self.discount))
        return ModelOutputs(*(table[state] for table in tables))

    def said(self, state: int) -> Said:
        """What the model says of one state."""
        return Said(
            self.logits[state].astype(np.float64),
            float(self.value[state]),
            float(self.reward[state]),
            float(self.discount[state]),
        )

    def step(self, state: Any, actions: np.ndarray, key: jax.Array) -> tuple[Said, int]:
        """The plain model."""
        following = state * 5 + 1 + np.sum(self.stride * actions) + (toss(key) if self.has_chance else 0)
        following = int(following % len(self.value))
        return self.said(following), following


@jax.jit
def toss(key: jax.Array) -> jax.Array:
    """A coin with five sides."""
    return jax.random.randint(key, (), 0, 5)


def recurrent(game: tuple, key: jax.Array, actions: jax.Array, latent: Any) -> tuple[ModelOutputs, Any]:
    """The compiled model of a table game, whose tables are the parameters."""
    del key
    tables, stride = game
    state = (latent * 5 + 1 + jnp.sum(stride * actions, axis=-1)) % tables.value.shape[0]
    return jax.tree.map(lambda table: table[state], tables), state


def tossing(game: tuple, key: jax.Array, actions: jax.Array, latent: Any) -> tuple[ModelOutputs, Any]:
    """The same with a coin tossed, for all rows together, in every step."""
    tables, stride = game
    state = latent * 5 + 1 + jnp.sum(stride * actions, axis=-1) + toss(key)
    state = state % tables.value.shape[0]
    return jax.tree.map(lambda table: table[state], tables), state


def random_game(
    seed: int,
    *,
    agents: int = 3,
    actions: int = 4,
    states: int = 97,
    ties: bool = False,
    ends: bool = False,
    single: bool = False,
    chance: bool = False,
) -> TableGame:
    """A random game; of few distinct numbers (`ties`), with endings, with an agent of a single action, with
    a coin."""
    random = np.random.default_rng(seed)

    def table(*shape: int) -> np.ndarray:
        numbers = random.normal(size=shape)
        return (np.round(numbers) / 2 if ties else numbers).astype(np.float32)

    logits = table(states, agents, actions)
    if single:
        logits[:, 0, 1:] = -np.inf
    return TableGame(
        logits=logits,
        value=table(states),
        reward=table(states),
        discount=np.where(random.random(states) < (0.3 if ends else 0.0), 0.0, 0.5 if ties else 0.97).astype(
            np.float32
        ),
        stride=random.integers(1, states, agents).astype(np.int32),
        has_chance=chance,
    )


def compiled(game: TableGame, states: np.ndarray, seed: int, **options: Any) -> SearchResult:
    """The compiled search from `states` [B], tree included."""
    start = jnp.asarray(states, jnp.int32)
    params = (game.outputs(jnp.arange(len(game.value))), jnp.asarray(game.stride))
    step = tossing if game.has_chance else recurrent
    return search(step, params, (game.outputs(start), start), jax.random.key(seed), keep_tree=True, **options)


def plain(game: TableGame, state: int, seed: int, **options: Any) -> Plan:
    """The plain search from one state with the draws of the compiled one."""
    num_samples = options["rules"].expansion.num_prior(options["num_candidates"])
    draws = SameDraws(jax.random.key(seed), num_samples, game.logits.shape[1])
    simulations = count()

    def step(state: Any, actions: np.ndarray) -> tuple[Said, int]:
        return game.step(state, actions, draws.model(next(simulations)))

    root = (game.said(state), state)
    return plan(step, root, draws=draws, has_chance=game.has_chance, **options)


def assert_same_tree(result: SearchResult, expected: Plan) -> None:
    """Every node of the compiled search (batch row 0) hangs where the plain one's does and says the same."""
    tree = result.tree
    assert tree is not None
    number = {id(node): index for index, node in enumerate(expected.nodes)}
    parents = [number[id(node.parent)] if node.parent else -1 for node in expected.nodes]
    np.testing.assert_array_equal(tree.parent[0], parents)
    np.testing.assert_array_equal(tree.slot[0], [node.slot for node in expected.nodes])
    np.testing.assert_array_equal(tree.ended[0], [node.ended for node in expected.nodes])
    np.testing.assert_array_equal(tree.visits[0], [node.visits for node in expected.nodes])
    np.testing.assert_array_equal(tree.candidates.filled[0], [node.filled for node in expected.nodes])
    np.testing.assert_array_equal(tree.candidates.origin[0], [node.origin for node in expected.nodes])
    for index, node in enumerate(expected.nodes):
        mine = np.asarray(tree.candidates.actions[0, index])[node.filled]
        np.testing.assert_array_equal(mine, node.actions[node.filled])
    for mine, theirs in (
        (tree.q, [n.q for n in expected.nodes]),
        (tree.value, [n.value for n in expected.nodes]),
    ):
        np.testing.assert_allclose(mine[0], theirs, atol=2e-5, rtol=2e-5)
    np.testing.assert_allclose(
        tree.candidates.prior[0], [node.prior for node in expected.nodes], atol=1e-6, rtol=1e-5
    )
    np.testing.assert_array_equal(result.visits[0], expected.visits)
    np.testing.assert_array_equal(result.action[0], expected.action)


class TableState(eqx.Module):
    """θ of the table surrogate: sum and count of Q for each agent's action."""

    total: jax.Array
    count: jax.Array


@dataclass(frozen=True)
class TableSurrogate:
    """The plainest surrogate: the mean Q of each agent's action, averaged over agents.

    It proposes the one-agent change of the best candidate that it likes most and that is no candidate yet.
    """

    def initial(self, outputs: ModelOutputs, possible: jax.Array) -> TableState:
        zero = jnp.zeros(possible.shape)
        return TableState(zero + outputs.value[:, None, None], zero + 1.0)

    def score(self, theta: TableState, actions: jax.Array) -> jax.Array:
        mean = theta.total / theta.count
        agents = jnp.arange(mean.shape[1])
        rows = jnp.arange(mean.shape[0])[:, None, None]
        return jnp.mean(mean[rows, agents, actions], axis=-1)

    def update(self, theta: TableState, actions: jax.Array, q: jax.Array) -> TableState:
        at = (jnp.arange(actions.shape[0])[:, None], jnp.arange(actions.shape[1]), actions)
        return TableState(theta.total.at[at].add(q[:, None]), theta.count.at[at].add(1.0))

    def propose(
        self,
        theta: TableState,
        candidates: Candidates,
        visits: jax.Array,
        possible: jax.Array,
        key: jax.Array,
    ) -> Proposal:
        del visits, key
        batch, agents, actions = possible.shape
        known = jnp.where(candidates.filled, self.score(theta, candidates.actions), -jnp.inf)
        best = candidates.actions[jnp.arange(batch), jnp.argmax(known, axis=-1)]
        agent, action = np.divmod(np.arange(agents * actions), actions)
        changed = (
            jnp.repeat(best[:, None], agents * actions, axis=1)
            .at[:, np.arange(len(agent)), agent]
            .set(action)
        )
        is_known = jnp.any(
            jnp.all(changed[:, :, None] == candidates.actions[:, None], -1) & candidates.filled[:, None], -1
        )
        is_open = possible[:, agent, action] & ~is_known
        gain = jnp.where(is_open, self.score(theta, changed), -jnp.inf)
        pick = jnp.argmax(gain, axis=-1)
        origin = jnp.full(batch, SINGLE, jnp.int32)
        return Proposal(changed[jnp.arange(batch), pick], origin, jnp.any(is_open, axis=-1))


PROPOSING = Rules(
    Expansion(prior_share=0.5),
    Selection(kappa=2.0),
    Averaging(rho=0.75, lam=0.8),
    surrogate=TableSurrogate(),
    widening=Widening(start=4, rate=0.7),
)
"""Rules with a surrogate and proposals, to exercise what the presets without one leave out."""

VARIANTS = ("paper", "flat", "flat-r0", "without-mixing-net", "without-curvature", "without-both")
"""Presets that are nonzero with another number or two, and the paper's, which is slow: a case each."""
ALL_RULES: dict[str, Rules] = {name: rules for name, rules in PRESETS.items() if name not in VARIANTS}
ALL_RULES |= {"proposing": PROPOSING}
