import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import config

from nonzero.envs.payoffs import payoff_game
from nonzero.surrogate import NonUCT, optimizer

SIZES = (3, 2, 4)
EVERYTHING = list(itertools.product(*map(range, SIZES)))

Action = tuple[int, ...]


def value_of(action: Action) -> float:
    """Additive but for one pair that must change together; its best is (2, 1, 3) with 9."""
    return float(sum(action)) + (4.0 if action[:2] == (2, 1) else -action[1]) - (action[0] == 2)


def play(
    agent: NonUCT, rounds: int, measure: Callable[[Action], float] = value_of
) -> list[tuple[Action, float]]:
    told = []
    for _ in range(rounds):
        action = agent.ask()
        told.append((action, measure(action)))
        agent.tell(*told[-1])
    return told


def same(one: Any, two: Any) -> bool:
    """Whether two states are equal to the bit."""
    return pickle.dumps(one) == pickle.dumps(two)


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """As users run it: pytest's checks of annotations would speak before NonUCT's own."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


@pytest.fixture
def agent() -> NonUCT:
    return NonUCT(SIZES, seed=3)


@pytest.fixture(autouse=True)
def small_rooms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for fewer joint actions than there are, so that it must grow."""
    monkeypatch.setattr(optimizer, "FIRST_CAPACITY", 16)


def test_ask_tell_and_best_find_the_best_of_a_small_space(agent: NonUCT) -> None:
    told = play(agent, 18)
    assert len({action for action, _ in told}) == 18
    assert agent.best() == max(told, key=lambda pair: pair[1])
    assert agent.best() == ((2, 1, 3), 9.0)
    assert agent.best().action == (2, 1, 3)
    assert all(type(choice) is int for choice in agent.best().action)


def test_origins_are_samples_first_and_changes_later(agent: NonUCT) -> None:
    told = play(agent, 20)
    origins = [agent.origin(action) for action, _ in told]
    assert origins[:8] == ["prior"] * 8
    assert set(origins[8:]) >= {"single", "pair"}
    for index, (action, _) in enumerate(told):
        moves = [sum(a != b for a, b in zip(action, known, strict=True)) for known, _ in told[:index]]
        assert origins[index] == "prior" or {"single": 1, "pair": 2}[origins[index]] in moves
    with pytest.raises(ValueError, match="never asked for"):
        agent.origin(next(action for action in EVERYTHING if action not in dict(told)))


BAD_REPORTS = {
    "never asked for": [((0, 0), "has 3 choices"), ((0, 0, 0, 0), "has 3 choices"), (5, "has 3 choices")],
    "out of range": [((3, 0, 0), "agent 0 has actions 0 to 2, not 3"), ((0, -1, 0), "agent 1")],
    "no whole numbers": [((0.0, 0.0, 0.0), "whole numbers"), ((True, False, True), "whole numbers")],
    "no numbers": [(("a", "b", "c"), "whole numbers"), (([0], [0, 1], 2), "one choice for each agent")],
}


@pytest.mark.parametrize(
    ("action", "message"), [case for cases in BAD_REPORTS.values() for case in cases], ids=str
)
def test_a_wrong_action_is_refused_and_changes_nothing(
    unchecked_types: None, agent: NonUCT, action: Any, message: str
) -> None:
    agent.ask()
    before = agent.state_dict()
    with pytest.raises(ValueError, match=message):
        agent.tell(action, 1.0)
    with pytest.raises(ValueError, match=message):
        agent.origin(action)
    assert same(before, agent.state_dict())


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "finite"),
        (float("inf"), "finite"),
        (-np.inf, "finite"),
        (10**400, "finite"),
        (1e305, "finite"),
        (None, "a value is a number"),
        ("much", "a value is a number"),
        (1j, "a value is a number"),
        ([1.0, 2.0], "a value is a number"),
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_and_changes_nothing(
    unchecked_types: None, agent: NonUCT, value: Any, message: str
) -> None:
    action = agent.ask()
    before = agent.state_dict()
    with pytest.raises(ValueError, match=message):
        agent.tell(action, value)
    assert same(before, agent.state_dict())
    agent.tell(action, 1.0)
    assert agent.best() == (action, 1.0)


