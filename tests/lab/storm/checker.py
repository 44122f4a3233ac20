"""Compares what receivers recorded with what the events require. It imports the standard library only.

    python -m tests.lab.storm.checker .storm/1763881200-7/leg-1      # judge a played leg again

A folder has `storm.json` (see `Storm`) and `arrivals.jsonl` (see `Arrival`). All times are epoch ms of one clock: the
simulation runs in real time. The rules:

1. An episode is *known* once poll rounds in Kafka cover `certain_after_ms` of it without a gap. Then its page is due.
2. The page must arrive within `bound_ms` after the first moment from which no fault is active for as long.
3. While the episode holds, no receiver gets its end, and no lease runs out without a fault of its sender or receiver.
4. Once rounds cover `over_after_ms` after the episode, its end is due, by the same bound.
5. A notification arrives twice only if its first call got no clear answer, or its sender may have died before it
   recorded the answer.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

GAP_MS = 25_000
"""Poll rounds further apart are a gap: evidence is collected anew after it."""

SLACK_MS = 10_000
"""A poll round: what begins or ends is dated between two of them."""

EXPIRY_MS = 120_000
"""A client that left while no round was complete counts as gone when RocketMQ's brokers would drop it."""

IN_FLIGHT_MS = 12_000
"""A call that arrived this long before the death of its sender may be unrecorded: the log gets ten seconds."""

SENDERS = ("run", "relay")
DEADLY = ("kill", "stop", "power_cut", "emptied_commit", "exit")
"""Faults of senders after which an answer may be unrecorded, or a renewal late. A full disk or a clock is no excuse."""

STORAGE = ("bucket", "full_disk", "emptied_commit")
"""Faults under which answers stay unrecorded until they heal."""


@dataclass(frozen=True)
class Episode:
    """A condition that holds from `from_ms` up to `until_ms` (None: to the end), and how soon rounds prove both."""

    kind: str
    labels: dict[str, str]
    from_ms: int
    until_ms: int | None
    certain_after_ms: int
    over_after_ms: int

    @property
    def end_ms(self) -> int:
        return 1 << 62 if self.until_ms is None else self.until_ms

    def __str__(self) -> str:
        return f"{self.kind} {' '.join(self.labels.values())} at {self.from_ms}"


@dataclass(frozen=True)
class Fault:
    """`target`: run, relay, machine (both), collector, kafka, tables, or a receiver's name. An exit is unplanned."""

    kind: str
    target: str
    start_ms: int
    heal_ms: int

    def overlaps(self, from_ms: int, until_ms: int) -> bool:
        return self.start_ms <= until_ms and from_ms <= self.heal_ms

    def hits_senders(self) -> bool:
        return self.target in (*SENDERS, "machine") and self.kind.startswith(DEADLY)


@dataclass(frozen=True)
class Arrival:
    """One notification at one receiver. `is_clear`: it was answered with 2xx at once.

    `ends_ms` is the end of a lease, None at receivers that keep an alert until its end arrives; `key` identifies the
    transition there.
    """

    receiver: str
    at_ms: int
    is_clear: bool
    incident: str
    status: str
    kind: str
    labels: dict[str, str]
    started_ms: int
    changed_ms: int | None
    key: str
    ends_ms: int | None = None


@dataclass(frozen=True)
class Storm:
    """`rounds`: cluster → (event time, when Kafka had it) of each complete poll round. `exits` are unplanned."""

    start_ms: int
    end_ms: int
    bound_ms: int
    receivers: list[str]
    episodes: list[Episode]
    faults: list[Fault]
    exits: list[Fault]
    rounds: dict[str, list[list[int]]]


@dataclass
class Verdict:
    """`transitions` were due at receivers; `unmatched` are pages of judged kinds outside all episodes."""

    transitions: int = 0
    lost: list[str] = field(default_factory=list)
    early: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    explained: int = 0
    unmatched: list[str] = field(default_factory=list)
    longest_ms: int = 0

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.early or self.duplicates)


@dataclass
class Incident:
    """One incident at one receiver. `arrivals` are in order; an incident that never fired there is none."""

    arrivals: list[Arrival]

    @property
    def fired_ms(self) -> int:
        return self.arrivals[0].at_ms

    @property
    def started_ms(self) -> int:
        return self.arrivals[0].started_ms

    @property
    def ended(self) -> Arrival | None:
        return next((arrival for arrival in self.arrivals if arrival.status == "resolved"), None)

    def is_of(self, episode: Episode) -> bool:
        first = self.arrivals[0]
        return first.kind == episode.kind and episode.labels.items() <= first.labels.items()

    def began_in(self, episode: Episode) -> bool:
        return episode.from_ms - SLACK_MS <= self.started_ms <= episode.end_ms

    def covers(self, episode: Episode, known_ms: int) -> bool:
        """Whether it began in the episode, or began before and was still open when the episode was known."""
        is_older = self.started_ms < episode.from_ms and (self.ended is None or self.ended.at_ms > known_ms)
        return self.began_in(episode) or is_older

    def is_open(self, at_ms: int, lost_ms: int) -> bool:
        """Whether the receiver shows it. One that died has forgotten the leases from before `lost_ms`."""
        known = [one for one in self.arrivals if one.at_ms <= at_ms and (one.ends_ms is None or one.at_ms > lost_ms)]
        return bool(known) and known[-1].status == "firing" and (known[-1].ends_ms or 1 << 62) > at_ms


