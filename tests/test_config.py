from dataclasses import replace

import pytest

from nonzero.cli.main import COMMANDS
from nonzero.cli.parse import parse
from nonzero.cli.settings import changes_of, given
from nonzero.cli.train import Train
from nonzero.experiments.config import (
    PRESETS,
    RunConfig,
    changed,
    difference,
    load_preset,
    read_config,
    to_toml,
)
from nonzero.training.settings import Settings
from nonzero.types import NonZeroError


def test_the_papers_preset_is_the_papers_table() -> None:
    paper = load_preset("paper")
    assert (paper.search.simulations, paper.search.candidates) == (50, 3)
    assert (paper.optimiser.learning_rate, paper.optimiser.batch) == (1e-4, 256)
    assert (paper.target.discount, paper.target.target_interval) == (0.99, 200)
    assert (paper.loss.surrogate_ridge, paper.loss.advantage_temperature) == (1e-4, 3.0)
    assert paper.collect.priority_exponent == 0.6


@pytest.mark.parametrize("name", PRESETS)
def test_configurations_come_back_from_their_files(name: str, tmp_path) -> None:
    config = RunConfig('matgame/"odd\\name', "mazero", 100, 3, load_preset(name), {"seed": 7})
    path = tmp_path / "config.toml"
    path.write_text(to_toml(config))
    assert read_config(path) == config


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"optimizer": {}}, "unknown setting 'optimizer': did you mean 'optimiser'?"),
        ({"optimiser": {"learning_rat": 1}}, "did you mean 'optimiser.learning_rate'?"),
        ({"optimiser": {"batch": 2.5}}, "optimiser.batch is of type int, not 2.5"),
        ({"optimiser": {"batch": True}}, "optimiser.batch is of type int, not True"),
        ({"model": {"head_layers": [8, "x"]}}, "model.head_layers is of type int, not 'x'"),
        ({"model": 3}, "model is of type ModelSettings, not 3"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict, complaint: str) -> None:
    with pytest.raises(NonZeroError) as caught:
        changed(Settings(), values)
    assert complaint in str(caught.value)


def test_whole_numbers_may_stand_for_fractions_and_lists_for_tuples() -> None:
    found = changed(Settings(), {"optimiser": {"learning_rate": 1}, "model": {"head_layers": [8, 4]}})
    assert found.optimiser.learning_rate == 1.0
    assert found.model.head_layers == (8, 4)
    assert changed(Settings(), {"model": {"dynamics_layers": []}}).model.dynamics_layers == ()


def test_unknown_presets_are_refused() -> None:
    with pytest.raises(NonZeroError, match="unknown preset 'papr': did you mean 'paper'"):
        load_preset("papr")


def test_difference_names_the_setting() -> None:
    config = RunConfig("matgame/linear-2x3", "mazero", 100, 3)
    assert difference(config, config) is None
    other = replace(config, settings=changed(config.settings, {"search": {"candidates": 5}}))
    assert difference(config, other) == "settings.search.candidates was 3, now 5"


@pytest.mark.parametrize(
    ("steps", "collect", "complaint"),
    [
        (103, {}, "steps must be a multiple of collect.environments"),
        (100, {"first_steps": 7, "environments": 5}, "collect.first_steps must be a multiple"),
        (100, {"replay_steps": 10}, "collect.replay_steps is less"),
    ],
)
def test_numbers_that_do_not_fit_together_are_refused(steps: int, collect: dict, complaint: str) -> None:
    settings = changed(load_preset("default"), {"collect": collect})
    with pytest.raises(NonZeroError, match=complaint):
        RunConfig("matgame/linear-2x3", "mazero", steps, 0, settings).check()


@pytest.mark.parametrize(
    ("section", "values", "complaint"),
    [
        ("target", {"reanalyse_share": 1.5}, "reanalyse_share is a share"),
        ("target", {"target_rate": -0.1}, "target_rate is a share"),
        ("search", {"changed_share": 2.0}, "changed_share is a share"),
        ("optimiser", {"batch": 16}, "the policy would learn nothing"),
    ],
)
def test_settings_that_cannot_be_are_refused(section: str, values: dict, complaint: str) -> None:
    settings = changed(load_preset("default"), {section: values})
    with pytest.raises(NonZeroError, match=complaint):
        RunConfig("matgame/linear-2x3", "mazero", 100, 0, settings).check()


def train(*words: str) -> Train:
    command = parse(["train", "matgame/linear-2x3", *words], COMMANDS)
    assert isinstance(command, Train)
    return command


def test_flags_change_what_they_name_and_leave_the_rest_to_the_preset() -> None:
    assert given(train().settings) == {}
    command = train("--optimiser.learning-rate", "0.01", "--model.head-layers", "8", "4", "--preset", "paper")
    assert given(command.settings) == {"optimiser": {"learning_rate": 0.01}, "model": {"head_layers": (8, 4)}}
    settings = changed(load_preset(command.preset), given(command.settings))
    assert settings.optimiser.learning_rate == 0.01
    assert settings.optimiser.batch == 256


def test_a_flag_that_does_not_exist_is_refused_with_the_closest() -> None:
    with pytest.raises(ValueError, match=r"did you mean --optimiser\.learning-rate"):
        train("--optimiser.learning-rat", "0.01")


def test_every_setting_has_a_help_text(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        train("--help")
    text = capsys.readouterr().out
    assert "K, joint actions that a node may consider." in text
    assert given(changes_of(Settings)()) == {}
