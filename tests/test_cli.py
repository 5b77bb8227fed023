import importlib.util
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import pytest

import nonzero
from nonzero.cli import doctor, environments, main, parse
from nonzero.envs import registry
from nonzero.experiments.results import read_results
from nonzero.types import NonZeroError

ROOT = Path(__file__).parent.parent
Outcome = tuple[int, str, str]


@pytest.fixture
def nonzero_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")

    def call(*words: str) -> Outcome:
        status = main.main(words)
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return call


Call = Callable[..., Outcome]


def assert_one_line(outcome: Outcome, *parts: str, status: int = 2) -> None:
    found, out, err = outcome
    assert (found, out) == (status, "")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    for part in parts:
        assert part in err


@pytest.mark.parametrize(
    "words",
    [(), ("--help",), ("envs", "-h"), ("doctor", "--help"), ("bench", "--help"), ("bench", "envs", "-h")],
)
def test_help_fits_80_columns(nonzero_command: Call, words: tuple[str, ...]):
    status, out, err = nonzero_command(*words)
    assert (status, err) == (0, "")
    assert out.startswith("usage: nonzero")
    assert max(map(len, out.splitlines())) <= 80


def test_help_names_every_command(nonzero_command: Call):
    _, out, _ = nonzero_command("--help")
    assert all(f"• {name} " in out for name in main.COMMANDS.commands)
    assert "--debug" in out


def test_help_wraps_a_long_usage_line():
    text = "usage: nonzero plan " + "[--flag NUMBER] " * 8 + "\n\nA description.\n\n\n box \n \n"
    lines = parse.fit(text, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("       NUMBER]")
    assert lines[-3:] == ["A description.", "", " box"]


def test_version(nonzero_command: Call):
    assert nonzero_command("--version") == (0, f"nonzero {nonzero.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["env"], "did you mean 'envs'?"),
        (["zzz"], "known are demo, plan, envs, doctor"),
        (["bench"], "'nonzero bench' needs a command: envs"),
        (["bench", "env"], "unknown command 'nonzero bench env': did you mean 'envs'?"),
        (["bench", "envs", "--jsn", "f"], "did you mean --json?"),
        (["bench", "envs", "--json"], "--json"),
        (["doctor", "now"], "unrecognized options: now"),
        (["--bogus"], "unrecognized options: --bogus"),
        (["envs", "nowhere"], "unknown family 'nowhere'"),
    ],
)
def test_words_that_mean_nothing_get_one_line(nonzero_command: Call, words: list[str], part: str):
    assert_one_line(nonzero_command(*words), "nonzero: ", part)


def test_compiled_code_is_kept_where_the_user_keeps_caches_or_says(
    nonzero_command: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name in ("JAX_COMPILATION_CACHE_DIR", "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"):
        monkeypatch.setenv(name, "here to be restored")
        monkeypatch.delenv(name)
    nonzero_command("--version")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / "nonzero" / "jax")
    assert float(os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"]) < 1
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "elsewhere")
    nonzero_command("--version")
    assert os.environ["JAX_COMPILATION_CACHE_DIR"] == "elsewhere"


def failing(error: BaseException) -> type[parse.Command]:
    @dataclass(frozen=True)
    class Fails:
        """Fail."""

        def run(self) -> None:
            raise error

    return Fails


@pytest.mark.parametrize(
    ("error", "line", "status"),
    [
        (NonZeroError("no [bold]such[/] map"), "nonzero: no [bold]such[/] map\n", 2),
        (ValueError("two\n  lines"), "nonzero: two lines\n", 2),
        (KeyError("depth"), "nonzero: internal error: KeyError: 'depth'; run again with --debug\n", 2),
        (ValueError(), "nonzero: internal error: ValueError; run again with --debug\n", 2),
        (KeyboardInterrupt(), "nonzero: interrupted\n", 130),
    ],
)
def test_errors_are_one_line_and_a_traceback_on_demand(
    nonzero_command: Call, monkeypatch: pytest.MonkeyPatch, error: BaseException, line: str, status: int
):
    monkeypatch.setattr(main, "COMMANDS", parse.Group("Test.", {"fail": failing(error), "other": Fine}))
    assert nonzero_command("fail") == (status, "", line)
    for words in (["--debug", "fail"], ["fail", "--debug"]):
        debugged_status, _, err = nonzero_command(*words)
        assert debugged_status == status
        assert err.startswith("Traceback (most recent call last):")
        assert err.endswith(line.replace("; run again with --debug", ""))


@dataclass(frozen=True)
class Fine:
    """Succeed."""

    def run(self) -> None:
        print("fine")


FAMILY = registry.Family(
    "test",
    "tests_have_no_such_module",
    "Games that are not here.",
    ("one-2x3", "two-4x5"),
    "not_here",
    "smax",
)


def test_envs_lists_every_name_within_80_columns(nonzero_command: Call):
    status, out, _ = nonzero_command("envs")
    assert status == 0
    assert max(map(len, out.splitlines())) <= 80
    cells = {cell for line in out.splitlines() for cell in line.split()}
    assert set(nonzero.names()) <= cells
    for family in registry.FAMILIES:
        assert f"{family.prefix}: {family.summary.split()[0]}" in out


def test_envs_shows_the_sizes_of_an_environment(nonzero_command: Call):
    _, out, _ = nonzero_command("envs", "matgame")
    (line,) = [line for line in out.splitlines() if line.split()[:1] == ["matgame/linear-4x5"]]
    spec = nonzero.make("matgame/linear-4x5").spec
    assert line.split()[1:] == ["4", "5", str(spec.obs_shape[0]), "10", "yes"]


