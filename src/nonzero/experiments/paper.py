"""Numbers that the paper reports, to stand beside ours."""

ALGORITHMS = ("mazero", "mazero-np", "ma-alphazero", "mappo", "qmix", "nonzero")

_TABLE_1 = """
2 3 linear 500 51.9 49.7 50.8 50.2 50.4 54.7
2 3 linear 1000 57.8 53.1 55.2 56.4 54.3 59.8
2 3 nonlinear 500 49.1 48.9 49.0 49.1 48.7 49.7
2 3 nonlinear 1000 47.6 49.3 49.2 49.5 49.1 49.9
4 5 linear 1000 175.2 171.7 172.7 173.1 171.8 186.2
4 5 linear 2000 191.7 190.1 190.4 189.8 190.2 198.9
4 5 nonlinear 1000 179.4 173.2 174.5 173.1 174.7 184.1
4 5 nonlinear 2000 195.4 192.4 192.7 191.9 190.3 199.1
6 8 linear 1000 393.7 387.2 389.3 390.6 386.1 398.2
6 8 linear 2000 434.2 427.3 432.6 431.8 430.1 441.3
6 8 nonlinear 1000 399.8 391.3 393.1 388.8 390.5 412.5
6 8 nonlinear 2000 443.9 429.1 427.1 430.1 431.7 457.2
8 10 linear 1000 618.8 608.8 613.1 617.1 612.7 641.3
8 10 linear 2000 692.7 671.5 654.3 681.8 679.4 712.4
8 10 nonlinear 1000 615.2 536.6 573.2 561.4 558.7 637.2
8 10 nonlinear 2000 672.3 587.2 633.2 657.1 648.2 697.1
"""


def _read(text: str) -> dict[tuple[object, ...], dict[str, float]]:
    """Mean returns by algorithm, for each (agents, actions, type, steps)."""
    table = {}
    for line in text.split("\n"):
        if words := line.split():
            agents, actions, kind, steps, *means = words
            setting = (int(agents), int(actions), kind, int(steps))
            table[setting] = dict(zip(ALGORITHMS, map(float, means), strict=True))
    return table


MATGAME = _read(_TABLE_1)
"""Table 1: the mean return of an episode on MatGame."""
