"""`nonzero plan`: numbers and candidates of planned episodes, and mistakes told in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from nonzero.cli.main import main
from nonzero.evaluation.episodes import Decision
from nonzero.experiments.plan import plan_episodes, root_rows
from nonzero.experiments.planning import Cell, Model
from nonzero.types import NonZeroError

WORDS = ["plan", "matgame/climbing-2x3", "--preset", "mazero", "--simulations", "6", "--candidates", "4"]


def test_numbers_are_printed_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "plan.json"
    words = [*WORDS, "--episodes", "3", "--seed", "7", "--show", "--json", str(path)]
    assert main(words) == 0
    out = capsys.readouterr().out
    assert "matgame/climbing-2x3: mazero, 6 simulations a decision" in out
    assert "share of optimum" in out
    assert "The first decision of the episode of seed 7" in out
    assert out.count("prior") >= 2
    found = json.loads(path.read_text())
    assert (found["episodes"], found["simulations"], found["model_evaluations"]) == (3, 6, 6)
    assert (found["win_rate"], found["decisions"]) == (0.0, 30)
    assert found["mean_return"] == pytest.approx(np.mean([row["return"] for row in found["rows"]]), abs=1e-4)
    assert [row["seed"] for row in found["rows"]] == [7, 8, 9]
    assert found["seconds"] >= found["seconds_to_first_decision"] > 0
    low, high = found["mean_return_interval"]
    assert low <= found["mean_return"] <= high
    assert found["settings"]["base_policy"] is None
    assert found["versions"]["jax"]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--simulations", "0"], "simulations must be at least 1, not 0"),
        (["--candidates", "0"], "candidates must be at least 1, not 0"),
        (["--episodes", "0"], "episodes must be at least 1"),
        (["--seed", "-1"], "seed not negative"),
        (["--preset", "mazro"], "unknown search preset 'mazro': did you mean 'mazero'?"),
        (["--base-policy", "unform"], "did you mean 'uniform'?"),
        (["--base-policy", "heuristic"], "has no base policy 'heuristic': it has uniform."),
        (["--rollout-steps", "3"], "choose one (uniform)"),
        (["--rollout-steps", "0", "--base-policy", "uniform"], "rollout steps must be at least 1"),
        (["--uniform-share", "0"], "the uniform share lies above 0"),
        (["--json", "/nowhere/plan.json"], "cannot write /nowhere/plan.json"),
    ],
)
def test_mistakes_are_told_before_planning(
    words: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*WORDS, *words]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert part in captured.err


def test_a_base_policy_is_followed_and_has_no_candidates(capsys: pytest.CaptureFixture[str]):
    model = Model("uniform", 1.0, 2)
    planned = plan_episodes(Cell("matgame/additive-2x3", "base", 1, 1), model, range(4), rows=3)
    assert (planned.episodes.simulations, planned.rows) == (0, 3)
    with pytest.raises(NonZeroError, match="no candidates to show"):
        root_rows(planned.episodes.first)
    assert isinstance(planned.episodes.first, Decision)


def test_candidates_are_shown_by_visits():
    cell = Cell("matgame/additive-2x3", "sampled-muzero", 9, 5)
    planned = plan_episodes(cell, Model("uniform", 1.0, 2), range(2), rows=1)
    rows = root_rows(planned.episodes.first)
    visits = [int(str(row["visits"])) for row in rows]
    assert visits == sorted(visits, reverse=True)
    assert sum(visits) == 9
    assert len({row["joint action"] for row in rows}) == len(rows) <= 5
    assert all((row["Q"] is None) == (row["visits"] == 0) for row in rows)
