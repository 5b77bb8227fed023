import json
import platform
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console

from nonzero.experiments import results
from nonzero.experiments.results import read_results, write_results
from nonzero.experiments.tables import markdown_table, rich_table
from nonzero.types import NonZeroError

ROWS = [{"environment": "a|b [x]", "batch": 1024, "rate": 1234567.8}, {"environment": "c", "ratio": 0.98765}]


def test_what_is_written_is_read(tmp_path: Path):
    write_results(tmp_path / "rows.json", ROWS, {"seeds": (1, 2)})
    document = read_results(tmp_path / "rows.json")
    assert list(document) == ["settings", "versions", "commit", "created", "rows"]
    assert document["rows"] == ROWS
    assert document["settings"] == {"seeds": [1, 2]}
    assert document["versions"]["python"] == platform.python_version()
    assert document["versions"]["jax"] == jax.__version__
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_numbers_of_numpy_and_jax_and_paths_are_kept(tmp_path: Path):
    row = {"a": np.float32(0.5), "b": jnp.int32(3), "c": np.arange(2), "d": Path("x/y")}
    write_results(tmp_path / "rows.json", [row], {})
    assert read_results(tmp_path / "rows.json")["rows"] == [{"a": 0.5, "b": 3, "c": [0, 1], "d": "x/y"}]


@pytest.mark.parametrize("bad", [{"rate": float("nan")}, {"rate": object()}])
def test_rows_that_json_cannot_hold_leave_the_old_file_alone(tmp_path: Path, bad: dict[str, object]):
    path = tmp_path / "rows.json"
    write_results(path, ROWS, {})
    before = path.read_text()
    with pytest.raises((ValueError, TypeError)):
        write_results(path, [bad], {})
    assert path.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_a_write_that_fails_half_way_leaves_the_old_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "rows.json"
    write_results(path, ROWS, {})
    before = path.read_text()

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(NonZeroError, match=r"cannot write .*: No space left on device"):
        write_results(path, [], {})
    assert path.read_text() == before
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_paths_that_cannot_be_written_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(NonZeroError, match="it is a directory"):
        write_results(tmp_path, [], {})
    with pytest.raises(NonZeroError, match="there is no directory"):
        write_results(tmp_path / "no" / "rows.json", [], {})
    monkeypatch.setattr(results.os, "access", lambda path, mode: False)
    with pytest.raises(NonZeroError, match="is not writable"):
        write_results(tmp_path / "rows.json", [], {})


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("{", "it is not JSON"), ("[]", "no rows"), (json.dumps({"a": 1}), "no rows")],
)
def test_files_that_are_no_results_are_refused(tmp_path: Path, content: str | None, reason: str):
    path = tmp_path / "rows.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(NonZeroError, match=reason):
        read_results(path)


def test_commit_is_a_hash_in_a_checkout_and_null_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    module = tmp_path / "src" / "nonzero" / "experiments" / "results.py"
    monkeypatch.setattr(results, "__file__", str(module))
    assert results.commit() is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=n", "-c", "user.email=n@n.invalid"]
    (tmp_path / "file").write_text("one")
    for words in (["init", "--quiet"], ["add", "file"], ["commit", "--quiet", "--message", "one"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout
    found = results.commit()
    assert found is not None
    assert len(found) >= 7
    assert head.startswith(found)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "rows.json").write_text("{}")
    subprocess.run([*git, "add", "results"], check=True)
    assert results.commit() == found
    (tmp_path / "file").write_text("two")
    assert results.commit() == f"{found}-dirty"
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert results.commit() is None


def test_markdown_table():
    assert markdown_table(ROWS) == (
        "| environment | batch | rate | ratio |\n"
        "| --- | --- | --- | --- |\n"
        "| a\\|b [x] | 1,024 | 1,234,568 |  |\n"
        "| c |  |  | 0.988 |\n"
    )


def test_rich_table_shows_every_cell_as_it_is():
    console = Console(width=80, record=True, color_system=None)
    with console.capture() as capture:
        console.print(rich_table([*ROWS, {"environment": True}], title="Rates"))
    lines = capture.get().splitlines()
    assert lines[0].strip() == "Rates"
    assert ["a|b", "[x]", "1,024", "1,234,568"] in [line.split() for line in lines]
    assert ["yes"] in [line.split() for line in lines]


def test_an_empty_table_prints():
    console = Console(width=80)
    with console.capture() as capture:
        console.print(rich_table([]))
    assert capture.get().strip() == ""
