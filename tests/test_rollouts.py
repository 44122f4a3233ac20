"""Roll-outs of real size are quiet, whatever the time between two ticks, and whoever tells of them.

The modelled cluster ticks every 5 s, so owners hardly change twice between two ticks; a collector's default is 10 s.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pytest

from schemas.events import CLOCKS, HEARTBEATS, PULLS
from streaming.simulator.scenario import load_scenario, parse_scenario
from streaming.simulator.simulation import Simulation
from tests.engine import Stream
from tests.simulator.modelled import START, Events, run

pytestmark = pytest.mark.replay


@lru_cache(maxsize=1)
def rolled(pods: int, queues: int, apart: float, down: float, is_surge: bool) -> Events:
    """Pods that are restarted one after the other under their names, or replaced by others that come first."""
    play = load_scenario("rolling_restart").model_dump()

    def pod(number: int, **reported: Any) -> dict[str, Any]:
        host = f"10.20.{number // 250}.{number % 250 + 1}"
        return {"name": f"c{number}", "client_id": f"{host}@1#{1000 + number}", "host": host, **reported}

    fresh = [pod(pods + number, running=False) for number in range(pods)] if is_surge else []
    happenings = []
    for number in range(pods):
        first, second = ("start", f"c{pods + number}") if is_surge else ("stop", f"c{number}")
        at = 120 + number * apart
        happenings.append({"at": at, "action": first, "consumer": second})
        last = "stop" if is_surge else "start"
        happenings.append({"at": at + down, "action": last, "consumer": f"c{number}"})
    play |= {
        "groups": [{**play["groups"][0], "consumers": [*(pod(number) for number in range(pods)), *fresh]}],
        "topics": [{**play["topics"][0], "queue_nums": queues // 2}],
        "happenings": sorted(happenings, key=lambda happening: happening["at"]),
        "duration_seconds": int(120 + pods * apart + down + 180),
        "healthy": False,
    }
    return list(Simulation(parse_scenario(play), 1, START).events(None))


def ticked(events: Events, every: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """With one tick of so many, as agents tell it."""
    ticks = 0
    for topic, event in events:
        ticks += topic == CLOCKS
        if topic != CLOCKS or ticks % every == 0:
            yield topic, event


def collected(events: Events, every: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """As a collector tells it that asks at every so manieth tick: the newest heartbeat and pull of each since then."""
    pulls: dict[tuple[Any, ...], dict[str, Any]] = {}
    beats: dict[tuple[Any, ...], dict[str, Any]] = {}
    ticks = 0
    for topic, event in events:
        if topic == PULLS:
            reported = {
                name: value for name, value in event.items() if name not in ("suggest_broker_id", "pull_status")
            }
            pulls[event["client_id"], event["topic"], event["broker_name"], event["queue_id"]] = reported
        elif topic == HEARTBEATS:
            channel = event["broker_name"], event["client_addr"]
            if event.get("leaving"):
                beats.pop(channel, None)
                yield topic, event
            else:
                beats[channel] = event
        elif topic != CLOCKS:
            yield topic, event
        else:
            ticks += 1
            if ticks % every == 0:
                yield from ((HEARTBEATS, beat) for beat in beats.values())
                yield from ((PULLS, pull) for pull in pulls.values())
                yield topic, {**event, "interval_ms": every * 5_000}
                pulls, beats = {}, {}


def pages(events: Iterator[tuple[str, dict[str, Any]]]) -> list[tuple[str, str]]:
    rows = Stream().feed(events).get("alerts", [])
    return [(row["kind"], row["cause"]) for row in rows if row["state"] == "FIRING" and row["severity"] != "info"]


ROLL_OUTS = [
    (20, 64, 20.3, 15.7, False),
    (40, 64, 5.3, 10.7, False),
    (80, 128, 5.3, 10.7, False),
    (40, 64, 5.3, 30, True),
]
"""Pods, queues, seconds between two, seconds without the one or with both, and whether the new come first."""


@pytest.mark.xdist_group("roll-outs")
@pytest.mark.parametrize("every", [1, 2, 6], ids=["5 s", "10 s", "30 s"])
@pytest.mark.parametrize("tell", [ticked, collected], ids=["agents", "collector"])
@pytest.mark.parametrize("roll_out", ROLL_OUTS, ids=str, scope="session")
def test_a_roll_out_pages_nobody(roll_out: tuple[int, int, float, float, bool], tell: Any, every: int) -> None:
    assert pages(tell(rolled(*roll_out), every)) == []


@pytest.mark.parametrize("scenario", ["twins", "mixed_strategy", "split_view", "stale_route"])
def test_queues_that_two_clients_really_pull_are_reported_at_slower_ticks_too(scenario: str) -> None:
    _, events = run(scenario)
    assert "double_consumed_queue" in {kind for kind, _ in pages(ticked(events, 2))}
