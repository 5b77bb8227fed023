import pytest

from nonzero.experiments.bench_envs import bench_envs


def test_matgame_gets_a_row_per_batch() -> None:
    rows = bench_envs(["matgame/linear-2x3"], alternations=1, seconds=0.01)
    assert [(row["environment"], row["batch"], row["method"]) for row in rows] == [
        ("matgame/linear-2x3", batch, "nonzero") for batch in (32, 256, 1024)
    ]
    for row in rows:
        # Far below what any machine makes, far above what leaving the compiled loop would leave.
        assert isinstance(row["steps_per_second"], float)
        assert row["steps_per_second"] > 5_000
        assert row["ratio"] is None


@pytest.mark.parametrize(("alternations", "seconds"), [(0, 0.1), (1, 0.0)])
def test_settings_that_measure_nothing_are_refused(alternations: int, seconds: float) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        bench_envs(["matgame/linear-2x3"], alternations=alternations, seconds=seconds)


@pytest.mark.slow
def test_smax_keeps_up_with_jaxmarls_own_step() -> None:
    rows = bench_envs(["smax/3m"], alternations=15, seconds=0.3)
    assert [row["method"] for row in rows] == ["nonzero", "jaxmarl"] * 2
    ratios = [row["ratio"] for row in rows if row["method"] == "nonzero"]
    assert all(isinstance(ratio, float) and ratio >= 0.9 for ratio in ratios)
