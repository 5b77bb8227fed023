"""Small trees as they were when someone last looked at them.

`python tests/test_search_golden.py` writes them anew after a wanted change.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from search_models import ALL_RULES, compiled, random_game

PATH = Path(__file__).parent / "search_golden.json"


def tree_of(name: str) -> dict[str, list]:
    """A search of two roots, in numbers that do not depend on the machine's rounding."""
    result = compiled(
        random_game(11, agents=2, actions=3, ends=True),
        np.array([3, 44]),
        5,
        num_simulations=16,
        num_candidates=4,
        rules=ALL_RULES[name],
        legal=np.array([[[1, 1, 0], [1, 1, 1]], [[1, 1, 1], [0, 1, 1]]], bool),
    )
    assert result.tree is not None
    return {
        "parent": np.asarray(result.tree.parent).tolist(),
        "slot": np.asarray(result.tree.slot).tolist(),
        "actions": np.asarray(result.candidates.actions).tolist(),
        "visits": np.asarray(result.visits).tolist(),
        "q": np.asarray(result.q).round(4).tolist(),
        "value": np.asarray(result.value).round(4).tolist(),
        "action": np.asarray(result.action).tolist(),
    }


@pytest.mark.parametrize("name", ALL_RULES)
def test_tree_is_as_it_was(name: str) -> None:
    expected = json.loads(PATH.read_text())[name]
    found = tree_of(name)
    assert found.keys() == expected.keys()
    for field, numbers in expected.items():
        np.testing.assert_allclose(found[field], numbers, atol=2e-4, err_msg=field)


def test_goldens_stay_small() -> None:
    assert PATH.stat().st_size < 50_000


if __name__ == "__main__":
    trees = {name: tree_of(name) for name in ALL_RULES}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(tree)}" for name, tree in trees.items())
    PATH.write_text("{\n" + lines + "\n}\n")
