"""The record of a play: which scenario, when it began and ended, and when each trouble was really made."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.lab.field.scenario import Expects, Scenario, load_scenario
from tests.lab.field.truth import Span

RECORD = "play.json"

WITH_SLAVE = frozenset({"broker-a"})
"""Its slave serves its queues while it is down."""


@dataclass(frozen=True)
class Done:
    """A trouble of the file, and when it was begun and was done, in ms."""

    at: float
    do: str
    start_ms: int
    end_ms: int


@dataclass(frozen=True)
class Played:
    """`suffix` is what its topics and groups carry on the cluster; `shift_s` what its seed moved all troubles by.

    `factor` is how much faster than in production its clocks went; seconds of the file are divided by it.
    """

    scenario_name: str
    seed: int
    suffix: str
    shift_s: float
    start_ms: int
    end_ms: int
    done: tuple[Done, ...]
    factor: int = 1

    @property
    def name(self) -> str:
        return f"{self.scenario_name} {self.seed}"

    @property
    def scenario(self) -> Scenario:
        return load_scenario(self.scenario_name)

    def window_ms(self, expected: Expects) -> tuple[int, int | None]:
        """When an expectation holds: from when a trouble of that second was begun to when one was done."""
        start_ms = min((one.start_ms for one in self.done if one.at == expected.from_), default=None)
        end_ms = max((one.end_ms for one in self.done if one.at == expected.until), default=None)
        if start_ms is None:
            start_ms = self._at_ms(expected.from_) if expected.from_ else self.start_ms
        if end_ms is None and expected.until is not None:
            end_ms = self._at_ms(expected.until)
        return start_ms, end_ms

    def down(self, broker_name: str) -> list[Span]:
        """When nobody served the broker's queues: it was stopped or killed, and has no slave."""
        spans: list[Span] = []
        tos = {(trouble.at, trouble.do): (trouble.model_extra or {}).get("to") for trouble in self.scenario.troubles}
        for one in self.done:
            if broker_name in WITH_SLAVE or tos.get((one.at, one.do)) != broker_name:
                continue
            if one.do in ("broker_stop", "broker_kill"):
                spans.append(Span(one.start_ms, None))
            elif one.do == "broker_start" and spans:
                spans[-1] = Span(spans[-1].start_ms, one.end_ms)
        return spans

    def has(self, name: str | None) -> bool:
        """Whether a topic or group of the cluster is this play's, or the retry topic of such a group."""
        own = {topic.topic for topic in self.scenario.topics} | self.scenario.group_names
        given, _, rest = (name or "").rpartition("%")[2].rpartition(self.suffix)
        return given in own and not rest

    def own(self, name: str | None) -> str | None:
        """A topic or group of the file by its name on the cluster."""
        return None if name is None else name + self.suffix

    def write(self, folder: Path) -> None:
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n")

    def _at_ms(self, second: float) -> int:
        return self.start_ms + int((second + self.shift_s) * 1000 / self.factor)


def read_played(folder: Path) -> Played:
    fields = json.loads((folder / RECORD).read_text())
    return Played(**{**fields, "done": tuple(Done(**one) for one in fields["done"])})
