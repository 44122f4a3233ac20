"""Conditions: how a simulated cluster is monitored. What happens in it does not depend on them.

An invalid value raises ConditionsError with one sentence. The command bounds shares, intervals and lags.
"""

import re
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, get_args

from streaming.simulator.scenario import Rollout, Scenario, View, parse_scenario

Role = Literal["broker", "client", "collector", "run"]
VIEWS: tuple[str, ...] = get_args(View)
ROLES: tuple[str, ...] = get_args(Role)
FARTHEST_SECONDS = 86_400


class ConditionsError(ValueError):
    """Invalid conditions. The message is one sentence, with the option and its value."""


@dataclass(frozen=True, slots=True)
class Skew:
    """The clock of one machine is `ahead_ms` ahead; below 0 it is behind. The seed picks the broker or client."""

    role: Role
    ahead_ms: int


@dataclass(frozen=True, slots=True)
class Conditions:
    """Monitoring of a cluster. By default every event is published at once, by true clocks.

    view            model      brokers report every heartbeat and pull; clock events come from the simulator
                    agents     the same without clock events: `run` creates the ticks
                    collector  poll rounds, as a collector reads brokers, and clients through brokers
    interval_ms     poll interval; None: the scenario's
    missed_rounds   collector: share of rounds that one broker does not answer
    lost_answers    collector: share of requests to clients that time out; the collector then backs off
    mute_clients    collector: share of consumers that never answer
    listed_only     collector: share of clients whose heartbeats are not published; 1: brokers before code 328
    skew            the wrong clock
    lag_ms          agents: from an event to Kafka
    """

    view: View = "model"
    interval_ms: int | None = None
    missed_rounds: float = 0.0
    lost_answers: float = 0.0
    mute_clients: float = 0.0
    listed_only: float = 0.0
    skew: Skew | None = None
    lag_ms: int = 0

    def __post_init__(self) -> None:
        if self.view not in VIEWS:
            raise ConditionsError(f"view {self.view!r} is not one of {', '.join(VIEWS)}")
        for name in ("missed_rounds", "lost_answers", "mute_clients", "listed_only"):
            if getattr(self, name) and self.view != "collector":
                raise ConditionsError(f"{name} needs view = 'collector'")
        if self.lag_ms and self.view != "agents":
            raise ConditionsError("lag needs view = 'agents'")
        if self.skew is None:
            return
        if self.skew.role not in ROLES:
            raise ConditionsError(f"skew of {self.skew.role!r} is not of one of {', '.join(ROLES)}")
        of_view = {"collector": "collector", "run": "agents"}.get(self.skew.role)
        if of_view and self.view != of_view:
            raise ConditionsError(f"a skew of {self.skew.role!r} needs view = {of_view!r}")
        if abs(self.skew.ahead_ms) > FARTHEST_SECONDS * 1000:
            raise ConditionsError(f"skew = {self.skew.ahead_ms / 1000:g} is not within {FARTHEST_SECONDS} seconds")

    def ahead_ms(self, role: Role) -> int:
        """Return how far the skewed clock is ahead if its machine has this role; otherwise 0."""
        return self.skew.ahead_ms if self.skew is not None and self.skew.role == role else 0


def parse_skew(text: str) -> Skew:
    """Parse "broker:-95", a broker's clock 95 seconds behind. Raises ConditionsError."""
    role, _, seconds = text.partition(":")
    try:
        return Skew(role, round(float(seconds) * 1000))  # type: ignore[arg-type]  # Conditions checks the role
    except (ValueError, OverflowError):
        raise ConditionsError(f"skew {text!r}: give ROLE:SECONDS, like broker:-95") from None


class Suspects:
    """The machines that the conditions of a run affect, chosen by the seed. Shares are of all processes."""

    def __init__(self, scenario: Scenario, conditions: Conditions, random: Random) -> None:
        consumers = sorted({consumer.client_id for group in scenario.groups for consumer in group.consumers})
        producers = sorted(producer.client_id for producer in scenario.producers)
        self.broker_name = random.choice(sorted(broker.broker_name for broker in scenario.brokers))
        self.client_id = random.choice(consumers or producers) if consumers or producers else ""
        self.mute = _share_of(consumers, conditions.mute_clients, random) | {
            consumer.client_id for group in scenario.groups for consumer in group.consumers if consumer.never_answers
        }
        self.listed_only = _share_of([*consumers, *producers], conditions.listed_only, random)
        self._conditions = conditions

    def broker_ahead_ms(self, broker_name: str) -> int:
        return self._conditions.ahead_ms("broker") if broker_name == self.broker_name else 0

    def client_ahead_ms(self, client_id: str) -> int:
        is_hit = _process_of(client_id) == _process_of(self.client_id)
        return self._conditions.ahead_ms("client") if is_hit else 0