def test_what_was_not_asked_or_was_told_already_is_refused_and_changes_nothing(agent: NonUCT) -> None:
    with pytest.raises(ValueError, match="nothing was told yet"):
        agent.best()
    empty = agent.state_dict()
    with pytest.raises(ValueError, match=r"\(0, 0, 0\) was never asked for"):
        agent.tell((0, 0, 0), 1.0)
    assert same(empty, agent.state_dict())
    action = agent.ask()
    agent.tell(action, 1.0)
    before = agent.state_dict()
    with pytest.raises(ValueError, match="was told already"):
        agent.tell(action, 2.0)
    assert same(before, agent.state_dict())
    assert agent.best().value == 1.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_actions": []}, "num_actions is empty"),
        ({"num_actions": 5}, "lists each agent's number of actions"),
        ({"num_actions": "345"}, "lists each agent's number of actions"),
        ({"num_actions": [3, 0]}, r"num_actions\[1\] is a whole number of 1 or more, not 0"),
        ({"num_actions": [3, -2]}, r"num_actions\[1\]"),
        ({"num_actions": [3.0, 2]}, r"num_actions\[0\] is a whole number of 1 or more, not 3.0"),
        ({"num_actions": [[3, 3], [2]]}, r"num_actions\[0\]"),
        ({"num_actions": [True, 3]}, r"num_actions\[0\]"),
        ({"num_actions": [3], "rank": -1}, "rank is a whole number from 0 to 64, not -1"),
        ({"num_actions": [3], "rank": 65}, "rank is a whole number from 0 to 64, not 65"),
        ({"num_actions": [3], "rank": 2.0}, "rank is a whole number from 0 to 64, not 2.0"),
        ({"num_actions": [3], "seed": -1}, "seed is a whole number from 0"),
        ({"num_actions": [3], "seed": "x"}, "seed is a whole number from 0"),
    ],
    ids=str,
)
def test_contradictory_settings_are_refused(
    unchecked_types: None, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        NonUCT(**arguments)


def test_whole_numbers_of_numpy_are_as_good_as_any(unchecked_types: None) -> None:
    rank, seed, batch, value = (np.int64(4), np.uint8(3), np.int32(1), np.float32(0.5))
    numbers: dict[str, Any] = {"rank": rank, "seed": seed}
    agent = NonUCT(np.array(SIZES), **numbers)
    assert same(agent.state_dict(), NonUCT(SIZES, seed=3).state_dict())
    ask: Any = agent.ask
    action = ask(batch)[0]
    agent.tell(np.array(action), float(value))
    assert agent.best() == (action, 0.5)


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, "3", 10**9], ids=str)
def test_a_wrong_batch_is_refused_and_changes_nothing(
    unchecked_types: None, agent: NonUCT, batch: Any
) -> None:
    before = agent.state_dict()
    with pytest.raises(ValueError, match="batch is a whole number from 1"):
        agent.ask(batch)
    assert same(before, agent.state_dict())


def test_a_batch_holds_different_joint_actions_that_may_be_told_in_any_order(agent: NonUCT) -> None:
    play(agent, 9)
    batch = agent.ask(6)
    assert len(set(batch)) == 6
    ordered, shuffled = NonUCT(SIZES, seed=3), NonUCT(SIZES, seed=3)
    for other in (ordered, shuffled):
        other.load_state_dict(agent.state_dict())
    for action in batch:
        ordered.tell(action, value_of(action))
    for action in reversed(batch):
        shuffled.tell(action, value_of(action))
    assert same(ordered.state_dict(), shuffled.state_dict())
    assert ordered.ask() == shuffled.ask()


