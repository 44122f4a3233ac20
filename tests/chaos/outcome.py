"""One line of the harness's table."""

from dataclasses import dataclass

from tests.chaos.history import Comparison


@dataclass(frozen=True)
class Outcome:
    """`kills` were done, `restarts` are the starts after the first. `remark` says what else is wrong.

    `repeated` are deliveries made twice that were in flight at a kill, as they may.
    """

    name: str
    kills: int
    restarts: int
    comparison: Comparison
    seconds: float
    remark: str = ""
    repeated: int = 0

    @property
    def is_good(self) -> bool:
        return self.comparison.is_equal and not self.remark

    def cells(self) -> list[str]:
        compared = self.comparison
        return [
            self.name,
            str(self.kills),
            str(self.restarts),
            f"{compared.rows:,}",
            "yes" if compared.is_equal else "NO",
            str(compared.extra.total() + self.repeated),
            str(compared.lost.total()),
            f"{self.seconds:.0f}",
            self.remark,
        ]


COLUMNS = ("scenario", "kills", "restarts", "rows", "equal", "twice", "lost", "seconds", "remark")