def test_envs_says_how_to_install_a_missing_extra(nonzero_command: Call, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "FAMILIES", (FAMILY,))
    _, out, _ = nonzero_command("envs")
    assert "Not usable: pip install 'nonzero-mcts[smax]'" in out
    assert "test/one-2x3" in out
    assert_one_line(nonzero_command("envs", "tset"), "did you mean 'test'?")


def test_envs_survives_a_family_that_does_not_import(nonzero_command: Call, monkeypatch: pytest.MonkeyPatch):
    broken = registry.Family("test", "tests_have_no_such_module", "Broken.", ("one",))
    monkeypatch.setattr(registry, "FAMILIES", (broken,))
    status, out, _ = nonzero_command("envs")
    assert status == 0
    assert "Not usable: ModuleNotFoundError: No module named 'tests_have_no_such_module'" in out


def test_doctor_shows_versions_devices_and_games(nonzero_command: Call):
    status, out, _ = nonzero_command("doctor")
    assert status == 0
    words = out.split()
    assert {"python", "jax", "numpy", "cpu", *doctor.EXTRAS} <= set(words)
    assert words[words.index("nonzero") + 1] == nonzero.__version__
    assert {family.prefix for family in registry.FAMILIES} <= set(words)


def test_doctor_survives_a_jax_without_devices(nonzero_command: Call, monkeypatch: pytest.MonkeyPatch):
    def none_found() -> list[object]:
        raise RuntimeError("Unable to initialize\nbackend 'tpu'")

    monkeypatch.setattr(jax, "devices", none_found)
    monkeypatch.setattr(registry, "FAMILIES", ())
    status, out, _ = nonzero_command("doctor")
    assert status == 0
    assert "none: Unable to initialize backend 'tpu'" in out


def test_doctor_says_how_to_install_what_is_missing(nonzero_command: Call, monkeypatch: pytest.MonkeyPatch):
    family = registry.Family("smax", "no_such_module", "Battles.", ("3m",), "jaxmarl", "smax")
    monkeypatch.setattr(registry, "FAMILIES", (family,))
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jaxmarl" else find(name))
    status, out, _ = nonzero_command("doctor")
    assert status == 0
    assert "no: jaxmarl missing" in out
    assert "extra smax: pip install 'nonzero-mcts[smax]'" in out.splitlines()
    assert "games smax: pip install 'nonzero-mcts[smax]'" in out.splitlines()


def test_doctor_knows_the_extras_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(doctor.EXTRAS) == set(project["optional-dependencies"]) - {"dev", "docs"}
    for extra, packages in doctor.EXTRAS.items():
        required = project["optional-dependencies"][extra]
        assert [requirement.partition(">=")[0] for requirement in required] == list(packages)


def test_bench_refuses_a_file_it_cannot_write_before_it_measures(nonzero_command: Call, tmp_path: Path):
    target = tmp_path / "missing" / "rows.json"
    outcome = nonzero_command("bench", "envs", "--json", str(target))
    assert_one_line(outcome, "cannot write", "there is no directory")


def test_bench_envs_prints_and_writes_its_rows(nonzero_command: Call, tmp_path: Path):
    target = tmp_path / "rows.json"
    flags = ["--envs", "matgame/linear-4x5", "--alternations", "1", "--seconds", "0.01"]
    status, out, err = nonzero_command("bench", "envs", *flags, "--json", str(target))
    assert (status, err) == (0, "")
    assert max(map(len, out.splitlines()[:-1])) <= 80
    assert out.splitlines()[-1] == f"Wrote {target}"
    results = read_results(target)
    assert results["settings"] == {"envs": ["matgame/linear-4x5"], "alternations": 1, "seconds": 0.01}
    assert {"environment", "batch", "method", "steps_per_second", "ratio"} <= set(results["rows"][0])
    for row in results["rows"]:
        assert row["steps_per_second"] > 0
        assert f"{row['steps_per_second']:,.0f}" in out


def test_bench_envs_refuses_unknown_environments_and_settings(nonzero_command: Call):
    assert_one_line(nonzero_command("bench", "envs", "--envs", "smax/3mm"), "did you mean 'smax/3m'?")
    assert_one_line(nonzero_command("bench", "envs", "--alternations", "0"), "alternations")


VARIABLES = os.environ | {"COLUMNS": "80", "JAX_PLATFORMS": "cpu", "PYTHONUNBUFFERED": ""}


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], env=VARIABLES, cwd=ROOT, capture_output=True, text=True, timeout=120
    )


def test_the_installed_command_fails_with_one_line():
    done = run_python("-m", "nonzero.cli.main", "bench", "env")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "nonzero: unknown command 'nonzero bench env': did you mean 'envs'?\n"


def test_a_reader_that_leaves_early_is_no_error():
    words = [sys.executable, "-m", "nonzero.cli.main", "--help"]
    with subprocess.Popen(words, env=VARIABLES, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=120) == 141


def test_help_imports_nothing_heavy():
    script = f"""
import sys, types
package = types.ModuleType("nonzero")
package.__path__ = [{str(Path(environments.__file__).parent.parent)!r}]
sys.modules["nonzero"] = package
from nonzero.cli.main import main
assert main(["bench", "envs", "--help"]) == 0
print(sorted({{"jax", "numpy", "equinox", "matplotlib"}} & set(sys.modules)))
"""
    done = run_python("-c", script)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