def test_a_batch_is_what_asking_one_by_one_gives(agent: NonUCT) -> None:
    play(agent, 9)
    other = NonUCT(SIZES, seed=3)
    other.load_state_dict(agent.state_dict())
    assert agent.ask(4) == [other.ask() for _ in range(4)]


@pytest.mark.parametrize("is_noisy", [False, True])
def test_a_loaded_state_goes_on_to_the_bit(is_noisy: bool) -> None:
    agent = NonUCT(SIZES, seed=5, is_noisy=is_noisy)
    noise = iter(np.random.default_rng(0).normal(size=100))
    first = play(agent, 9, lambda action: value_of(action) + next(noise))
    waiting = agent.ask(3)
    state = pickle.loads(pickle.dumps(agent.state_dict()))
    before = pickle.dumps(state)
    loaded = NonUCT(SIZES, seed=5, is_noisy=is_noisy)
    loaded.load_state_dict(state)
    assert same(loaded.state_dict(), agent.state_dict())
    values = np.random.default_rng(1).normal(size=100)
    for one in (agent, loaded):
        source = iter(values)
        for action in waiting:
            one.tell(action, value_of(action))
        play(one, 2 if is_noisy else 6, lambda action, source=source: value_of(action) + next(source))
    assert same(loaded.state_dict(), agent.state_dict())
    assert loaded.ask(2) == agent.ask(2)
    assert loaded.best() == agent.best()
    assert pickle.dumps(state) == before, "what was loaded is the user's and must not change"
    assert [loaded.origin(action) for action, _ in first] == [agent.origin(action) for action, _ in first]


OTHER_SETTINGS: dict[str, dict[str, Any]] = {
    "num_actions": {"num_actions": (3, 2, 5)},
    "rank": {"rank": 0},
    "seed": {"seed": 4},
    "is_noisy": {"is_noisy": True},
    "pairs": {"pairs": False},
}


@pytest.mark.parametrize("setting", OTHER_SETTINGS)
def test_a_state_of_other_settings_is_refused(agent: NonUCT, setting: str) -> None:
    agent.ask()
    before = agent.state_dict()
    with pytest.raises(ValueError, match=f"optimiser with {setting} "):
        agent.load_state_dict(
            NonUCT(**({"num_actions": SIZES, "seed": 3} | OTHER_SETTINGS[setting])).state_dict()
        )
    assert same(before, agent.state_dict())


@pytest.mark.parametrize(
    "garbage",
    [
        None,
        {},
        3,
        {"settings": {}},
        {"settings": 1},
        {"bandit": []},
        {"bandit": None},
        {"bandit": [1, 2, 3]},
        {"ledger": []},
        {"ledger": [np.zeros(3)] * 4},
        {"ledger": ["a", "b", "c", "d"]},
        {"bandit": 3.0},
    ],
    ids=str,
)
def test_garbage_is_refused_and_changes_nothing(unchecked_types: None, agent: NonUCT, garbage: Any) -> None:
    agent.ask()
    before = agent.state_dict()
    state = before | garbage if isinstance(garbage, dict) and garbage else garbage
    with pytest.raises(ValueError, match=r"not a state of NonUCT|the state is of an optimiser"):
        agent.load_state_dict(state)
    assert same(before, agent.state_dict())


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("sizes", [(3, 3), SIZES], ids=str)
def test_every_joint_action_is_asked_for_once_before_the_space_is_exhausted(
    sizes: tuple[int, ...], told: bool
) -> None:
    agent = NonUCT(sizes, seed=1)
    everything = list(itertools.product(*map(range, sizes)))
    asked = []
    for _ in everything:
        asked.append(agent.ask())
        if told:
            agent.tell(asked[-1], float(-sum(asked[-1])))
    assert sorted(asked) == everything
    before = agent.state_dict()
    for batch in (None, 1, 5):
        with pytest.raises(ValueError, match="every joint action has been asked for"):
            agent.ask() if batch is None else agent.ask(batch)
    assert same(before, agent.state_dict())
    if told:
        assert agent.best() == ((0,) * len(sizes), 0.0)


