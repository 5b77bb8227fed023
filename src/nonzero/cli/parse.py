"""From words to a command: tyro reads the flags; help fits the terminal, a complaint is one line."""

import contextlib
import difflib
import inspect
import io
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import tyro
from tyro.extras import SubcommandApp

PROGRAM = "nonzero"


@runtime_checkable
class Command(Protocol):
    """What a command is: its fields are its flags, its docstrings the help."""

    def run(self) -> None:
        """Do the work; import what is heavy here, so that help stays quick."""
        ...


@dataclass(frozen=True)
class Group:
    """Commands that share their first word."""

    summary: str
    commands: "Mapping[str, type[Command] | Group]"


def parse(words: Sequence[str], group: Group) -> Command:
    """Find the command that `words` name within `group` and fill its fields from the flags."""
    check_names(words, group)
    output, complaint = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaint):
            return application(group).cli(
                prog=PROGRAM,
                description=inspect.cleandoc(group.summary),
                args=words,
                config=(tyro.conf.OmitSubcommandPrefixes, tyro.conf.FlagCreatePairsOff),
            )
    except SystemExit as stop:
        if stop.code:
            raise ValueError(condense(complaint.getvalue())) from None
        sys.stdout.write(fit(output.getvalue(), shutil.get_terminal_size().columns))
        raise SystemExit(0) from None


def check_names(words: Sequence[str], group: Group) -> None:
    """Refuse a command that does not exist and a group named without one of its commands."""
    path = PROGRAM
    for word in words:
        if word.startswith("-"):
            return
        entry = group.commands.get(word)
        if entry is None:
            close = difflib.get_close_matches(word, group.commands, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known are {', '.join(group.commands)}."
            raise ValueError(f"unknown command '{path} {word}': {hint}")
        path = f"{path} {word}"
        if not isinstance(entry, Group):
            return
        group = entry
    raise ValueError(f"'{path}' needs a command: {', '.join(group.commands)}.")


def application(group: Group) -> SubcommandApp:
    """Hand a group, and the groups within it, to tyro."""
    app = SubcommandApp()
    for name, entry in group.commands.items():
        if isinstance(entry, Group):
            app.command(application(entry), name=name, help=inspect.cleandoc(entry.summary))
        else:
            app.command(name=name)(entry)
    return app


def condense(complaint: str) -> str:
    """Say in one line what tyro says in a titled box of sections: the mistake and its suggestion, if any."""
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    rules = [number for number, line in enumerate(lines) if not line.strip("─-")]
    if len(rules) < 2:
        return " ".join(lines)
    mistake = " ".join(lines[rules[0] + 1 : rules[1]]).rstrip(".")
    flags = [line.split()[0] for line in lines[rules[1] :] if re.match("--[a-z]", line)]
    hint = (
        f"did you mean {flags[0]}?" if flags and "Perhaps" in complaint else "--help shows what is possible."
    )
    return f"{mistake[0].lower()}{mistake[1:]}; {hint}"


def fit(text: str, columns: int) -> str:
    """Wrap the lines of a help text that tyro leaves as long as they are: usage and description."""
    lines = []
    for line in text.splitlines():
        indent = " " * 7 if line.startswith("usage:") else ""
        is_long = len(line) > columns
        lines += (
            textwrap.wrap(line, columns, subsequent_indent=indent, break_on_hyphens=False)
            if is_long
            else [line.rstrip()]
        )
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"
