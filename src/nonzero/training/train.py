"""The learner, top to bottom: collect, search, store, sample, reanalyse, update, evaluate.

`advance` does many steps in one compiled call; the training state lives on the device and is donated from
call to call. What algorithm is trained is said by the search's rules and by whether the model has a mixing
network.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from nonzero.envs.wrappers import AutoReset
from nonzero.model.networks import Model
from nonzero.search import Rules
from nonzero.surrogate.predictor import Link
from nonzero.training.replay import Replay, add, new_replay, sample, set_priorities
from nonzero.training.rollout import Finished, Play, Step, collect, plan, policy_targets, start_play
from nonzero.training.settings import SearchSettings, Settings, TargetSettings
from nonzero.training.unroll import LOSSES, Batch, batch_loss, new_batch
from nonzero.types import Environment

EVALUATION = {"dirichlet_fraction": 0.0, "temperature": 0.0, "changed_share": 0.0}
"""How play differs when it is judged: no noise, and always the joint action that the search thinks best."""


class Learner(eqx.Module):
    """What never changes during a run; of all this only arrays of the environment are not compiled in."""

    game: Environment[Any]
    rules: Rules = eqx.field(static=True)
    settings: Settings = eqx.field(static=True)
    has_mixing: bool = eqx.field(static=True, default=False)
    link: Link = eqx.field(static=True, default=Link())

    @property
    def env(self) -> AutoReset[Any]:
        """The environment, played on after an episode's end."""
        return AutoReset(self.game)

    @property
    def round_size(self) -> int:
        """Updates that one step of all environments calls for."""
        return self.settings.collect.environments * self.settings.collect.updates_per_step


MEMORY, ERROR_MEMORY = 100, 20
"""Updates that the mixing network's scale, and its error, are means over."""
REPORTED = (
    *(f"loss/{name}" for name in LOSSES),
    "loss/total",
    "clipped",
    "value_error",
    "gradient_norm",
)


class Tally(eqx.Module):
    """What happened since the last report."""

    episodes: Int[Array, ""]
    """Episodes that ended."""
    returned: Float[Array, ""]
    """The sum of their returns."""
    won: Int[Array, ""]
    updates: Int[Array, ""]
    report: dict[str, Float[Array, ""]]
    """Sums over the updates of losses and the like."""


def count_episodes(tally: Tally, finished: Finished) -> Tally:
    """The tally after the episodes that just ended."""
    return Tally(
        episodes=tally.episodes + jnp.sum(finished.is_last),
        returned=tally.returned + jnp.sum(jnp.where(finished.is_last, finished.returned, 0.0)),
        won=tally.won + jnp.sum(finished.is_last & finished.won),
        updates=tally.updates,
        report=tally.report,
    )


def count_update(tally: Tally, report: dict[str, Array]) -> Tally:
    """The tally after one more update."""
    sums = {name: tally.report[name] + report[name] for name in REPORTED}
    return eqx.tree_at(lambda t: (t.updates, t.report), tally, (tally.updates + 1, sums))


def new_tally() -> Tally:
    """Nothing has happened yet."""
    # Every number its own array: one that is donated twice would be an error.
    counts = [jnp.zeros((), jnp.int32) for _ in range(3)]
    report = {name: jnp.zeros(()) for name in REPORTED}
    return Tally(counts[0], jnp.zeros(()), counts[1], counts[2], report)


class TrainState(eqx.Module):
    """Everything that changes during a run: saved and restored, it goes on to the bit."""

    model: Model
    target: Model
    optimiser: optax.OptState
    play: Play
    replay: Replay[Step]
    key: PRNGKeyArray
    steps: Int[Array, ""]
    """Environment steps made."""
    updates: Int[Array, ""]
    """Gradient updates made."""
    is_broken: Bool[Array, ""]
    """Whether an update gave something that is no finite number; nothing is updated after that."""
    tally: Tally


def new_learner(env: Environment[Any], rules: Rules, settings: Settings, *, has_mixing: bool) -> Learner:
    """The learner of `settings` with the search of `rules`."""
    return Learner(env, rules, settings, has_mixing)


def optimiser(settings: Settings) -> optax.GradientTransformation:
    """Adam after shortening long gradients."""
    chosen = settings.optimiser
    return optax.chain(
        optax.clip_by_global_norm(chosen.max_gradient_norm),
        optax.adam(chosen.learning_rate, eps=chosen.adam_epsilon),
    )