def test_a_batch_larger_than_what_is_left_says_how_many_are(agent: NonUCT) -> None:
    asked = agent.ask(20)
    before = agent.state_dict()
    with pytest.raises(ValueError, match="only 4 joint actions are left to ask for, not 7"):
        agent.ask(7)
    assert same(before, agent.state_dict())
    assert sorted(asked + agent.ask(4)) == EVERYTHING


@pytest.mark.parametrize(("sizes", "rank"), [((7,), 1), ((1, 4, 1), 0), ((1,), 1), ((1, 1, 1), 0)], ids=str)
def test_one_agent_and_agents_without_a_choice_are_fine(sizes: tuple[int, ...], rank: int) -> None:
    agent = NonUCT(sizes, rank=rank)
    told = play(agent, int(np.prod(sizes)), lambda action: float(max(action)))
    assert {action for action, _ in told} == set(itertools.product(*map(range, sizes)))
    assert agent.best().value == max(sizes) - 1
    with pytest.raises(ValueError, match="every joint action has been asked for"):
        agent.ask()


def test_without_pairs_the_whole_space_is_still_reached() -> None:
    agent = NonUCT(SIZES, rank=0, seed=3, pairs=False)
    told = play(agent, len(EVERYTHING))
    assert {agent.origin(action) for action, _ in told} <= {"prior", "single"}
    assert sorted(action for action, _ in told) == EVERYTHING


def test_only_legal_joint_actions_are_handed_out() -> None:
    def is_legal(action: Action) -> bool:
        return sum(action) % 2 == 0

    agent = NonUCT(SIZES, seed=3, is_legal=is_legal)
    legal = [action for action in EVERYTHING if is_legal(action)]
    told = play(agent, len(legal))
    assert sorted(action for action, _ in told) == legal
    assert agent.best() == ((2, 1, 3), 9.0)
    with pytest.raises(ValueError, match="every joint action has been asked for"):
        agent.ask()


def test_a_rare_legal_joint_action_is_found() -> None:
    assert NonUCT(SIZES, seed=3, is_legal=lambda action: action == (1, 1, 2)).ask() == (1, 1, 2)


def test_legal_ones_of_a_space_too_large_to_list_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "MAX_LOOKED_AT", len(EVERYTHING) - 1)
    monkeypatch.setattr(optimizer, "MAX_REFUSALS", 1)
    agent = NonUCT(SIZES, seed=3, is_legal=lambda action: action[1] == 0 and action[2] < 2)
    asked = agent.ask(4)
    assert len(set(asked)) == 4
    assert all(action[1] == 0 and action[2] < 2 for action in asked)


@pytest.mark.parametrize("looked_at", [5, 20_000])
def test_a_legality_that_refuses_everything_is_a_clear_error(
    monkeypatch: pytest.MonkeyPatch, looked_at: int
) -> None:
    monkeypatch.setattr(optimizer, "MAX_LOOKED_AT", looked_at)
    agent = NonUCT(SIZES, seed=3, is_legal=lambda action: False)
    before = agent.state_dict()
    with pytest.raises(ValueError, match="is_legal refused every joint action"):
        agent.ask()
    assert same(before, agent.state_dict())


def test_an_error_in_legality_is_the_users_and_changes_nothing() -> None:
    def is_legal(action: Action) -> bool:
        raise KeyError(action)

    agent = NonUCT(SIZES, seed=3, is_legal=is_legal)
    before = agent.state_dict()
    with pytest.raises(KeyError):
        agent.ask()
    assert same(before, agent.state_dict())


