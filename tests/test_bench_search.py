"""The measurement of the search's speed: what it measures, keeps, refuses and says."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.cli.main import main
from nonzero.experiments.bench_planners import Setting, arguments, planner
from nonzero.experiments.bench_search import SearchBench, added, bench_search
from nonzero.experiments.bench_start import measure_start
from nonzero.experiments.results import read_results, write_results
from nonzero.experiments.search_tables import (
    growth_rows,
    memory_rows,
    search_markdown,
    speed_rows,
    start_rows,
)
from nonzero.experiments.tables import markdown_table

QUICK = ("--alternations", "1", "--seconds", "0.001", "--simulations", "4", "--candidates", "2")
TINY = ("bench", "search", "--sizes", "2x3", *QUICK)


def test_bench_search_prints_writes_and_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target, table = tmp_path / "speed.json", tmp_path / "speed.md"
    files = ("--json", str(target), "--table", str(table))
    assert main([*TINY, "--batches", "2", *files]) == 0
    rows = read_results(target)["rows"]
    assert [row["method"] for row in rows] == ["mazero", "mctx", "network"]
    for row in rows:
        assert {name: row[name] for name in Setting.__dataclass_fields__} == {
            "agents": 2,
            "actions": 3,
            "batch": 2,
            "simulations": 4,
            "candidates": 2,
        }
        assert row["simulations_per_second"] > 100
        # The network's weights alone are a megabyte.
        assert 0.5 < row["megabytes"] < 20
    assert rows[0]["times_mctx"] > 0
    assert rows[0]["share_of_network"] > 0
    assert f"{rows[0]['simulations_per_second']:,.0f}" in table.read_text()

    assert main([*TINY, "--batches", "1", "2", "--methods", "network", "--add", *files]) == 0
    after = read_results(target)["rows"]
    assert [(row["batch"], row["method"]) for row in after] == [
        (2, "mazero"),
        (2, "mctx"),
        (1, "network"),
        (2, "network"),
    ]
    assert after[:2] == rows[:2]
    assert capsys.readouterr().err == ""

    assert main([*TINY, "--seconds", "0.002", "--add", *files]) == 2
    assert "other settings" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (("--methods", "mazer"), "did you mean 'mazero'?"),
        (("--sizes", "3by9"), "AGENTSxACTIONS"),
        (("--batches", "0"), "batches must be at least 1"),
        (("--alternations", "0"), "must be positive"),
        (("--table", "missing/table.md"), "there is no directory"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    flags: tuple[str, ...], part: str, capsys: pytest.CaptureFixture[str]
):
    assert main([*TINY, *flags]) == 2
    captured = capsys.readouterr()
    assert part in captured.err
    assert captured.err.count("\n") == 1


def test_a_missing_mctx_is_named(monkeypatch: pytest.MonkeyPatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mctx" else find(name))
    with pytest.raises(Exception, match=r"nonzero-mcts\[bench\]"):
        SearchBench()
    assert SearchBench(methods=("mazero", "network")).methods == ("mazero", "network")


def test_rows_of_another_commit_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "rows.json"
    old, new = ({"agents": 2, "method": name} for name in ("mazero", "mctx"))
    write_results(path, [old], {})
    then = read_results(path)["commit"]
    assert added([new], path) == [old, new]
    monkeypatch.setattr("nonzero.experiments.bench_search.commit", lambda: "later")
    assert added([new], path) == [old | {"commit": then}, new]
    assert added([old], path) == [old]


def test_the_network_alone_makes_as_many_evaluations_as_a_search():
    setting = Setting(2, 3, batch=2, simulations=5, candidates=2)
    network, latent = arguments(setting)
    _, outputs = planner("network", setting)(network, latent, jax.random.key(0))
    # The discount is the same constant each time, and the sum starts with the root's.
    np.testing.assert_allclose(outputs.discount, jnp.full(2, 6 * 0.997), rtol=1e-6)


def test_a_fresh_process_tells_seconds_and_memory():
    found = measure_start("network", Setting(2, 3, batch=1, simulations=2, candidates=2))
    assert all(seconds > 0.5 for name, seconds in found.items() if name.startswith("seconds"))
    assert 100 < found["peak_process_megabytes"] < 1000


def row(method: str, speed: float, **cell: object) -> dict[str, object]:
    sizes = {"agents": 2, "actions": 3, "batch": 1, "simulations": 100, "candidates": 7}
    known = {"method": method, "simulations_per_second": speed, "megabytes": 1.5}
    return sizes | known | {"times_mctx": 2.0, "share_of_network": 0.5} | cell


def test_tables_compare_what_belongs_together():
    rows = [
        row("mazero", 1000.0),
        row("network", 2000.0, share_of_network=None),
        row("mazero", 800.0, simulations=400, share_of_network=0.4),
        row("mazero", 900.0, candidates=14, megabytes=2.5, times_mctx=None),
    ]
    speeds = speed_rows(rows)
    assert [line["mazero"] for line in speeds] == [
        "1,000 (2.00 ×, 50%)",
        "900 (50%)",
        "800 (2.00 ×, 40%)",
    ]
    assert speeds[0]["network"] == "2,000"
    (growth,) = growth_rows(rows)
    assert (growth["simulations"], growth["times"]) == ("400 : 100", 1.25)
    (memory,) = memory_rows(rows)
    assert (memory["K = 7"], memory["K = 14"]) == (1.5, 2.5)
    assert "## Start" not in search_markdown(rows)


def test_the_bench_plans_with_any_preset():
    bench = SearchBench(("2x3",), (1,), (3,), (2,), ("enumerate", "sampled-muzero"), 1, 0.001)
    assert [line["method"] for line in bench_search(bench)] == ["enumerate", "sampled-muzero"]


ROOT = Path(__file__).parent.parent


def test_documents_show_the_tables_of_the_result_file():
    rows = read_results(ROOT / "results/search/speed.json")["rows"]
    assert (ROOT / "results/search/speed.md").read_text() == search_markdown(rows)
    text = (ROOT / "docs/search.md").read_text()
    for table in (speed_rows(rows), growth_rows(rows), memory_rows(rows), start_rows(rows)):
        assert markdown_table(table) in text


def test_the_program_in_the_document_plans():
    text = (ROOT / "docs/search.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    known: dict[str, Any] = {}
    exec(program, known)
    assert known["result"].action.shape == (4, 3)
    np.testing.assert_allclose(known["result"].weights.sum(axis=1), 1.0, rtol=1e-6)
