"""What can be said about families of environments: sizes, whether they work, and what to do if not."""

from nonzero.envs.registry import Family, make


def describe(family: Family, is_usable: bool) -> list[dict[str, object]]:
    """One row an environment; sizes are known only where the environment can be made."""
    rows: list[dict[str, object]] = []
    for name in (f"{family.prefix}/{name}" for name in family.names):
        row: dict[str, object] = {"name": name, "agents": None, "actions": None, "obs": None, "steps": None}
        if is_usable:
            spec = make(name).spec
            obs = "x".join(str(size) for size in spec.obs_shape)
            row |= {
                "agents": spec.num_agents,
                "actions": spec.num_actions,
                "obs": obs,
                "steps": spec.max_steps,
            }
        rows.append(row | {"usable": is_usable})
    return rows


def why_unusable(family: Family) -> str | None:
    """What keeps a family from being used, with the remedy; None where its first environment can be made."""
    if not family.is_installed():
        return family.install_hint()
    try:
        make(f"{family.prefix}/{family.names[0]}")
    except Exception as error:  # whatever a third party's package throws at import is the answer here
        advice = f"; try {family.install_hint()}" if family.extra else ""
        return " ".join(f"{type(error).__name__}: {error}{advice}".split())
    return None
