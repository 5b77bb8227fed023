"""The example files do what they say, run as a user runs them."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def output_of(name: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name], capture_output=True, text=True, timeout=300, check=True
    )
    return done.stdout


def test_nonuct_sets_the_radios_better_than_the_others():
    means = dict(re.findall(r"^(\w+) +mean ([\d.]+)", output_of("optimise_joint_action.py"), re.MULTILINE))
    assert list(means) == ["chance", "one_at_a_time", "nonuct"]
    assert float(means["nonuct"]) > float(means["one_at_a_time"]) > float(means["chance"])


def test_planning_with_an_own_simulator_beats_the_rule_it_plans_with():
    means = dict(re.findall(r"^(\w+) +mean +([\d.]+)", output_of("own_simulator.py"), re.MULTILINE))
    assert list(means) == ["chance", "rule_of_thumb", "planned"]
    assert float(means["planned"]) < 0.95 * float(means["rule_of_thumb"])
    assert float(means["rule_of_thumb"]) < float(means["chance"])
