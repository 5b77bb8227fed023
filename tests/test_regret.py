"""The regret measurements: the truth they judge by, the fits, and the command."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.cli.main import main
from nonzero.experiments import regret
from nonzero.experiments.regret import EPSILON, QUICK, Plan, first_round, known_rows
from nonzero.experiments.regret_figures import tables
from nonzero.experiments.regret_fit import growth_exponent, size_slope
from nonzero.experiments.regret_play import (
    all_payoffs,
    ascend,
    is_local_maximum,
    judge,
    largest_gains,
    play,
    realisable_game,
    rules_for,
    ucb_rounds,
)
from nonzero.experiments.results import read_results
from nonzero.surrogate import NonUCT
from nonzero.surrogate.predictor import Link, predict

ROOT = Path(__file__).parent.parent
Action = tuple[int, ...]


def enumerated(num_agents: int, num_actions: int, rank: int, seed: int) -> dict[Action, float]:
    game = realisable_game(num_agents, num_actions, rank, seed)
    actions = list(itertools.product(range(num_actions), repeat=num_agents))
    payoffs = jax.vmap(lambda a: predict(game, a, Link()))(jnp.array(actions, jnp.int32))
    return dict(zip(actions, np.asarray(payoffs).tolist(), strict=True))


def gains(payoffs: dict[Action, float], action: Action, changes: int) -> float:
    """The largest gain among the joint actions that differ from `action` for so many agents."""
    others = (o for o in payoffs if sum(x != y for x, y in zip(o, action, strict=True)) == changes)
    return max(payoffs[other] for other in others) - payoffs[action]


@pytest.mark.parametrize(("num_agents", "num_actions", "rank"), [(3, 3, 0), (3, 3, 4), (4, 2, 3)])
def test_gains_and_local_maxima_agree_with_enumeration(num_agents: int, num_actions: int, rank: int):
    game = realisable_game(num_agents, num_actions, rank, 5)
    payoffs = enumerated(num_agents, num_actions, rank, 5)
    epsilon = 0.3
    verdicts = []
    for action in payoffs:
        single, pair, better = largest_gains(game, jnp.array(action, jnp.int32))
        wanted = gains(payoffs, action, 1), gains(payoffs, action, 2)
        np.testing.assert_allclose([single, pair], wanted, atol=1e-5)
        gain = payoffs[tuple(better.tolist())] - payoffs[action]
        assert gain == pytest.approx(max(wanted), abs=1e-5)
        verdicts.append(bool(is_local_maximum(game, jnp.array(action, jnp.int32), epsilon)))
        assert verdicts[-1] == (max(wanted) <= epsilon)
    assert 0 < sum(verdicts) < len(verdicts)


@pytest.mark.parametrize("rank", [0, 4])
def test_games_have_unit_spread_and_padding_changes_nothing(rank: int):
    game, padded = realisable_game(5, 4, rank, 7), realisable_game(5, 4, rank, 7, columns=6)
    payoffs = all_payoffs(game)
    assert list(enumerated(5, 4, rank, 7).values()) == pytest.approx(payoffs.tolist(), abs=1e-5)
    np.testing.assert_allclose(all_payoffs(padded), payoffs, atol=1e-5)
    z = np.sinh(payoffs / Link().c) / Link().alpha
    assert (z.mean(), z.std()) == (pytest.approx(0.0, abs=1e-5), pytest.approx(1.0, abs=1e-5))


def test_rounds_are_judged_by_the_best_so_far():
    game, payoffs = realisable_game(3, 3, 4, 1), enumerated(3, 3, 4, 1)
    asked = [list(payoffs)[i] for i in np.random.default_rng(0).permutation(len(payoffs))]
    verdict = judge(game, jnp.array(asked, jnp.int32), jnp.array([payoffs[a] for a in asked]), EPSILON)
    for number, action in enumerate(asked):
        best = max(asked[: number + 1], key=payoffs.__getitem__)
        outside = {a: max(gains(payoffs, a, 1), gains(payoffs, a, 2)) > EPSILON for a in (action, best)}
        top = ascend(game, jnp.array(best, jnp.int32), EPSILON)
        gap = payoffs[tuple(top.tolist())] - payoffs[best]
        assert bool(is_local_maximum(game, top, EPSILON))
        assert bool(verdict.is_asked_outside[number]) == outside[action]
        assert bool(verdict.is_outside[number]) == outside[best]
        assert float(verdict.gap[number]) == pytest.approx(gap, abs=1e-5)
        assert float(verdict.best[number]) == pytest.approx(payoffs[best])
    assert float(verdict.gap.max()) > 0.1


def test_the_compiled_loop_asks_what_the_optimiser_asks():
    games = [realisable_game(3, 3, 4, seed) for seed in (2, 3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *games)
    rules = rules_for(3, 4)
    actions, payoffs = play(stacked, jax.vmap(jax.random.key)(jnp.array([8, 9])), 27, rules)
    optimizer = NonUCT([3, 3, 3], seed=9)
    assert optimizer._rules == rules
    # Of the last few of the 27 joint actions the optimiser keeps a list of its own.
    for asked, payoff in zip(actions[1, :24].tolist(), payoffs[1, :24], strict=True):
        assert optimizer.ask() == tuple(asked)
        optimizer.tell(asked, float(payoff))


def test_ucb_needs_what_random_order_needs():
    game, payoffs = realisable_game(3, 3, 4, 3), enumerated(3, 3, 4, 3)
    listed = list(payoffs)
    for seed in range(5):
        to_local, to_global = ucb_rounds(game, all_payoffs(game), EPSILON, seed)
        order = [listed[i] for i in np.random.default_rng(seed).permutation(len(listed))]
        records = [max(order[: n + 1], key=payoffs.__getitem__) for n in range(len(order))]
        is_local = [max(gains(payoffs, a, 1), gains(payoffs, a, 2)) <= EPSILON for a in records]
        assert to_local == is_local.index(True) + 1
        best = max(payoffs.values())
        assert to_global == [payoffs[a] >= best - EPSILON for a in records].index(True) + 1


def test_growth_exponent_of_known_curves():
    rounds = np.unique(np.geomspace(1, 1000, 30).astype(int))
    scales = np.array([[0.5], [1.0], [2.0], [4.0]])
    power = growth_exponent(rounds, scales * rounds**0.6)
    assert power.value == pytest.approx(0.6)
    assert (power.low, power.high) == pytest.approx((0.6, 0.6))
    settled = growth_exponent(rounds, np.minimum(scales * rounds, 40.0))
    assert settled.value == pytest.approx(0.0, abs=1e-9)
    mixed = growth_exponent(rounds, np.stack([rounds**0.2, 1.0 * rounds]))
    assert mixed.low == pytest.approx(0.2)
    assert mixed.high == pytest.approx(1.0)


def test_size_slope_tells_a_power_from_an_exponential():
    sizes = np.array([8.0, 16.0, 32.0, 64.0])
    rounds = 3.0 * sizes[:, None] ** 1.5 * np.ones((1, 5))
    power, share = size_slope(np.log(sizes), rounds)
    assert (power.value, power.low, power.high) == pytest.approx((1.5, 1.5, 1.5))
    assert share == pytest.approx(1.0)
    assert size_slope(sizes, rounds)[1] < 0.95


def test_first_round_counts_from_one():
    assert first_round(np.array([False, True, True])) == 2
    assert first_round(np.array([False, False])) is None


def test_command_writes_its_files_and_resumes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    out = tmp_path / "regret"
    words = ["reproduce", "regret", "--quick", "--seeds", "2", "--out", str(out)]
    assert main(words) == 0
    names = ["growth.json", "growth.png", "growth.svg", "separation.json", "separation.png", "separation.svg"]
    assert sorted(path.name for path in out.iterdir()) == [*names, "tables.md"]
    growth, separation = (read_results(out / name)["rows"] for name in ("growth.json", "separation.json"))
    assert len(growth) == len(QUICK.growth_cells())
    assert len(separation) == len(QUICK.separation_cells())
    for row in growth:
        last = row["checkpoints"][-1]
        assert last == QUICK.rounds_per_size * row["agents"] * row["actions"]
        for incumbent, asked, first in zip(row["incumbent"], row["asked"], row["first_asked"], strict=True):
            assert incumbent == sorted(incumbent)
            assert first - 1 <= incumbent[-1] <= last
            assert first - 1 <= asked[-1] < last

    def refuse(*arguments: object, **keywords: object) -> None:
        raise AssertionError(f"measured again: {arguments} {keywords}")

    before = {path.name: path.read_bytes() for path in out.iterdir() if path.suffix == ".json"}
    monkeypatch.setattr(regret, "measure_growth", refuse)
    monkeypatch.setattr(regret, "measure_separation", refuse)
    capsys.readouterr()
    assert main(words) == 0
    assert "growth.png" in capsys.readouterr().out
    assert before == {name: (out / name).read_bytes() for name in before}


def test_results_of_other_settings_are_not_kept(tmp_path: Path):
    path = tmp_path / "growth.json"
    cells = QUICK.growth_cells()
    regret.write_results(path, cells, QUICK.settings())
    assert known_rows(path, QUICK.settings(), cells[1:]) == cells[1:]
    assert known_rows(path, Plan(seeds=3).settings(), cells) == []
    assert known_rows(tmp_path / "missing.json", QUICK.settings(), cells) == []


def test_one_seed_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["reproduce", "regret", "--seeds", "1", "--out", str(tmp_path)]) == 2
    assert "at least 2" in capsys.readouterr().err


def test_the_document_shows_the_tables_of_the_committed_results():
    folder = ROOT / "results" / "regret"
    growth, separation = (read_results(folder / name)["rows"] for name in ("growth.json", "separation.json"))
    made = tables(growth, separation)
    assert (folder / "tables.md").read_text() == made
    text = (ROOT / "docs" / "theory.md").read_text()
    assert all(table in text for table in made.split("\n\n"))