@eqx.filter_jit
def new_state(learner: Learner, key: PRNGKeyArray) -> TrainState:
    """The state before the first step."""
    settings, env = learner.settings, learner.env
    model_key, play_key, key = jax.random.split(key, 3)
    model = Model(
        model_key,
        env.spec,
        settings.model,
        discount=settings.target.discount,
        has_mixing=learner.has_mixing,
    )
    count = settings.collect.environments
    play = start_play(env, play_key, count, settings.model.history)
    _, step, _ = jax.eval_shape(lambda: collect(env, model, play, key, learner.rules, settings.search))
    one = jax.tree.map(lambda x: jnp.zeros(x.shape[1:], x.dtype), step)
    return TrainState(
        model=model,
        target=jax.tree.map(jnp.copy, model),
        optimiser=optimiser(settings).init(eqx.filter(model, eqx.is_array)),
        play=play,
        replay=new_replay(one, count, settings.collect.replay_steps // count),
        key=key,
        steps=jnp.int32(0),
        updates=jnp.int32(0),
        is_broken=jnp.bool_(False),
        tally=new_tally(),
    )


def collect_step(learner: Learner, state: TrainState) -> TrainState:
    """One step of each environment, stored."""
    key, collect_key = jax.random.split(state.key)
    play, step, finished = collect(
        learner.env, player(learner, state), state.play, collect_key, learner.rules, learner.settings.search
    )
    replay = add(state.replay, step, finished.is_last)
    steps = state.steps + finished.is_last.size
    tally = count_episodes(state.tally, finished)
    return eqx.tree_at(
        lambda s: (s.play, s.replay, s.key, s.steps, s.tally), state, (play, replay, key, steps, tally)
    )


def draw_batches(
    learner: Learner, state: TrainState, key: PRNGKeyArray, progress: Float[Array, ""]
) -> tuple[Batch, Float[Array, "M B"], Int[Array, "M B 2"]]:
    """The batches of a round of M updates, with the weights of their windows and where these lie."""
    settings = learner.settings
    chosen, target, length = settings.collect, settings.target, settings.model.history
    sample_key, order_key, search_key = jax.random.split(key, 3)
    drawn = sample(
        state.replay,
        sample_key,
        learner.round_size * settings.optimiser.batch,
        before=length - 1,
        after=target.unroll_steps + target.return_steps,
        exponent=chosen.priority_exponent,
        correction=chosen.priority_correction + (1.0 - chosen.priority_correction) * progress,
    )
    age = drawn.age * chosen.environments
    batch = new_batch(state.target, drawn.windows, age, target, length)
    # Shuffled and dealt out: the draws come in the order of the replay, oldest first.
    order = jax.random.permutation(order_key, drawn.age.shape[0])
    dealt = jax.tree.map(
        lambda x: x[order].reshape(learner.round_size, settings.optimiser.batch, *x.shape[1:]),
        (batch, drawn.weights, drawn.places),
    )
    return reanalyse(learner, state.target, dealt[0], search_key), dealt[1], dealt[2]


def reanalyse(learner: Learner, target: Model, batches: Batch, key: PRNGKeyArray) -> Batch:
    """The batches with the policy targets of their first windows searched anew with the target network.

    One search serves all batches of a round: on a CPU a search of few roots costs almost as much as of many.
    """
    settings = learner.settings
    rounds, windows, positions = batches.values.shape
    count = round(settings.target.reanalyse_share * windows)
    if count == 0:
        return batches
    histories, legal = (x[:, :count].reshape(-1, *x.shape[3:]) for x in (batches.histories, batches.legal))
    result, value = plan(target, histories, legal, key, learner.rules, settings.search)
    fresh = jax.tree.map(
        lambda x: x.reshape(rounds, count, positions, *x.shape[1:]), policy_targets(result, value)
    )
    policy = jax.tree.map(lambda old, new: old.at[:, :count].set(new), batches.policy, fresh)
    weight = batches.policy_weight.at[:, :count].set(1.0)
    return eqx.tree_at(lambda b: (b.policy, b.policy_weight), batches, (policy, weight))


def update_round(learner: Learner, state: TrainState, total_updates: Float[Array, ""]) -> TrainState:
    """As many updates as one step of all environments calls for, their batches drawn together."""
    key, draw_key = jax.random.split(state.key)
    progress = jnp.clip(state.updates / total_updates, 0.0, 1.0)
    batches = draw_batches(learner, state, draw_key, progress)
    state = eqx.tree_at(lambda s: s.key, state, key)
    return jax.lax.scan(lambda s, drawn: (update(learner, s, *drawn), None), state, batches)[0]


def update(
    learner: Learner,
    state: TrainState,
    batch: Batch,
    weights: Float[Array, "B"],
    places: Int[Array, "B 2"],
) -> TrainState:
    """One gradient step."""
    settings = learner.settings
    grad = jax.value_and_grad(batch_loss, has_aux=True)
    (total, (report, error)), gradient = grad(state.model, batch, weights, settings.loss, learner.link)
    changes, memory = optimiser(settings).update(gradient, state.optimiser)
    model = eqx.apply_updates(state.model, changes)
    norm = optax.tree.norm(gradient)
    is_broken = state.is_broken | ~jnp.isfinite(total + norm)
    model, memory = jax.tree.map(
        lambda new, old: jnp.where(state.is_broken, old, new), (model, memory), (state.model, state.optimiser)
    )
    updates = state.updates + ~state.is_broken
    if model.mixing is not None:
        model = track(model, batch, report["loss/surrogate"], updates)
    return TrainState(
        model=model,
        target=followed(state.target, model, updates, settings.target),
        optimiser=memory,
        play=state.play,
        replay=set_priorities(state.replay, places, error + 1e-6),
        key=state.key,
        steps=state.steps,
        updates=updates,
        is_broken=is_broken,
        tally=count_update(state.tally, report | {"gradient_norm": norm}),
    )


def followed(target: Model, model: Model, updates: Int[Array, ""], settings: TargetSettings) -> Model:
    """The target network after the model's latest update."""
    is_due = updates % settings.target_interval == 0
    rate = settings.target_rate

    def follow(old: Array, new: Array) -> Array:
        return jnp.where(is_due, new if rate == 1 else old + rate * (new - old), old)

    return jax.tree.map(follow, target, model)


def player(learner: Learner, state: TrainState) -> Model:
    """The network that plays."""
    return state.target if learner.settings.target.target_plays else state.model


def track(model: Model, batch: Batch, squared_error: Float[Array, ""], updates: Int[Array, ""]) -> Model:
    """The model with its mixing network's scale, the mean and the deviation of gains, and its error renewed.

    The scale is a mean over all updates at first, so that it is right at once, then over the last `MEMORY`.
    """
    mixing = model.mixing
    assert mixing is not None
    counts = (batch.is_inside & batch.is_known)[:, :-1]
    number = jnp.maximum(jnp.sum(counts), 1)
    mean = jnp.sum(jnp.where(counts, batch.gains, 0.0)) / number
    variance = jnp.sum(jnp.where(counts, (batch.gains - mean) ** 2, 0.0)) / number
    rate = 1.0 / jnp.clip(updates, 1, MEMORY)
    centre = mixing.centre + rate * (mean - mixing.centre)
    unit = jnp.sqrt(mixing.unit**2 + rate * (variance - mixing.unit**2))
    # Games that pay the same whatever is done have no unit of their own.
    unit = jnp.where(unit > 1e-6, unit, 1.0)

    # Never more than where η says nothing at all; so the first updates, before there was a scale, do no harm.
    change = jnp.minimum(squared_error, 1.0) - mixing.error**2
    error = jnp.sqrt(mixing.error**2 + change / ERROR_MEMORY)
    tracked = (centre, unit, error)
    return eqx.tree_at(lambda m: (m.mixing.centre, m.mixing.unit, m.mixing.error), model, tracked)


class Work(NamedTuple):
    """`repeats` times `collections` steps of all environments, then `rounds` of updates, of a `total` in all.

    The numbers are no static arguments: one compilation serves the first steps, the rest and any remainder.
    """

    total: Float[Array, ""]
    collections: Int[Array, ""]
    rounds: Int[Array, ""]
    repeats: Int[Array, ""]


@eqx.filter_jit(donate="all-except-first")
def advance(given: tuple[Learner, Work], state: TrainState) -> TrainState:
    """The state after some work; the one before is given up, its memory used again."""
    learner, work = given

    def once(_: Array, state: TrainState) -> TrainState:
        state = jax.lax.fori_loop(0, work.collections, lambda _, s: collect_step(learner, s), state)
        return jax.lax.fori_loop(0, work.rounds, lambda _, s: update_round(learner, s, work.total), state)

    return jax.lax.fori_loop(0, work.repeats, once, state)


class Evaluation(NamedTuple):
    """Episodes played with fixed parameters."""

    returns: Float[Array, " E"]
    won: Bool[Array, " E"]


@eqx.filter_jit
def evaluate(learner: Learner, model: Model, key: PRNGKeyArray, *, episodes: int) -> Evaluation:
    """Play `episodes` episodes side by side, each to its end, as when it counts."""
    env, settings = learner.env, learner.settings
    search = SearchSettings(**{**vars(settings.search), **EVALUATION})
    start_key, key = jax.random.split(key)
    play = start_play(env, start_key, episodes, settings.model.history)

    def step(carry: tuple, step_key: PRNGKeyArray) -> tuple[tuple, None]:
        play, is_over, returns, won = carry
        play, _, finished = collect(env, model, play, step_key, learner.rules, search)
        ends = finished.is_last & ~is_over
        returns = jnp.where(ends, finished.returned, returns)
        return (play, is_over | ends, returns, jnp.where(ends, finished.won, won)), None

    no = jnp.zeros(episodes, bool)
    keys = jax.random.split(key, env.spec.max_steps)
    (_, _, returns, won), _ = jax.lax.scan(step, (play, no, jnp.zeros(episodes), no), keys)
    return Evaluation(returns, won)
