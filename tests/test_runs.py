import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.experiments import runs
from nonzero.experiments.config import RunConfig
from nonzero.experiments.curves import draw_curves, learning_curves
from nonzero.experiments.evaluate import evaluate_run, marl_eval_layout
from nonzero.experiments.run_folder import check_space
from nonzero.experiments.runs import Run, Schedule
from nonzero.training.checkpoint import named_arrays
from nonzero.types import NonZeroError
from training_setup import CONFIG, longer, tiny_learner

SCHEDULE = Schedule(report_every=10, evaluate_every=30, checkpoint_every=20, episodes=3)


@pytest.fixture(autouse=True)
def same_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """One learner for all runs here, so that it compiles once."""
    monkeypatch.setattr(runs, "make_learner", lambda config: tiny_learner())
    monkeypatch.setattr("nonzero.experiments.evaluate.make_learner", lambda config: tiny_learner())


def new_run(folder: Path, config: RunConfig = CONFIG, *, resume: bool = False) -> Run:
    return Run(config, folder, SCHEDULE, resume=resume)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run that nothing interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "make_learner", lambda config: tiny_learner())
        run = new_run(tmp_path_factory.mktemp("runs") / "whole")
        assert run.train()
    return run


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The lines of metrics, without the time they took."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name != "seconds"} for line in lines]


def assert_same_runs(one: Run, other: Run) -> None:
    left, right = named_arrays(one.state), named_arrays(other.state)
    for name, array in left.items():
        np.testing.assert_array_equal(array, right[name], err_msg=name)
    assert metrics(one.folder) == metrics(other.folder)
    assert one.evaluations == other.evaluations


def test_a_run_leaves_its_files(finished: Run) -> None:
    summary = json.loads((finished.folder / "summary.json").read_text())
    assert summary["is_finished"]
    assert (summary["environment_steps"], summary["gradient_updates"]) == (60, 60)
    assert summary["optimum"] == 60.0
    assert summary["share_of_optimum"] == summary["final_return"] / 60.0
    # 60 searches to act; of 4 windows half are reanalysed, 3 positions each, at each of 60 updates.
    assert summary["simulations"] == 3 * (60 + 60 * 2 * 3)
    assert [line["step"] for line in metrics(finished.folder)] == [20, 30, 40, 50, 60]
    evaluations = json.loads((finished.folder / "evaluations.json").read_text())
    assert [entry["step"] for entry in evaluations] == [30, 60]
    assert all(len(entry["returns"]) == 3 for entry in evaluations)
    assert sorted(path.name for path in (finished.folder / "checkpoints").iterdir()) == ["20", "40", "60"]


def stop_at(step: int) -> Callable[[dict[str, float]], None]:
    """A report that sends this process SIGTERM."""
    return lambda line: os.kill(os.getpid(), signal.SIGTERM) if line["step"] == step else None


