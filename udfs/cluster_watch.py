"""What is known of a cluster between two ticks, beside its groups: who is not heard, since when, and what was told."""

from dataclasses import dataclass, field

from udfs.alert import Incident
from udfs.flapping import Window
from udfs.voices import Voices


@dataclass
class ClusterWatch:
    """What is kept of a cluster between ticks, beside its groups.

    unheard_ms     broker → since when it was asked and did not answer
    masterless_ms  broker → since when routes name only slaves of it
    topics         broker → how many topics' routes name it
    gone_ms        broker → since when nobody asks an unheard broker
    silent_ms      broker → its newest heartbeat, where its clients speak elsewhere only
    nothing_ms     the newest heartbeat of all, where none arrives any more
    lingering      broker → the incident that explained what is under it, and until when it still does
    """

    unheard_ms: dict[str, int] = field(default_factory=dict)
    masterless_ms: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    gone_ms: dict[str, int] = field(default_factory=dict)
    silent_ms: dict[str, int] = field(default_factory=dict)
    nothing_ms: int | None = None
    lingering: dict[str, tuple[str, int]] = field(default_factory=dict)
    voices: Voices = field(default_factory=Voices)
    incidents: dict[str, Incident] = field(default_factory=dict)
    windows: dict[str, Window] = field(default_factory=dict)
    below_ms: int | None = None

    def learn_route(self, before: set[str], brokers: set[str], masterless: set[str], at_ms: int) -> None:
        """A topic's route names `brokers`, of which `masterless` have slaves only; it named `before`."""
        for broker_name in before - brokers:
            self.voices.drop(broker_name)
            self.topics[broker_name] = self.topics.get(broker_name, 1) - 1
            if self.topics[broker_name] <= 0:
                del self.topics[broker_name]
                self.masterless_ms.pop(broker_name, None)
        for broker_name in brokers - before:
            self.topics[broker_name] = self.topics.get(broker_name, 0) + 1
        for broker_name in masterless:
            self.masterless_ms.setdefault(broker_name, at_ms)
        for broker_name in brokers - masterless:
            self.masterless_ms.pop(broker_name, None)


@dataclass(frozen=True)
class Tick:
    """One clock event. `is_own` says that `run` sent it, which asks no broker itself."""

    now_ms: int
    asked: frozenset[str]
    answered: frozenset[str]
    is_own: bool


def note_nothing(watch: ClusterWatch, tick: Tick, late_ms: int) -> int:
    """Whether anything arrives, where only agents tell; for how long nothing had, at the tick that ends it.

    A collector that answers hears nothing of clients that are all frozen: that is theirs, not ours.
    """
    nothing_ms = watch.voices.all_silent(late_ms) if tick.is_own and tick.answered else None
    before_ms, watch.nothing_ms = watch.nothing_ms, nothing_ms
    return tick.now_ms - before_ms if before_ms is not None and nothing_ms is None else 0


def note_unheard(watch: ClusterWatch, tick: Tick, unheard: frozenset[str]) -> None:
    for broker_name in unheard:
        watch.unheard_ms.setdefault(broker_name, tick.now_ms)
    for broker_name in tick.answered - unheard:
        watch.unheard_ms.pop(broker_name, None)
    for broker_name in list(watch.unheard_ms):
        if broker_name in tick.asked:
            watch.gone_ms.pop(broker_name, None)
        else:
            watch.gone_ms.setdefault(broker_name, tick.now_ms)


def note_silent(watch: ClusterWatch, late_ms: int) -> None:
    """A broker stays silent until somebody speaks there or no route names it, whatever becomes of the witnesses."""
    for broker_name, since_ms in list(watch.silent_ms.items()):
        if (watch.voices.at(broker_name) or 0) > since_ms or not watch.topics.get(broker_name):
            del watch.silent_ms[broker_name]
    for broker_name, since_ms in watch.voices.silent(late_ms).items():
        if watch.topics.get(broker_name):
            watch.silent_ms.setdefault(broker_name, since_ms)
