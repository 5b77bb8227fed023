"""What the documents quote and point at must exist as they say."""

import re
from pathlib import Path

import pytest

from nonzero.cli.main import COMMANDS
from nonzero.cli.parse import Group
from nonzero.envs.registry import FAMILIES

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted(ROOT.glob("*.md"))
QUOTED = re.findall(r"<!-- (\S+\.py) -->\n```python\n(.*?)```\n", README, re.DOTALL)


def test_readme_quotes_the_own_environment():
    assert [name for name, _ in QUOTED] == ["examples/own_environment.py"]


@pytest.mark.parametrize(("name", "block"), QUOTED)
def test_quoted_files_are_quoted_to_the_letter(name: str, block: str):
    assert block == (ROOT / name).read_text(), f"copy {name} into README.md again"


def test_readme_names_every_family_of_environments():
    rows = re.findall(r"^\| `(\w+)/…` \|", README, re.MULTILINE)
    assert rows == [family.prefix for family in FAMILIES]


def test_readme_names_commands_that_exist():
    lines = re.findall(r"^\| `nonzero ([^`]*)` \|", README, re.MULTILINE)
    named = [tuple(re.findall(r"(?:^|(?<= ))[a-z0-9]+", line.partition("[")[0])) for line in lines]
    assert sorted(named) == sorted(paths(COMMANDS))


def paths(group: Group) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for name, entry in group.commands.items():
        found += [(name, *rest) for rest in paths(entry)] if isinstance(entry, Group) else [(name,)]
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_and_links_exist(document: Path):
    text = document.read_text()
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    lines = re.findall(r"(?:^    |`)make ([a-z -]+)(?:[^\n`]*)`?$", text, re.MULTILINE)
    lines += re.findall(r"`make ([a-z -]+)`", text)
    assert {target for line in lines for target in line.split()} <= targets
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / link).exists(), link


def test_architecture_says_which_rooms_exist():
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`[a-z/`, ]+`) \| (here|being built|next) \|", text, re.MULTILINE)
    states = {room: state for cell, state in rows for room in re.findall(r"`(\w+)/`", cell)}
    built = {path.parent.name for path in (ROOT / "src" / "nonzero").glob("*/__init__.py")}
    assert {room for room, state in states.items() if state != "next"} == built