def judge(storm: Storm, arrivals: Sequence[Arrival]) -> Verdict:
    verdict = Verdict()
    incidents = incidents_of(arrivals)
    for episode in storm.episodes:
        rounds = storm.rounds.get(episode.labels["cluster"], [])
        known_ms = proven_at(rounds, episode.from_ms, episode.end_ms, episode.certain_after_ms)
        over_ms = _over_at(storm, episode, rounds)
        for receiver in storm.receivers:
            ours = [incident for incident in incidents[receiver] if incident.is_of(episode)]
            _judge_early(storm, receiver, episode, ours, verdict)
            if known_ms is not None:
                _judge_page(storm, receiver, episode, ours, known_ms, verdict)
            if over_ms is not None:
                _judge_end(storm, receiver, episode, ours, over_ms, verdict)
    _judge_duplicates(storm, arrivals, verdict)
    kinds = {episode.kind for episode in storm.episodes}
    for receiver, found in incidents.items():
        for incident in found:
            first = incident.arrivals[0]
            if first.kind in kinds and not any(
                incident.is_of(one) and incident.covers(one, one.from_ms) for one in storm.episodes
            ):
                verdict.unmatched.append(f"{receiver}: {first.kind} {' '.join(first.labels.values())}")
    return verdict


def incidents_of(arrivals: Sequence[Arrival]) -> dict[str, list[Incident]]:
    """Return the incidents that fired at each receiver. Ends without a page before them are left out."""
    found: dict[tuple[str, str], Incident] = {}
    for arrival in sorted(arrivals, key=lambda one: one.at_ms):
        place = arrival.receiver, arrival.incident
        if place in found:
            found[place].arrivals.append(arrival)
        elif arrival.status == "firing":
            found[place] = Incident([arrival])
    by_receiver: dict[str, list[Incident]] = defaultdict(list)
    for (receiver, _), incident in found.items():
        by_receiver[receiver].append(incident)
    return by_receiver


def proven_at(
    rounds: Sequence[Sequence[int]], from_ms: int, until_ms: int, span_ms: int, after_gap_ms: int = 0
) -> int | None:
    """Return when Kafka had rounds that cover `span_ms` of the time without a gap; None if it never had.

    `after_gap_ms` more are needed if a gap comes first.
    """
    began_ms = previous_ms = None
    needed_ms = span_ms
    for event_ms, acked_ms in rounds:
        if event_ms > until_ms:
            break
        is_gap = previous_ms is not None and event_ms - previous_ms > GAP_MS
        previous_ms = event_ms
        if event_ms < from_ms:
            continue
        if is_gap:
            began_ms, needed_ms = event_ms, span_ms + after_gap_ms
        began_ms = event_ms if began_ms is None else began_ms
        if event_ms - began_ms >= needed_ms:
            return acked_ms
    return None


def _over_at(storm: Storm, episode: Episode, rounds: Sequence[Sequence[int]]) -> int | None:
    """Return when the end of the episode is proven, before the condition comes back; None if it is not."""
    if episode.until_ms is None:
        return None
    later = (
        other.from_ms
        for other in storm.episodes
        if (other.kind, other.labels) == (episode.kind, episode.labels) and other.from_ms > episode.from_ms
    )
    next_ms = min(later, default=1 << 62)
    return proven_at(rounds, episode.until_ms, next_ms, episode.over_after_ms, EXPIRY_MS)


def deadline_of(storm: Storm, due_ms: int) -> int | None:
    """Return `bound_ms` after the first moment from which no fault is active for as long; None beyond the end."""
    moment_ms = due_ms
    for fault in sorted(storm.faults, key=lambda one: one.start_ms):
        if fault.overlaps(moment_ms, moment_ms + storm.bound_ms):
            moment_ms = max(moment_ms, fault.heal_ms)
    return None if moment_ms + storm.bound_ms > storm.end_ms else moment_ms + storm.bound_ms


def _delay(storm: Storm, due_ms: int, at_ms: int) -> int:
    """Return the time from `due_ms`, or from the newest healing before the arrival."""
    healed = (fault.heal_ms for fault in storm.faults if fault.heal_ms <= at_ms)
    return max(0, at_ms - max(due_ms, max(healed, default=0)))