def _share_of(client_ids: list[str], share: float, random: Random) -> frozenset[str]:
    """Return the clients of a share of the processes; of at least one if the share is above 0."""
    processes = list(dict.fromkeys(map(_process_of, client_ids)))
    count = min(len(processes), max(1, round(share * len(processes)))) if share else 0
    chosen = set(random.sample(processes, count))
    return frozenset(client_id for client_id in client_ids if _process_of(client_id) in chosen)


def _process_of(client_id: str) -> str:
    """Return the ClientId without its nanoTime, which differs between the clients of one process."""
    return client_id.partition("#")[0]


GROUP, TOPIC = "beside-service", "beside-events"
MEMBERS = 4
TROUBLES = ("hung", "suspended", "slow")
ROLLOUT = re.compile(r"rollout (?P<pods>\d{1,3}) (?P<style>one_by_one|quarters|surge) (?P<ids>stable|new|groups)")
EXAMPLE = "rollout 40 one_by_one stable"
TROUBLE_SECONDS = 780.0
SPARE_SECONDS = 240.0
"""Duration of a run after its last happening, long enough for the effects to show."""
MOST_QUEUES = 64
"""Most queues of the topic on each broker."""
OF_BROKERS = ("slave_read", "order_at_risk", "offset_regression")
"""Kinds of a group's findings that its brokers cause."""


def with_beside(scenario: Scenario, beside: str) -> Scenario:
    """Return the scenario with an extra group, its topic and its producer. Raises ConditionsError for another name.

    hung        the listener of one of four members hangs permanently
    suspended   one of four members is suspended for minutes
    slow        the listeners of four members are slow: their caches are full, they rarely pull, but consume
    rollout     a deployment of a given size is replaced (`Rollout`)
    """
    brokers, seconds = len(scenario.brokers), TROUBLE_SECONDS
    added: dict[str, list[Any]] = {}
    if match := ROLLOUT.fullmatch(beside):
        rollout = _rollout(match)
        added["rollouts"] = [rollout]
        queues = 2 if rollout.ids == "groups" else min(MOST_QUEUES, -(-rollout.pods * 4 // (3 * brokers)))
        sends_per_second, seconds = 2.0, rollout.at + rollout.seconds + SPARE_SECONDS
    elif beside in TROUBLES:
        consumers = [
            {"name": f"beside-{number}", "client_id": f"{host}@{6000 + number}#812033441", "host": host}
            for number, host in enumerate(f"10.40.0.{number + 1}" for number in range(MEMBERS))
        ]
        names = [consumer["name"] for consumer in consumers]
        added["groups"] = [{"consumer_group": GROUP, "subscriptions": [TOPIC], "consumers": consumers}]
        added["happenings"] = {
            "hung": [{"at": 120, "action": "hang_listener", "consumer": names[0]}],
            "suspended": [{"at": 120, "until": 540, "action": "suspend", "consumer": names[0]}],
            "slow": [{"at": 30, "action": "slow_listener", "consume_ms": 5_000, "consumer": name} for name in names],
        }[beside]
        queues, sends_per_second = -(-2 * MEMBERS // brokers), 8.0
        if beside == "slow":  # few queues, soon full
            queues, sends_per_second = 1, 5.0 * brokers
    else:
        raise ConditionsError(f"beside {beside!r}: give {', '.join(TROUBLES)} or, for example, {EXAMPLE!r}")
    added["topics"] = [{"topic": TOPIC, "queue_nums": queues}]
    producer = {"client_id": "10.40.1.1@3011#81203340000112", "host": "10.40.1.1", "producer_group": "beside-producer"}
    added["producers"] = [{**producer, "topics": [TOPIC], "sends_per_second": sends_per_second}]
    any_group = {"consumer_group": None, "topic": None, "required": False}
    # A broker may do to the added group what it does to the others.
    added["expects"] = [expected | any_group for expected in scenario.expects if expected.get("kind") in OF_BROKERS]
    fields = scenario.model_dump()
    fields |= {name: [*fields[name], *more] for name, more in added.items()}
    fields["healthy"] = scenario.healthy and beside not in ("hung", "suspended")
    if scenario.duration_seconds is not None:
        fields["duration_seconds"] = max(scenario.duration_seconds, seconds)
    return parse_scenario(fields)


def _rollout(match: re.Match[str]) -> Rollout:
    times = {"at": 120, "apart": 30.7 if match["style"] == "quarters" else 5.3, "down": 10.7}
    try:
        return Rollout.model_validate({"consumer_group": GROUP, "subscriptions": [TOPIC], **match.groupdict(), **times})
    except ValueError:
        raise ConditionsError(f"beside {match[0]!r}: 1 to 500 pods, and no surge of stable ids") from None
