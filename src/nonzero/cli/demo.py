"""`nonzero demo`: what NonZero does, in a minute or two."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Demo:
    """Show what NonZero does, in a minute or two on a CPU.

    Six agents with eight actions each: in pairs they sit in a trap that none of them can leave alone. Then
    training: eight agents with ten actions each learn what pays.
    """

    games: int = 5
    """How many games to play."""
    out: Path = Path("demo")
    """Folder of the picture."""

    def run(self) -> None:
        """Play, print a table, draw a picture."""
        from rich.console import Console

        from nonzero.experiments.demo import demo_rows, draw_demo, run_demo, train_demo
        from nonzero.experiments.results import check_writable
        from nonzero.experiments.tables import rich_table
        from nonzero.types import NonZeroError

        if self.games < 1:
            raise NonZeroError(f"--games is at least 1, not {self.games}")
        picture = self.out / "demo.png"
        try:
            self.out.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise NonZeroError(f"cannot make the folder {self.out}: {error.strerror}") from error
        check_writable(picture)
        curves = run_demo(range(100, 100 + self.games))
        console = Console()
        console.print(rich_table(demo_rows(curves)))
        steps, shares = learned = train_demo()
        shown = ", ".join(f"{share:.1%} at {step}" for step, share in zip(steps, shares, strict=True))
        console.print(f"Training reached, of the optimum by environment steps: {shown}", highlight=False)
        draw_demo(curves, learned, picture)
        console.print(f"Picture: {picture}", markup=False, highlight=False, soft_wrap=True)
