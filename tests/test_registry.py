import importlib.util

import pytest

import nonzero
from nonzero.envs import registry
from nonzero.envs.matgame import MatGame
from nonzero.types import NonZeroError


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("matgame/linear-2x33x", "did you mean 'matgame/linear-2x3'?"),
        ("matgame/liner-8x10", "did you mean 'matgame/linear-8x10'?"),
        ("matgam/linear-4x5", "did you mean 'matgame/linear-4x5'?"),
        ("linear-4x5", "did you mean 'matgame/linear-4x5'?"),
        ("smax/8mm", "did you mean 'smax/8m'?"),
        ("zzzz", "`nonzero envs` lists the known ones"),
    ],
)
def test_unknown_names_get_the_closest_known_one(name: str, hint: str) -> None:
    with pytest.raises(NonZeroError) as caught:
        nonzero.make(name)
    assert str(caught.value).startswith(f"unknown environment '{name}': ")
    assert hint in str(caught.value)


def without_jaxmarl(name: str, *arguments: object) -> object:
    return None if name == "jaxmarl" else FIND_SPEC(name, *arguments)  # pyright: ignore[reportArgumentType]


FIND_SPEC = importlib.util.find_spec


def test_missing_extra_gets_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without_jaxmarl)
    with pytest.raises(NonZeroError, match=r"'smax/3m' needs the package jaxmarl: .*nonzero-mcts\[smax\]"):
        nonzero.make("smax/3m")
    assert isinstance(nonzero.make("matgame/linear-2x3"), MatGame)


def test_unknown_name_of_a_missing_extra_is_unknown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without_jaxmarl)
    with pytest.raises(NonZeroError, match="did you mean 'smax/3m'"):
        nonzero.make("smax/33m")


def test_unknown_options_are_refused_with_the_known_ones() -> None:
    with pytest.raises(NonZeroError, match="no option 'sede'; their options: seed, noise"):
        nonzero.make("matgame/linear-2x3", sede=1)


def test_options_reach_the_environment() -> None:
    first, second = (nonzero.make("matgame/additive-3x4", seed=seed) for seed in (0, 1))
    assert first.spec.return_bounds != second.spec.return_bounds


def test_names_are_unique_and_every_matgame_can_be_made() -> None:
    listed = nonzero.names()
    assert len(set(listed)) == len(listed)
    for name in listed:
        if name.startswith("matgame/"):
            env = nonzero.make(name)
            assert env.spec.name == name


def test_families_name_the_extra_that_brings_what_they_need() -> None:
    for family in registry.FAMILIES:
        assert (family.needs is None) == (family.extra is None)
        assert family.is_installed()


def test_a_size_out_of_range_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="at least 1 agents and 2 actions, not 4x1"):
        nonzero.make("matgame/linear-4x1")
