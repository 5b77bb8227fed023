import json
import resource
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int

from nonzero.envs import optimum as optimum_module
from nonzero.envs.optimum import cache_path, enumerate_optimum, optimum
from nonzero.envs.payoffs import FAMILIES, PayoffGame, payoff_game


class Hidden(PayoffGame):
    """A game that does not tell its optimum."""

    game: PayoffGame

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        return self.game.payoff(actions)

    def bounds(self) -> tuple[float, float]:
        return self.game.bounds()


class Doubled(Hidden):
    """Rules that differ where the arrays do not."""

    factor: float = eqx.field(static=True, default=2.0)

    def payoff(self, actions: Int[Array, " I"]) -> Float[Array, ""]:
        return self.factor * self.game.payoff(actions)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "nonzero"


@pytest.mark.parametrize("family", [family for family in FAMILIES if family != "nonlinear"])
def test_enumeration_agrees_with_what_the_game_knows(family: str) -> None:
    for seed in range(3):
        game = payoff_game(family, 5, 4, seed)
        known, found = game.optimum(), enumerate_optimum(game)
        assert known is not None
        assert found.value == pytest.approx(known.value, rel=1e-5)


@pytest.mark.parametrize(("num_agents", "num_actions"), [(2, 3), (4, 5), (1, 7), (6, 8)])
@pytest.mark.parametrize("family", ["nonlinear", "additive"])
def test_enumeration_is_exact_whatever_the_chunks(family: str, num_agents: int, num_actions: int) -> None:
    game = payoff_game(family, num_agents, num_actions, 1)
    index = np.arange(num_actions**num_agents)
    actions = index[:, None] // num_actions ** np.arange(num_agents) % num_actions
    values = np.asarray(jax.jit(jax.vmap(game.payoff))(jnp.asarray(actions, jnp.int32)))
    found = enumerate_optimum(game)
    assert found.value == pytest.approx(values.max(), rel=1e-6)
    assert found.actions == tuple(actions[values.argmax()])


def test_optimum_prefers_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum_module, "enumerate_optimum", pytest.fail)
    best = optimum(payoff_game("linear", 20, 20))
    assert best is not None
    assert best.value == 400


def test_optimum_is_unknown_where_it_cannot_be_computed() -> None:
    assert optimum(payoff_game("nonlinear", 20, 10)) is None
    assert optimum(payoff_game("nk", 20, 60)) is None
    with pytest.raises(ValueError, match="10\\^20 joint actions are too many"):
        enumerate_optimum(payoff_game("nonlinear", 20, 10))


def test_long_enumerations_are_cached_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimum_module, "CACHED_FROM", 1)
    game = payoff_game("nonlinear", 3, 4, 7)
    first = optimum(game)
    assert [file.name for file in cache.iterdir()] == [cache_path(game).name]
    monkeypatch.setattr(optimum_module, "enumerate_optimum", pytest.fail)
    assert optimum(game) == first


def test_short_enumerations_leave_no_file(cache: Path) -> None:
    assert optimum(payoff_game("nonlinear", 3, 4)) is not None
    assert not cache.exists()


@pytest.mark.parametrize(
    "damage",
    ["", "{", "[]", '{"value": 1}', '{"value": 1, "actions": [9, 9, 9]}', '{"value": 1, "actions": [0]}'],
)
def test_damaged_cache_is_replaced(cache: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setattr(optimum_module, "CACHED_FROM", 1)
    game = payoff_game("nonlinear", 3, 4, 7)
    cache.mkdir()
    cache_path(game).write_text(damage)
    found = optimum(game)
    assert found is not None
    assert found == enumerate_optimum(game)
    assert json.loads(cache_path(game).read_text())["value"] == found.value


def test_unwritable_cache_costs_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(optimum_module, "CACHED_FROM", 1)
    game = payoff_game("nonlinear", 3, 4, 7)
    assert optimum(game) == enumerate_optimum(game)


def test_cache_tells_games_apart() -> None:
    base = payoff_game("additive", 4, 5, 0)
    games = [
        base,
        payoff_game("additive", 4, 5, 1),
        payoff_game("asinh-additive", 4, 5, 0),
        Hidden(4, 5, base),
        Doubled(4, 5, base),
        Doubled(4, 5, base, factor=3.0),
        payoff_game("nonlinear", 4, 5, 0),
        payoff_game("nonlinear", 4, 5, 1),
    ]
    assert len({cache_path(game) for game in games}) == len(games)
    assert cache_path(base) == cache_path(payoff_game("additive", 4, 5, 0))


@pytest.mark.slow
def test_optimum_of_the_largest_table_game_in_time_and_memory(cache: Path) -> None:
    game = payoff_game("nonlinear", 8, 10)
    start = time.monotonic()
    best = optimum(game)
    assert time.monotonic() - start < 300
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 * 1024**2  # kilobytes
    assert best is not None
    assert float(game.payoff(jnp.array(best.actions))) == pytest.approx(best.value, rel=1e-6)
    # No other joint action may beat it: not a million random ones, nor those of the highest sums.
    actions = jax.random.randint(jax.random.key(0), (10**6, 8), 0, 10)
    high = jnp.concatenate([actions[: 10**5] % 3 + 7, actions])
    assert float(jax.jit(lambda a: jax.vmap(game.payoff)(a).max())(high)) <= best.value
    assert optimum(game) == best
