import gc
import pickle
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nonzero.training.checkpoint import Checkpoints, named_arrays
from nonzero.types import NonZeroError


def some_state() -> dict:
    return {
        "key": jax.random.key(3),
        "weights": [jnp.arange(6.0).reshape(2, 3), jnp.float32(2.5)],
        "flags": jnp.array([True, False]),
        "count": jnp.int32(7),
    }


def blank() -> dict:
    return jax.eval_shape(some_state)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    checkpoints.save(5, some_state(), {"seconds": 1.5})
    checkpoints.close()
    return tmp_path / "checkpoints"


def test_everything_comes_back(folder: Path) -> None:
    state, notes = Checkpoints(folder).restore(blank())
    assert notes["seconds"] == 1.5
    wanted = named_arrays(some_state())
    assert named_arrays(state).keys() == wanted.keys()
    for name, array in named_arrays(state).items():
        assert array.dtype == wanted[name].dtype
        np.testing.assert_array_equal(array, wanted[name])
    assert jax.random.uniform(state["key"]) == jax.random.uniform(jax.random.key(3))


def test_the_newest_few_are_kept(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in (1, 2, 3):
        checkpoints.save(step, some_state(), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "3"]
    assert checkpoints.latest() == 3


def test_nothing_to_restore(tmp_path: Path) -> None:
    with pytest.raises(NonZeroError, match="there is no whole checkpoint"):
        Checkpoints(tmp_path).restore(blank())


def content(folder: Path) -> list[Path]:
    """The files that hold something, apart from orbax's marks of success."""
    files = [path for path in (folder / "5").rglob("*") if path.is_file() and path.stat().st_size]
    return [path for path in files if path.name != "_CHECKPOINT_METADATA"]


def what_is_wrong(folder: Path) -> str | None:
    """Why the checkpoint is refused; None if it comes back as it was written (a file that nothing needs)."""
    try:
        state, notes = Checkpoints(folder).restore(blank())
    except NonZeroError as error:
        return str(error)
    finally:
        gc.collect()
    assert notes["seconds"] == 1.5
    for name, array in named_arrays(state).items():
        np.testing.assert_array_equal(array, named_arrays(some_state())[name])
    return None


# Where it cannot go on, orbax leaves coroutines behind that complain when they are collected.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("damage", ["truncated", "changed", "removed"])
def test_damage_to_any_file_is_noticed(folder: Path, damage: str) -> None:
    whole = {path: path.read_bytes() for path in content(folder)}
    assert len(whole) >= 3
    for path, data in whole.items():
        half = len(data) // 2
        if damage == "removed":
            path.unlink()
        else:
            path.write_bytes(data[:half] + (b"" if damage == "truncated" else b"\xff\x00" + data[half + 2 :]))
        complaint = what_is_wrong(folder)
        assert complaint is None or ("is damaged" in complaint and "\n" not in complaint)
        path.write_bytes(data)
    assert what_is_wrong(folder) is None


class Bomb:
    def __reduce__(self) -> tuple:
        return Path.touch, (Path("exploded"),)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_pickle_is_refused_and_not_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for path in content(folder):
        path.write_bytes(pickle.dumps(Bomb()))
    complaint = what_is_wrong(folder)
    assert complaint is not None
    assert "is damaged" in complaint
    assert not (tmp_path / "exploded").exists()


def test_another_models_checkpoint_is_refused(folder: Path) -> None:
    other = blank() | {"count": jax.ShapeDtypeStruct((3,), jnp.int32)}
    with pytest.raises(NonZeroError, match="is damaged"):
        Checkpoints(folder).restore(other)
