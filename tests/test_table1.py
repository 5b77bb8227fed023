import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from nonzero.experiments import runs, table1
from nonzero.experiments.paper import MATGAME
from nonzero.experiments.table1 import Cell, Plan, measure_table, table_rows, write_tables
from training_setup import CONFIG, TINY, tiny_learner

PLAN = Plan([(2, 3)], ["linear"], ["mazero"], seeds=2)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of 40 steps with tiny networks, evaluated at 20 and 40."""
    monkeypatch.setattr(runs, "make_learner", lambda config: tiny_learner())
    monkeypatch.setattr(table1, "load_preset", lambda name: TINY)
    monkeypatch.setitem(table1.BUDGETS, (2, 3), (20, 40))


def test_missing_runs_are_made_once_and_the_tables_follow(tmp_path: Path) -> None:
    seen: list[tuple[str, int]] = []

    def report(cell: Cell, step: int) -> None:
        seen.append((cell.name, step))

    measure_table(PLAN, tmp_path / "results", tmp_path / "runs", report)
    assert seen == [(f"linear-2x3-mazero-seed{seed}", 40) for seed in (100, 101)]
    measure_table(PLAN, tmp_path / "results", tmp_path / "runs", report)
    assert len(seen) == 2
    rows = table_rows(tmp_path / "results")
    assert [(row["steps"], row["seeds"]) for row in rows] == [(20, 2), (40, 2)]
    document = json.loads((tmp_path / "results" / "linear-2x3-mazero-seed100.json").read_text())
    assert len(document["rows"][0]["returns"]) == 32
    assert document["rows"][0]["optimum"] == 60.0
    table, text = write_tables(tmp_path / "results", tmp_path / "table1")
    with table.open() as file:
        written = list(csv.DictReader(file))
    names = "agents actions type steps algorithm seeds mean std share_of_optimum"
    assert list(written[0]) == names.split()
    assert float(written[1]["share_of_optimum"]) == pytest.approx(float(written[1]["mean"]) / 60.0)
    assert "paper's mean" in text.read_text()


def test_other_settings_are_measured_anew(tmp_path: Path) -> None:
    plan = replace(PLAN, seeds=1)
    measure_table(plan, tmp_path / "results", tmp_path / "runs")
    cell = next(plan.cells())
    config = cell.config("default")
    path = tmp_path / "results" / f"{cell.name}.json"
    assert table1.is_measured(path, config)
    assert not table1.is_measured(path, replace(config, steps=CONFIG.steps))


def test_the_papers_table_was_read_whole() -> None:
    assert len(MATGAME) == 16
    assert MATGAME[8, 10, "nonlinear", 2000]["nonzero"] == 697.1
    assert MATGAME[2, 3, "linear", 500] == {
        "mazero": 51.9,
        "mazero-np": 49.7,
        "ma-alphazero": 50.8,
        "mappo": 50.2,
        "qmix": 50.4,
        "nonzero": 54.7,
    }
