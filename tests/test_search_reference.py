"""The compiled search and the plain one visit the same nodes in the same order."""

from dataclasses import replace

import numpy as np
import pytest

from nonzero.search import PRESETS, Averaging, Expansion, Rules, Selection
from search_models import ALL_RULES, VARIANTS, assert_same_tree, compiled, plain, random_game

KINDS = {
    "plain": {},
    "ties": {"ties": True},
    "ends": {"ends": True},
    "ties and ends": {"ties": True, "ends": True},
    "one legal action": {"single": True},
    "one agent": {"agents": 1, "actions": 6},
    "many agents": {"agents": 7, "actions": 2},
    "chance": {"chance": True},
}


def assert_agreement(rules: Rules, kind: str, seed: int, simulations: int = 60, candidates: int = 5) -> None:
    options = dict(KINDS[kind])
    if rules.expansion.candidates == "enumerated" and options.get("agents", 3) > 1:
        options |= {"agents": 2, "actions": 4}
    game = random_game(seed, **options)
    legal = np.random.default_rng(seed).random(game.logits.shape[1:]) < 0.6
    legal[np.arange(len(legal)), np.random.default_rng(seed).integers(0, legal.shape[1], len(legal))] = True
    if options.get("single"):
        legal[0] = np.arange(legal.shape[1]) == 0
    common = {"num_simulations": simulations, "num_candidates": candidates, "rules": rules}
    expected = plain(game, seed, seed, legal=legal, **common)
    assert_same_tree(compiled(game, np.array([seed]), seed, legal=legal[None], **common), expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ALL_RULES)
def test_presets_agree_visit_for_visit(name: str, kind: str) -> None:
    for seed in range(3):
        assert_agreement(ALL_RULES[name], kind, seed)


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_of_nonzero_agree(name: str) -> None:
    assert_agreement(PRESETS[name], "ties and ends", 6)


@pytest.mark.parametrize("name", ["flat", "without-curvature"])
def test_variants_of_nonzero_agree_in_games_of_chance(name: str) -> None:
    assert_agreement(PRESETS[name], "chance", 6)


@pytest.mark.parametrize("name", ALL_RULES)
def test_one_simulation(name: str) -> None:
    assert_agreement(ALL_RULES[name], "plain", 1, simulations=1)


@pytest.mark.parametrize("name", ALL_RULES)
def test_more_slots_than_legal_joint_actions(name: str) -> None:
    assert_agreement(ALL_RULES[name], "one agent", 2, candidates=17)


@pytest.mark.parametrize(
    "rules",
    [
        Rules(Expansion(policy_floor=0.3), Selection(normalise="siblings", tie_tolerance=0.0)),
        Rules(Expansion(prior_share=0.5), Selection(worth="advantage", counts_own_visit=True)),
        Rules(selection=Selection(exploration=3.0), averaging=Averaging(rho=0.25, lam=0.5)),
        Rules(selection=Selection(worth="advantage", normalise="siblings"), averaging=Averaging(lam=0.9)),
        Rules(averaging=Averaging(rho=0.99, lam=1.0)),
    ],
    ids=["floor", "few prior slots", "wide", "siblings", "best only"],
)
def test_other_rules_agree(rules: Rules) -> None:
    for kind in ("plain", "ties and ends"):
        assert_agreement(rules, kind, 4)


def test_deep_trees_agree() -> None:
    rules = replace(ALL_RULES["mazero"], averaging=Averaging(rho=0.5, lam=0.8))
    assert_agreement(rules, "plain", 5, simulations=300, candidates=3)
