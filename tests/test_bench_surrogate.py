"""The payoff suite: its players keep the rules, its files go on, its tables are made from them alone."""

import re
from pathlib import Path

import numpy as np
import pytest

from nonzero.cli.main import main
from nonzero.experiments import bench_surrogate, demo
from nonzero.experiments.bench_asks import bench_asks
from nonzero.experiments.bench_surrogate import Suite, chosen_suite, measure_suite, measured
from nonzero.experiments.black_box import METHODS
from nonzero.experiments.results import read_results
from nonzero.experiments.surrogate_tables import suite_markdown, suite_rows, verdict
from nonzero.experiments.tables import markdown_table
from training_setup import CONFIG

CHEAP = Suite(
    families=("additive", "paired-traps"),
    sizes=("4x3",),
    methods=("uniform", "random-pairs"),
    seeds=3,
    budget=100,
)


@pytest.mark.parametrize("method", METHODS)
def test_players_ask_for_joint_actions_of_the_game(method: str):
    player = METHODS[method](3, 4, 7)
    for _ in range(12):
        action = player.ask()
        assert len(action) == 3
        assert all(0 <= choice < 4 for choice in action)
        player.tell(action, float(sum(action)))


def test_random_pairs_change_two_agents_of_an_incumbent_and_never_repeat():
    player = METHODS["random-pairs"](5, 6, 0)
    told: list[tuple[float, tuple[int, ...]]] = []
    for number in range(60):
        action = player.ask()
        assert action not in [known for _, known in told]
        if number >= 12:
            best = [known for _, known in sorted(told, reverse=True)[:3]]
            assert min(sum(a != b for a, b in zip(action, known, strict=True)) for known in best) <= 2
        told.append((float(sum(action)), action))
        player.tell(action, told[-1][0])


def test_suite_measures_what_is_missing_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    measure_suite(Suite(**{**vars(CHEAP), "seeds": 2}), tmp_path)
    assert len(measured(CHEAP, tmp_path)) == 8
    asked = []
    original = bench_surrogate.measure_cell

    def counted(*cell):
        asked.append(cell[3])
        return original(*cell)

    monkeypatch.setattr(bench_surrogate, "measure_cell", counted)
    measure_suite(CHEAP, tmp_path)
    assert asked == [CHEAP.first_seed + 2] * 4
    assert measured(CHEAP, tmp_path) == set(CHEAP.cells())


def test_rows_of_other_settings_are_not_mixed_in(tmp_path: Path):
    measure_suite(CHEAP, tmp_path)
    with pytest.raises(ValueError, match="other settings"):
        measure_suite(Suite(**{**vars(CHEAP), "budget": 300}), tmp_path)


def test_tables_hold_shares_of_the_optimum(tmp_path: Path):
    measure_suite(CHEAP, tmp_path)
    rows = suite_rows(CHEAP, tmp_path, 100)
    assert [row["family"] for row in rows] == ["additive", "paired-traps"]
    # 81 joint actions: who never repeats one has seen all of them after 81 of 100 evaluations.
    assert str(rows[0]["random-pairs"]).startswith("1.000")
    assert 0.0 < float(str(rows[0]["uniform"]).split()[0]) <= 1.0
    assert "## After 100 evaluations" in suite_markdown(CHEAP, tmp_path)


def test_verdict_compares_with_the_best_other_method_on_common_games():
    ours = {1: 1.0, 2: 0.9, 3: 1.0}
    assert verdict({"nonuct": ours, "tpe": {1: 0.8, 2: 0.8}, "de": {1: 0.5, 2: 0.5}}).startswith("wins")
    assert "on tpe" in verdict({"nonuct": ours, "tpe": {1: 0.8, 2: 0.8}, "de": {1: 0.5, 2: 0.5}})
    assert verdict({"nonuct": ours, "tpe": ours}).startswith("ties")
    assert verdict({"nonuct": {1: 0.5, 2: 0.5}, "tpe": {1: 0.9, 2: 0.8}}).startswith("loses")
    assert verdict({"tpe": ours}) == ""


def test_wrong_choices_are_refused():
    with pytest.raises(ValueError, match="unknown family 'trap': known are additive"):
        chosen_suite(families=("trap",))
    with pytest.raises(ValueError, match="unknown method"):
        chosen_suite(methods=("sgd",))
    with pytest.raises(ValueError, match="AGENTSxACTIONS"):
        chosen_suite(sizes=("6",))
    with pytest.raises(ValueError, match="budget is too small"):
        chosen_suite(budget=10)


def test_the_command_writes_tables_and_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["bench", "surrogate", "--families", "additive", "--sizes", "4x3", "--methods", "uniform"]
    assert main([*words, "--seeds", "1", "--budget", "100", "--out", str(tmp_path)]) == 0
    assert "additive" in capsys.readouterr().out
    assert (tmp_path / "tables.md").read_text().startswith("# Payoff suite")
    assert (tmp_path / "4x3-uniform.json").exists()


def test_asks_are_timed_beside_tpe():
    rows = bench_asks("3x4", evaluations=24, batch=8, alternations=1)
    assert [row["method"] for row in rows] == ["nonuct", "nonuct, batch", "tpe", "tpe, batch"]
    assert all(float(str(row["milliseconds_per_ask"])) > 0 for row in rows)
    assert rows[2]["times_faster_than_tpe"] == 1.0


def test_demo_draws_its_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(demo, "EVALUATIONS", 24)
    monkeypatch.setattr(demo, "TRAINED", CONFIG)
    assert main(["demo", "--games", "1", "--out", str(tmp_path / "new")]) == 0
    assert (tmp_path / "new" / "demo.png").stat().st_size > 10_000
    said = capsys.readouterr().out
    assert "NonUCT" in said
    assert re.search(r"Training reached.*% at 50, .*% at 60", said.replace("\n", " "))


def test_demo_rows_say_how_often_the_optimum_was_found():
    curves = {"nonuct": np.array([[0.5, 1.0], [0.2, 0.6]])}
    assert demo.demo_rows(curves) == [
        {"method": "NonUCT", "share of optimum": 0.8, "worst game": 0.6, "optimum found": "1 of 2"}
    ]


RESULTS = Path(__file__).parent.parent / "results" / "surrogate"
PUBLISHED = Suite()


def test_published_tables_are_those_of_the_committed_rows():
    assert (RESULTS / "tables.md").read_text() == suite_markdown(PUBLISHED, RESULTS)


def test_the_document_quotes_the_published_table():
    text = (RESULTS.parent.parent / "docs" / "surrogate.md").read_text()
    assert markdown_table(suite_rows(PUBLISHED, RESULTS, 600)) in text
    assert markdown_table(read_results(RESULTS / "asks.json")["rows"]) in text


def test_published_results_say_what_the_documents_claim():
    rows = suite_rows(PUBLISHED, RESULTS, 600)
    assert len(rows) == len(PUBLISHED.families) * len(PUBLISHED.sizes)
    assert not [row for row in rows if str(row["verdict"]).startswith("loses")]
    late = suite_rows(PUBLISHED, RESULTS, 1500)
    trap = next(row for row in late if (row["size"], row["family"]) == ("6x8", "paired-traps"))
    assert float(str(trap["nonuct"]).split()[0]) >= 0.9