def test_a_stopped_run_goes_on_to_the_bit(finished: Run, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    assert not run.train(stop_at(30))
    assert run.steps == 30
    assert not json.loads((run.folder / "summary.json").read_text())["is_finished"]
    again = new_run(tmp_path / "run", resume=True)
    assert again.steps == 30
    assert again.train()
    assert_same_runs(finished, again)


def test_steps_after_the_last_checkpoint_are_made_again(finished: Run, tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with pytest.raises(RuntimeError, match="power cut"):
        run.train(lambda line: fail() if line["step"] == 50 else None)
    with (run.folder / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5')  # a line that was being written
    again = new_run(tmp_path / "run", resume=True)
    assert again.steps == 40
    assert again.train()
    assert_same_runs(finished, again)


def fail() -> None:
    raise RuntimeError("power cut")


def test_a_finished_run_can_be_made_longer(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", longer(20))
    assert run.train()
    again = new_run(tmp_path / "run", longer(30), resume=True)
    assert again.train()
    assert again.steps == 30


def test_stopping_while_updates_are_caught_up_on_keeps_them(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run", longer(20))
    run.save()
    assert run.train()
    again = new_run(tmp_path / "run", longer(20), resume=True)
    assert (again.steps, int(again.state.updates)) == (20, 20)
    # As if it had stopped among the updates that the first steps owe.
    half = eqx.tree_at(lambda s: s.updates, again.state, jnp.int32(7))
    again.state = half
    again.save()
    assert int(new_run(tmp_path / "run", longer(20), resume=True).state.updates) == 7


def test_intervals_that_do_not_divide_each_other_are_all_kept(tmp_path: Path) -> None:
    schedule = Schedule(report_every=20, evaluate_every=14, checkpoint_every=18, episodes=2)
    run = Run(longer(60), tmp_path / "run", schedule, resume=False)
    assert run.train()
    assert [entry["step"] for entry in run.evaluations] == [28, 42, 56, 60]
    assert [line["step"] for line in metrics(run.folder)] == [20, 40, 60]
    assert sorted(path.name for path in (run.folder / "checkpoints").iterdir()) == ["36", "54", "60"]


def test_another_runs_folder_is_refused(finished: Run) -> None:
    with pytest.raises(NonZeroError, match="holds a run already: --resume goes on"):
        new_run(finished.folder)
    with pytest.raises(NonZeroError, match="holds another run: seed was 0, now 1"):
        new_run(finished.folder, replace(CONFIG, seed=1), resume=True)


def test_there_must_be_something_to_resume(tmp_path: Path) -> None:
    with pytest.raises(NonZeroError, match="there is no run"):
        new_run(tmp_path / "nothing", resume=True)


def test_a_folder_that_cannot_be_written_is_refused_before_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(NonZeroError, match="cannot write"):
        new_run(tmp_path / "file" / "run")


def test_a_full_disk_is_refused_before_work(finished: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: type("Usage", (), {"free": 1000})())
    with pytest.raises(NonZeroError, match="0 MB left"):
        check_space(finished.folder, finished.state)


def test_a_number_that_is_none_stops_the_run_and_keeps_the_last_checkpoint(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")

    def poison(line: dict[str, float]) -> None:
        if line["step"] == 30:
            place = lambda s: s.model.value_head.out.bias  # noqa: E731
            run.state = eqx.tree_at(place, run.state, replace_fn=lambda x: x.at[2].set(jnp.nan))

    with pytest.raises(
        NonZeroError, match=r"not finite after update 31 .*the checkpoint of step 20 is kept"
    ) as e:
        run.train(poison)
    assert "value_head.out.bias" in str(e.value) or "more tensors" in str(e.value)
    assert new_run(tmp_path / "run", resume=True).steps == 20


def test_evaluating_a_run(finished: Run) -> None:
    row, episodes = evaluate_run(finished.folder, 3, seed=0)
    assert row["step"] == 60
    assert len(episodes) == 3
    returns = [float(str(episode["return"])) for episode in episodes]
    low, mean, high = (float(str(row[name])) for name in ("low", "return", "high"))
    assert mean == pytest.approx(np.mean(returns))
    assert min(returns) <= low <= mean <= high <= max(returns)


def test_the_layout_of_marl_eval(finished: Run) -> None:
    document = json.loads(marl_eval_layout([finished.folder]))
    steps = document["matgame"]["linear-2x3"]["mazero"]["seed_0"]
    assert [steps[f"step_{k}"]["step_count"] for k in range(2)] == [30, 60]
    assert len(steps["step_0"]["return"]) == 3


def test_curves_are_drawn(finished: Run, tmp_path: Path) -> None:
    ((steps, mean, low, high),) = learning_curves([finished.folder, finished.folder]).values()
    assert steps == [30, 60]
    assert low == mean == high  # the same run twice has no spread
    for path in draw_curves(learning_curves([finished.folder]), tmp_path / "curves.png"):
        assert path.stat().st_size > 1000
