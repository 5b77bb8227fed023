"""Measured results as small JSON files: the rows, and all that is needed to measure them again."""

import importlib.metadata
import json
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nonzero.types import NonZeroError

PACKAGES = ("nonzero-mcts", "jax", "jaxlib", "equinox", "numpy", "optax", "jaxmarl", "jumanji")
"""Distributions whose version may change a result; those not installed are left out."""

Row = Mapping[str, object]


def write_results(
    path: Path | str,
    rows: Sequence[Row],
    settings: Mapping[str, object],
    *,
    summary: Mapping[str, object] | None = None,
) -> None:
    """Write rows with settings, versions, commit and date; the file appears complete or not at all.

    The `summary` of all rows, if there is one, stands beside them at the top level.
    """
    path = Path(path)
    check_writable(path)
    document = {
        **(summary or {}),
        "settings": dict(settings),
        "versions": versions(),
        "commit": commit(),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [dict(row) for row in rows],
    }
    text = json.dumps(document, indent=1, default=plain, allow_nan=False) + "\n"
    # Lists of numbers go on one line, so that a hundred episodes are no hundred lines.
    text = re.sub(r"\[\s+([-\w.,\s+]*?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    write_whole(path, text)


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears complete or not at all, in place of what was there."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise NonZeroError(f"cannot write {path}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_results(path: Path | str) -> dict[str, Any]:
    """Read what `write_results` wrote: settings, versions, commit, created, rows."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise NonZeroError(f"cannot read results from {path}: {reason}") from error
    if not isinstance(document, dict) or "rows" not in document:
        raise NonZeroError(f"cannot read results from {path}: it holds no rows")
    return document


def check_writable(path: Path | str) -> None:
    """Refuse a path that no file can be written to; call it before measuring for minutes."""
    path = Path(path)
    reason = None
    if path.is_dir():
        reason = "it is a directory"
    elif not path.parent.is_dir():
        reason = f"there is no directory {path.parent}"
    elif not os.access(path.parent, os.W_OK):
        reason = f"the directory {path.parent} is not writable"
    if reason:
        raise NonZeroError(f"cannot write {path}: {reason}")


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name.removesuffix("-mcts")] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str | None:
    """The short hash of the checkout that runs, or None; "-dirty" behind it if more than results changed."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():  # installed: a repository further up would be somebody else's
        return None
    head = git(root, "rev-parse", "--short", "HEAD")
    changes = git(root, "status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)results")
    return None if head is None or changes is None else f"{head}-dirty" if changes else head


def git(root: Path, *words: str) -> str | None:
    """What git answers in a checkout, or None."""
    command = ["git", "-C", str(root), *words]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout.strip() if answer.returncode == 0 else None


def plain(value: object) -> object:
    """Turn what measurements hold (paths, numpy and jax numbers and arrays) into what JSON knows."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()  # pyright: ignore[reportAttributeAccessIssue]
    raise TypeError(f"results hold a {type(value).__name__}, which JSON cannot keep")