def _judge_page(
    storm: Storm, receiver: str, episode: Episode, ours: Sequence[Incident], known_ms: int, verdict: Verdict
) -> None:
    by_ms = deadline_of(storm, known_ms)
    if by_ms is None:
        return
    verdict.transitions += 1
    found = [one for one in ours if one.covers(episode, known_ms) and one.fired_ms <= by_ms]
    if not found:
        verdict.lost.append(f"{receiver}: page of {episode}, known at {known_ms}, due by {by_ms}")
        return
    verdict.longest_ms = max(verdict.longest_ms, _delay(storm, known_ms, min(one.fired_ms for one in found)))
    died = [one.heal_ms for one in storm.faults if one.target == receiver and one.kind == "receiver_dies"]
    lost_ms = max((heal_ms for heal_ms in died if heal_ms <= by_ms), default=0)
    if by_ms < episode.end_ms and not any(one.is_open(by_ms, lost_ms) for one in found):
        verdict.lost.append(f"{receiver}: {episode} is not open at {by_ms}")


def _judge_end(
    storm: Storm, receiver: str, episode: Episode, ours: Sequence[Incident], over_ms: int, verdict: Verdict
) -> None:
    by_ms = deadline_of(storm, over_ms)
    fired = [one for one in ours if one.started_ms <= episode.end_ms and one.fired_ms <= over_ms]
    if by_ms is None or not fired:
        return
    verdict.transitions += 1
    for incident in fired:
        if incident.is_open(by_ms, 0):
            verdict.lost.append(f"{receiver}: end of {episode}, over at {over_ms}, due by {by_ms}")
        elif incident.ended is not None and incident.ended.at_ms > over_ms:
            verdict.longest_ms = max(verdict.longest_ms, _delay(storm, over_ms, incident.ended.at_ms))


def _judge_early(storm: Storm, receiver: str, episode: Episode, ours: Sequence[Incident], verdict: Verdict) -> None:
    """Ends and expired leases while the episode holds, of incidents that began in it."""
    holds_until_ms = episode.end_ms - SLACK_MS
    for incident in ours:
        if not incident.began_in(episode):
            continue
        end = incident.ended
        if end is not None and min(end.at_ms, end.changed_ms or end.at_ms) < holds_until_ms:
            verdict.early.append(f"{receiver}: {episode} was resolved at {end.at_ms}")
        later = [*incident.arrivals[1:], None]
        for arrival, following in zip(incident.arrivals, later, strict=True):
            next_ms = storm.end_ms if following is None else following.at_ms
            expired_ms = arrival.ends_ms
            if arrival.status != "firing" or expired_ms is None or next_ms <= expired_ms:
                continue
            is_excused = any(
                (fault.target == receiver or fault.hits_senders()) and fault.overlaps(arrival.at_ms, expired_ms)
                for fault in (*storm.faults, *storm.exits)
            )
            if expired_ms < holds_until_ms and not is_excused:
                verdict.early.append(f"{receiver}: the lease of {episode} ran out at {expired_ms}")


def _judge_duplicates(storm: Storm, arrivals: Sequence[Arrival], verdict: Verdict) -> None:
    """Repeated notifications. A lease is repeated by design."""
    newest: dict[tuple[str, str], Arrival] = {}
    for arrival in sorted(arrivals, key=lambda one: one.at_ms):
        if arrival.ends_ms is not None:
            continue
        place = arrival.receiver, arrival.key
        if (first := newest.get(place)) is not None:
            if _may_be_repeated(storm, first, arrival):
                verdict.explained += 1
            else:
                verdict.duplicates.append(f"{arrival.receiver}: {arrival.key} at {first.at_ms} and {arrival.at_ms}")
        newest[place] = arrival


def _may_be_repeated(storm: Storm, first: Arrival, again: Arrival) -> bool:
    if not first.is_clear:
        return True
    deaths = [
        fault
        for fault in (*storm.faults, *storm.exits)
        if fault.hits_senders() and fault.overlaps(first.at_ms - SLACK_MS, again.at_ms)
    ]
    is_in_flight = any(death.start_ms <= first.at_ms + IN_FLIGHT_MS for death in deaths)
    is_unrecorded = any(
        fault.kind.startswith(STORAGE) and fault.overlaps(first.at_ms - IN_FLIGHT_MS, first.at_ms + IN_FLIGHT_MS)
        for fault in storm.faults
    )
    is_lost = any(
        fault.kind == "emptied_commit" and first.at_ms < fault.start_ms <= again.at_ms for fault in storm.faults
    )
    return is_in_flight or is_lost or (is_unrecorded and bool(deaths))


def read_leg(folder: Path) -> tuple[Storm, list[Arrival]]:
    """Read what a leg left in its folder."""
    fields: dict[str, Any] = json.loads((folder / "storm.json").read_text())
    fields["episodes"] = [Episode(**one) for one in fields["episodes"]]
    fields["faults"] = [Fault(**one) for one in fields["faults"]]
    fields["exits"] = [Fault(**one) for one in fields["exits"]]
    return Storm(**fields), list(_arrivals(folder / "arrivals.jsonl"))


def _arrivals(path: Path) -> Iterator[Arrival]:
    for line in path.read_text().splitlines():
        yield Arrival(**json.loads(line))


def main() -> None:
    """Print the verdict on the folder that the command line names."""
    verdict = judge(*read_leg(Path(sys.argv[1])))
    print(json.dumps(vars(verdict), indent=2))
    sys.exit(0 if verdict.is_good else 1)


if __name__ == "__main__":
    main()
