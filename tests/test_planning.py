"""Planning without training: its cells are played once and kept, its tables come from the files alone."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.cli.main import main
from nonzero.envs.matgame import MatGame, many_games
from nonzero.envs.payoffs import payoff_game
from nonzero.envs.registry import base_policy, make
from nonzero.evaluation.episodes import Follower, Planner
from nonzero.experiments.mctx_search import MctxPlanner
from nonzero.experiments.planning import Cell, Model, Study, chosen_study, measure_study, player, stage
from nonzero.experiments.planning_files import described, missing_seeds, rows_in
from nonzero.experiments.planning_tables import planning_markdown, planning_rows, read_records
from nonzero.experiments.results import read_results, write_results
from nonzero.search import preset
from nonzero.search.guide import Guide
from nonzero.testing import check_env
from nonzero.types import NonZeroError

GAME = "matgame/climbing-2x3"
TINY = Study(environments=(GAME,), methods=("mazero", "base"), simulations=(4,), candidates=(2,), episodes=3)


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planning")
    measure_study(TINY, folder)
    return folder


def test_cells_are_played_once_and_go_on(measured: Path, monkeypatch: pytest.MonkeyPatch):
    document = read_results(measured / "matgame-climbing-2x3-mazero.json")
    (row,) = document["rows"]
    assert (row["simulations"], row["candidates"], row["model_evaluations"]) == (4, 2, 4)
    assert (row["seeds"], row["lengths"], row["won"]) == ([100, 101, 102], [10] * 3, [0] * 3)
    assert row["optima"] == pytest.approx([110.0] * 3)
    assert document["settings"]["model"]["base_policy"] is None
    asked = []
    monkeypatch.setattr(
        "nonzero.experiments.planning.measure_cell",
        lambda study, cell, seeds, report: (
            asked.append((cell.method, seeds))
            or {name: [0] * len(seeds) for name in ("returns", "won")}
            | {"seeds": seeds, "lengths": [10] * len(seeds), "optima": [110.0] * len(seeds)}
            | {"simulations": cell.simulations, "candidates": cell.candidates, "model_evaluations": 4}
        ),
    )
    longer = Study(**{**vars(TINY), "episodes": 5})
    for path in measured.glob("*.json"):
        (measured / "copy").mkdir(exist_ok=True)
        (measured / "copy" / path.name).write_text(path.read_text())
    measure_study(TINY, measured / "copy")
    assert asked == []
    measure_study(longer, measured / "copy")
    assert asked == [("mazero", [103, 104]), ("base", [103, 104])]
    cell = Cell(GAME, "mazero", 4, 2)
    assert missing_seeds(measured / "copy", cell, longer.model(GAME), range(100, 106)) == [105]
    (row,) = rows_in(measured / "copy", GAME, "mazero", longer.model(GAME))
    assert row["seeds"] == [100, 101, 102, 103, 104]
    with pytest.raises(ValueError, match="other settings"):
        missing_seeds(measured, cell, Model("uniform", 0.5), [1])


def test_every_seed_of_a_payoff_game_is_a_game():
    env, start = stage("matgame/paired-traps-4x3", range(100, 104))
    assert start is not None
    actions = jnp.array([0, 1, 2, 0])
    for seed in range(100, 104):
        state, _ = start(jnp.uint32(seed))
        _, outcome = env.step(state, actions, jax.random.key(0))
        expected = payoff_game("paired-traps", 4, 3, seed).payoff(actions)
        np.testing.assert_allclose(outcome.reward, expected, rtol=1e-6)
    check_env(many_games("additive", 2, 3, range(3)))
    assert isinstance(stage("matgame/mazero-1", [1])[0], MatGame)


def write_cell(folder: Path, method: str, simulations: int, evaluations: int, won: list[int]) -> None:
    row = {"simulations": simulations, "candidates": 7, "model_evaluations": evaluations, "won": won}
    row |= {"seeds": list(range(len(won))), "returns": [2.0 * x for x in won], "lengths": [9] * len(won)}
    path = folder / f"smax-3m-{method}.json"
    old = read_results(path)["rows"] if path.exists() else []
    write_results(path, [*old, row], {"environment": "smax/3m", "method": method})


def test_tables_compare_at_equal_simulations_and_at_equal_evaluations(tmp_path: Path):
    write_cell(tmp_path, "nonzero", 50, 100, [1] * 8)
    write_cell(tmp_path, "mazero", 50, 50, [0] * 8)
    write_cell(tmp_path, "mazero", 100, 100, [1, 0] * 4)
    write_cell(tmp_path, "base", 0, 0, [0] * 8)
    records = read_records(tmp_path)
    first, second = planning_rows(records, "won", is_by_evaluations=False)
    assert (first["nonzero"], first["mazero"], first["base"]) == tuple(
        f"{share} [{share[:4]}, {share[:4]}]" for share in ("1.000", "0.000", "0.000")
    )
    assert str(first["nonzero against the best"]).startswith("wins (+1.000 on mazero)")
    assert second["nonzero"] == ""
    less, more = planning_rows(records, "won", is_by_evaluations=True)
    assert (less["nonzero"], less["model evaluations"]) == ("", 50)
    assert str(more["mazero"]).startswith("0.500")
    assert str(more["nonzero against the best"]).startswith("wins (+0.500 on mazero)")
    text = planning_markdown(tmp_path)
    assert text.count("### Share of battles won") == 2
    assert "payoff games (a star" not in text


def test_unknown_optima_make_shares_of_the_best_return(measured: Path, tmp_path: Path):
    for path in measured.glob("*.json"):
        document = json.loads(path.read_text())
        for row in document["rows"]:
            row["optima"] = [None] * len(row["seeds"])
        (tmp_path / path.name).write_text(json.dumps(document))
    (row,) = planning_rows(read_records(tmp_path), "share", is_by_evaluations=False)
    assert row["environment"] == f"{GAME} *"


def test_who_plays():
    env = make(GAME)
    model = TINY.model(GAME)
    assert isinstance(player(Cell(GAME, "mctx", 4, 2), env, model), MctxPlanner)
    searched = player(Cell(GAME, "ma-alphazero", 4, 2), env, model)
    assert isinstance(searched, Planner)
    assert searched.rules == preset("ma-alphazero")
    assert isinstance(player(Cell(GAME, "base", 0, 0), env, model), Follower)
    with pytest.raises(NonZeroError, match="no base policy 'heuristic': it has uniform"):
        base_policy(env, "heuristic")
    with pytest.raises(NonZeroError, match="did you mean 'uniform'"):
        base_policy(env, "unifrom")


def test_rules_are_kept_whole_so_that_another_default_is_another_setting():
    kept = described(preset("nonzero"))
    assert kept["guide"]["policy_weight"] == Guide().policy_weight
    assert kept["guide"]["beliefs"]["is"] == "Beliefs"
    assert kept["surrogate"] is None
    assert described(preset("flat"))["guide"]["asks_anew"] == "inf"
    assert described(preset("mazero"))["averaging"] == {"is": "Averaging", "rho": 0.75, "lam": 0.8}


def test_wrong_choices_are_refused():
    with pytest.raises(NonZeroError, match="did you mean 'mazero'"):
        chosen_study(methods=("mazro",), environments=(GAME,))
    with pytest.raises(NonZeroError, match="unknown environment"):
        chosen_study(methods=("mazero",), environments=("matgame/climbing",))
    with pytest.raises(ValueError, match="simulations must be at least 1, not 0"):
        chosen_study(methods=("mazero",), environments=(GAME,), simulations=(0,))


def test_the_command_measures_and_writes_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["reproduce", "planning", "--environments", GAME, "--presets", "mctx", "--simulations", "3"]
    assert main([*words, "--candidates", "2", "--episodes", "2", "--out", str(tmp_path / "out")]) == 0
    assert "Wrote" in capsys.readouterr().out
    assert f"| {GAME} | 3 | 2 |" in (tmp_path / "out" / "tables.md").read_text()


RESULTS = Path(__file__).parent.parent / "results" / "planning"


def test_published_tables_are_those_of_the_committed_rows():
    assert (RESULTS / "tables.md").read_text() == planning_markdown(RESULTS)