def test_noisy_values_are_asked_for_again_where_they_are_good() -> None:
    payoffs = np.array([[0.0, 1.0, 2.5, -9.0], [1.5, 0.0, -9.0, -9.0], [0.0, 2.0, 1.0, 0.5]])
    random = np.random.default_rng(0)

    def true_value(action: Action) -> float:
        return float(payoffs[np.arange(3), action].sum())

    agent = NonUCT(SIZES, seed=3, is_noisy=True)
    told = play(agent, 120, lambda action: true_value(action) + random.normal())
    tries = {action: sum(a == action for a, _ in told) for action, _ in told}
    repeated = [action for action, count in tries.items() if count > 1]
    once = [action for action, count in tries.items() if count == 1]
    assert np.mean([true_value(a) for a in repeated]) > np.mean([true_value(a) for a in once]) + 1.0
    best = agent.best()
    assert best.value == pytest.approx(np.mean([value for action, value in told if action == best.action]))
    assert true_value(best.action) >= true_value((2, 0, 1)) - 1.0


def test_noisy_batches_hold_different_joint_actions_and_a_small_space_is_never_exhausted() -> None:
    agent = NonUCT(SIZES, seed=3, is_noisy=True)
    random = np.random.default_rng(0)
    played: list[Action] = []
    for _ in range(8):
        batch = agent.ask(6)
        assert len(set(batch)) == 6
        played += batch
        for action in batch:
            agent.tell(action, value_of(action) + 0.1 * random.normal())
    assert len(played) == 48 > len(EVERYTHING)
    assert agent.best().action == (2, 1, 3)
    everything = [action for _ in range(4) for action in agent.ask(6)]
    assert sorted(everything) == EVERYTHING
    with pytest.raises(ValueError, match="waiting for its value: tell some of them first"):
        agent.ask()


@pytest.mark.parametrize("is_noisy", [False, True])
def test_values_of_any_size_give_what_plain_ones_give(is_noisy: bool) -> None:
    def asked(measure: Callable[[Action], float]) -> list[Action]:
        agent = NonUCT(SIZES, seed=3, is_noisy=is_noisy)
        told = play(agent, 16, measure)
        assert np.isfinite(agent.best().value)
        return [action for action, _ in told]

    plain = asked(value_of)
    for scale in (2.0**100, 2.0**-100, 2.0**900):
        assert asked(lambda action, scale=scale: scale * value_of(action)) == plain


@pytest.mark.parametrize("value", [0.0, 1e30, -1e-30, 0.1, 1e300])
def test_equal_values_are_borne(agent: NonUCT, value: float) -> None:
    told = play(agent, 20, lambda action: value)
    assert len({action for action, _ in told}) == 20
    assert agent.best().value == value
    assert all(np.isfinite(leaf).all() for leaf in agent.state_dict()["bandit"])


def test_one_huge_value_among_small_ones_is_borne(agent: NonUCT) -> None:
    values = iter([1.0, -1e300, 1e300, *range(100)])
    play(agent, 20, lambda action: float(next(values)))
    assert agent.best().value == 1e300
    assert all(np.isfinite(leaf).all() for leaf in agent.state_dict()["bandit"])


def test_the_seed_decides_everything() -> None:
    runs = [play(NonUCT(SIZES, seed=seed), 14) for seed in (3, 3, 4)]
    assert runs[0] == runs[1]
    assert runs[0] != runs[2]


def share_found(rank: int, seed: int) -> float:
    game = payoff_game("paired-traps", 6, 8, seed=seed)
    optimum = game.optimum()
    assert optimum is not None
    payoff = jax.jit(lambda action: game.payoff(action))
    agent = NonUCT([8] * 6, rank=rank, seed=seed)
    for _ in range(600):
        action = agent.ask()
        value = float(payoff(jnp.array(action)))
        agent.tell(action, value)
        if value >= 0.9999 * optimum.value:
            break
    return agent.best().value / optimum.value


def test_interactions_find_what_the_additive_surrogate_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimizer, "FIRST_CAPACITY", 600)
    seeds = (0, 1, 3)
    assert [share_found(4, seed) for seed in seeds] == pytest.approx([1.0] * 3, abs=1e-4)
    assert max(share_found(0, seed) for seed in seeds) < 0.95
