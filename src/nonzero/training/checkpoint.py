"""Checkpoints of the whole training state: written whole or not at all, read only if every bit is as written.

Arrays go to disk by name through orbax, which commits a checkpoint by renaming its folder; their digests go
with them. Nothing is unpickled.
"""

import hashlib
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp

from nonzero.types import NonZeroError

State = TypeVar("State")


class Checkpoints:
    """The checkpoints of a run, in one folder; only the newest few are kept."""

    def __init__(self, folder: Path, keep: int = 3) -> None:
        self.folder = folder.resolve()
        options = ocp.CheckpointManagerOptions(
            max_to_keep=keep, enable_async_checkpointing=False, cleanup_tmp_directories=True
        )
        try:
            self._manager = ocp.CheckpointManager(self.folder, options=options)
        except OSError as error:
            raise NonZeroError(f"cannot keep checkpoints in {folder}: {error.strerror}") from error

    def latest(self) -> int | None:
        """The step of the newest whole checkpoint, or None."""
        return self._manager.latest_step()

    def save(self, step: int, state: Any, notes: dict[str, Any]) -> None:
        """Write `state` and `notes` (anything JSON) as the checkpoint of `step`."""
        arrays = named_arrays(state)
        notes = notes | {"digests": {name: digest(array) for name, array in arrays.items()}}
        parts = ocp.args.Composite(state=ocp.args.StandardSave(arrays), notes=ocp.args.JsonSave(notes))
        try:
            self._manager.save(step, args=parts, force=True)
            self._manager.wait_until_finished()
        except (OSError, ValueError) as error:
            raise NonZeroError(f"cannot write the checkpoint of step {step}: {first_line(error)}") from error

    def delete(self, step: int) -> None:
        """Remove the checkpoint of `step`."""
        self._manager.delete(step)

    def restore(self, like: State, step: int | None = None) -> tuple[State, dict[str, Any]]:
        """The state and the notes of a checkpoint (default: the newest); `like` gives structure, shapes."""
        step = self.latest() if step is None else step
        if step is None:
            raise NonZeroError(f"there is no whole checkpoint in {self.folder}")
        wanted = named_arrays(like, only_shapes=True)
        parts = ocp.args.Composite(state=ocp.args.StandardRestore(wanted), notes=ocp.args.JsonRestore())
        try:
            found = self._manager.restore(step, args=parts)
        except Exception as error:  # whatever damaged files make the readers of other packages raise
            raise refusal(self.folder, step, first_line(error)) from error
        digests = found["notes"].get("digests", {})
        for name, expected in wanted.items():
            array = np.asarray(found["state"].get(name))
            if digests.get(name) != digest(array):
                raise refusal(self.folder, step, f"{name} is not what was written")
            if (array.shape, array.dtype) != (expected.shape, expected.dtype):
                shapes = f"{list(array.shape)}, not {list(expected.shape)}"
                raise refusal(self.folder, step, f"it is another model's: {name} has the shape {shapes}")
        return rebuilt(like, found["state"]), found["notes"]

    def close(self) -> None:
        """Let go of the folder."""
        self._manager.close()


def refusal(folder: Path, step: int, reason: str) -> NonZeroError:
    """The error for a checkpoint that cannot be used."""
    return NonZeroError(
        f"the checkpoint {folder / str(step)} is damaged ({reason}): "
        "remove that folder to go on from the one before"
    )


def first_line(error: Exception) -> str:
    """What an error says, briefly."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else text[:160] + "…"


def is_key(leaf: Any) -> bool:
    """Whether a leaf holds random keys, which are stored as the numbers they are."""
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def named_arrays(state: Any, *, only_shapes: bool = False) -> dict[str, Any]:
    """The state's arrays by the path that leads to them; shapes and types alone, where that is enough."""
    arrays = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        if only_shapes:
            shape = jax.eval_shape(jax.random.key_data, leaf) if is_key(leaf) else leaf
            arrays[name] = jax.ShapeDtypeStruct(shape.shape, shape.dtype)
        else:
            arrays[name] = np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)
    return arrays


def rebuilt(like: State, arrays: dict[str, Any]) -> State:
    """The state with the structure of `like` and the values of `arrays`."""

    def leaf(path: Any, old: Any) -> Any:
        new = jnp.asarray(arrays[jax.tree_util.keystr(path, simple=True, separator=".")])
        return jax.random.wrap_key_data(new) if is_key(old) else new

    return jax.tree_util.tree_map_with_path(leaf, like)


def digest(array: np.ndarray) -> str:
    """A fingerprint of an array's bits, shape and type."""
    content = np.ascontiguousarray(array)
    return hashlib.sha256(f"{content.dtype}{content.shape}".encode() + content.tobytes()).hexdigest()
