"""The shares of a run's time are those of its parts."""

import time
from typing import Any

import pytest

from nonzero.experiments import bench_train as bench
from training_setup import CONFIG


def test_every_part_has_a_share() -> None:
    said: list[str] = []
    found = bench.bench_train(CONFIG, said.append)
    row: dict[str, Any] = found[0]
    assert (row["environment"], row["algorithm"], row["steps"]) == ("matgame/linear-2x3", "mazero", 60)
    shares = [row[f"{name}_share"] for name in (*bench.PARTS, "python")]
    assert all(isinstance(share, float) and share > 0 for share in shares)
    assert row["python_share"] < 1
    assert row["environment_steps_per_second"] == pytest.approx(60 / row["seconds"])
    assert said[0] == "compiling"
    assert len(said) == 3


def test_a_part_takes_the_time_that_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.eqx, "filter_jit", lambda work: work)
    assert 0.01 <= bench.timed(time.sleep, 0.01) < 0.1
