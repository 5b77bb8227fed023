"""`--section.field value`: every setting as a flag that, left out, leaves the preset's value alone."""

import ast
import inspect
import textwrap
from dataclasses import dataclass, fields, is_dataclass, make_dataclass
from dataclasses import field as new_field
from typing import Annotated, Any, get_type_hints

import tyro


def changes_of(kind: type) -> type:
    """A dataclass like `kind`, in which everything may be left out; the docstrings stay as help."""
    help_texts, kinds = docstrings(kind), get_type_hints(kind)
    entries: list[Any] = []
    for entry in fields(kind):
        wanted = kinds[entry.name]
        if is_dataclass(wanted):
            inner = changes_of(wanted)  # pyright: ignore[reportArgumentType]
            entries.append((entry.name, inner, new_field(default_factory=inner)))
        else:
            metavar = getattr(wanted, "__name__", "value").upper()
            flag = tyro.conf.arg(help=help_texts.get(entry.name, ""), metavar=metavar, help_behavior_hint="")
            entries.append((entry.name, Annotated[wanted | None, flag], new_field(default=None)))
    built = make_dataclass(kind.__name__, entries, frozen=True)
    built.__doc__ = inspect.getdoc(kind)
    return built


def docstrings(kind: type) -> dict[str, str]:
    """The strings that follow a class's fields."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for entry, after in zip(body.body, body.body[1:], strict=False):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name) and is_text:
            found[entry.target.id] = str(after.value.value)  # pyright: ignore[reportAttributeAccessIssue]
    return found


def given(changes: Any) -> dict[str, Any]:
    """What was not left out, as nested mappings."""
    found = {}
    for entry in fields(changes):
        value = getattr(changes, entry.name)
        if is_dataclass(value):
            value = given(value) or None
        if value is not None:
            found[entry.name] = value
    return found


@dataclass(frozen=True)
class NoChanges:
    """What type checkers see in place of the dataclass that is built at run time."""
