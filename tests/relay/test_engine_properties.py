"""Random incidents, answers and crashes: no notification is lost, out of order, or needlessly repeated."""

import random
from collections import Counter
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pytest
from hypothesis import given

from streaming.relay.mutes import Mute
from streaming.relay.outbox import Send
from streaming.relay.receivers.posting import Answer, Traits
from streaming.text.times import to_time
from tests.relay.stage import BAD_KEY, BUSY, DELIVERED, DOWN, START_MS, Row, Scripted, Stage, alert_row, expected_of
from tests.support.tiers import in_proof
from udfs.alerts.silence import Silence, pick_silence

STATES = ("PENDING", "FIRING", "FIRING", "FIRING", "RECOVERING", "UNKNOWN")
SETTLING_SECONDS = 900
"""Longer than the longest pause of any receiver, three times over."""


def random_incident(name: str, rng: random.Random, seconds: int) -> list[Row]:
    """Steps as the rules write them: any, then perhaps the end."""
    times = sorted(rng.sample(range(1, seconds * 1000), rng.randint(1, 7)))
    rows = [
        alert_row(
            name,
            rng.choice(STATES),
            START_MS + at,
            cause=rng.choice(("frozen_client", "pull_stopped")),
            severity=rng.choice(("critical", "warning")),
            inhibited_by=rng.choice((None, None, None, "other-1")),
        )
        for at in times[:-1]
    ]
    return [*rows, alert_row(name, rng.choice(("RESOLVED", "RESOLVED", "FIRING")), START_MS + times[-1])]


def random_mutes(rng: random.Random) -> list[Mute]:
    """Windows of minutes, before, in and after the five minutes in which things happen; over when all has settled."""
    minutes = [rng.sample(range(-3, 10), 2) for _ in range(rng.randint(0, 3))]
    return [
        Mute(
            f"mute {number}",
            {"severity": (rng.choice(("critical", "warn*", "*")),)},
            frozenset(range(7)),
            *(to_time(START_MS + minute * 60_000).time().replace(second=0) for minute in sorted(between)),
            ZoneInfo("UTC"),
        )
        for number, between in enumerate(minutes)
    ]


def moody(rng: random.Random) -> Scripted:
    """A receiver that fails in every way that is not for ever."""
    answers = [DELIVERED, DELIVERED, DOWN, BUSY, BAD_KEY, Answer("RETRY", 429, "slowly", rng.choice((None, 90.0)))]
    share = rng.choice((0.0, 0.5, 0.9))

    def behave(_send: Send, _now_ms: int) -> Answer:
        return rng.choice(answers) if rng.random() < share else DELIVERED

    traits = Traits(rng.choice((1, 3, 30)), rng.choice((0, 3_500)), rng.choice((True, False)))
    return Scripted(traits, behave, latency_ms=rng.choice((1, 200, 9_000)))


def without_own(keys: list[str], rows: list[Row]) -> list[str]:
    own = {row["incident_id"] for row in rows if row["kind"] == "delivery_failed"}
    return [key for key in keys if key.partition(":")[0] not in own]


@given(st.integers(0, 2**32))
def test_every_receiver_gets_every_notified_transition_in_order_and_twice_only_what_was_in_flight_at_a_crash(
    seed: int,
) -> None:
    rng = random.Random(seed)
    receivers = {name: moody(rng) for name in ("a", "b", "c")[: rng.randint(1, 3)]}
    stage = Stage(receivers, seed=seed, write_ms=rng.choice((0, 700, 5_000)))
    seconds = rng.choice((20, 600))
    rows = [row for name in "mnopq" for row in random_incident(name, rng, seconds)]
    rows.sort(key=lambda row: row["changed_at"])
    restarts = 0
    for row in rows:
        stage.run(max(0, row["changed_at"] - stage.now_ms) / 1000)
        stage.write(row)
        if stage.is_alive and rng.random() < 0.15:
            stage.crash()
        elif not stage.is_alive and rng.random() < 0.5:
            stage.restart()
            restarts += 1
    if not stage.is_alive:
        stage.restart()
        restarts += 1
    stage.run(SETTLING_SECONDS)
    for one in receivers.values():
        one.behaviour = lambda _send, _now_ms: DELIVERED
    stage.run(SETTLING_SECONDS)

    expected = expected_of(rows)
    for one in receivers.values():
        keys = without_own(one.keys(), stage.alerts)
        for incident_id, wanted in expected.items():
            of_incident = [key for key in keys if key.startswith(f"{incident_id}:")]
            assert list(dict.fromkeys(of_incident)) == wanted
            places = [wanted.index(key) for key in of_incident]
            assert places == sorted(places), "a repetition is never out of order"
        assert set(keys) == {key for keys_ in expected.values() for key in keys_}
        twice = Counter(keys)
        assert sum(number - 1 for number in twice.values()) <= restarts * one.traits.at_most
        assert all(number <= 1 + restarts for number in twice.values())
    completed = {name for name, of_name in expected.items() if of_name[-1].split(":")[1] == "resolved"}
    assert not completed & stage.owed.incidents.keys()
    if not restarts:
        assert all(len(set(one.keys())) == len(one.keys()) for one in receivers.values())


@given(st.integers(0, 2**32))
def test_one_receivers_trouble_delays_no_other(seed: int) -> None:
    rng = random.Random(seed)
    well, ill = Scripted(latency_ms=10), Scripted(behaviour=lambda _send, _now_ms: DOWN, latency_ms=10_000)
    stage = Stage({"ill": ill, "well": well}, seed=seed)
    for number in range(20):
        stage.run(rng.random() * 30)
        stage.write(alert_row(f"m{number}", "FIRING", stage.now_ms))
    stage.run(10)
    due = {row["delivery_key"]: row["delivered_at"] for row in stage.outcomes("PENDING") if row["receiver"] == "well"}
    delays = [at_ms - due[notice.key] for at_ms, notice in well.took()]
    assert len(well.notified()) >= 20
    assert max(delays) <= 20 * well.latency_ms


@given(st.integers(0, 2**32))
def test_nothing_is_notified_that_is_silenced_muted_explained_or_over_the_limit(seed: int) -> None:
    """For any answers and crashes; a notified incident is also resolved at its receivers."""
    rng = random.Random(seed)
    limit = rng.randint(1, 4)
    receivers = {"a": moody(rng), "b": Scripted()}
    write_ms = rng.choice((0, 700, 5_000))
    stage = Stage(receivers, seed=seed, limit=limit, mutes=random_mutes(rng), write_ms=write_ms)
    rows = [row for name in "mnopqrs" for row in random_incident(name, rng, 300)]
    rows.sort(key=lambda row: row["changed_at"])
    for number, row in enumerate(rows):
        stage.run(max(0, row["changed_at"] - stage.now_ms) / 1000)
        if rng.random() < 0.2:
            globs = {"severity": (rng.choice(("critical", "warn*", "*")),)}
            ends_at_ms = stage.now_ms + rng.choice((1_000, 60_000, 600_000))
            stage.silence(Silence(f"s{number}", globs, "ada", "release", stage.now_ms + 1, ends_at_ms))
        stage.write(row)
        if rng.random() < 0.15:
            stage.crash()
            stage.run(rng.choice((0, 1, 90)))
            stage.restart()
    for one in receivers.values():
        one.behaviour = lambda _send, _now_ms: DELIVERED
    stage.run(SETTLING_SECONDS)

    facts = {f"{row['incident_id']}:firing:{row['changed_at']}": row for row in rows if row["state"] == "FIRING"}
    over = {row["incident_id"] for row in rows if row["state"] == "RESOLVED"}
    open_there: set[str] = set()
    for row in stage.outcomes("PENDING"):
        if row["kind"] != "starved_queue":
            continue
        if row["status"] == "resolved":
            open_there.discard(row["incident_id"])
            continue
        fact = facts[row["delivery_key"]]
        assert fact["inhibited_by"] is None
        open_there.add(row["incident_id"])
        assert len(open_there) <= limit
        if row["incident_id"] not in over:
            assert pick_silence([*stage.tables.silences, *stage.mutes], fact, row["delivered_at"]) is None
    for one in receivers.values():
        newest = {notice.incident_id: notice.status for _, notice in one.took() if notice.kind == "starved_queue"}
        assert not {name for name, status in newest.items() if status == "firing"} & over
    a, b = (set(without_own(one.keys(), stage.alerts)) for one in receivers.values())
    assert a == b


@pytest.mark.parametrize("share", [0.3, *in_proof([0.0])])
def test_the_log_stays_small_however_long_a_receiver_is_dead(share: float) -> None:
    """Twelve rows a notice, not one an attempt."""
    rng = random.Random(1)
    dead = Scripted(behaviour=lambda _send, _now_ms: BUSY if rng.random() < share else DOWN)
    stage = Stage({"dead": dead})
    stage.put("m", run=24 * 3600)
    assert len(dead.calls) > 1_000
    assert len(stage.log) < 15


@given(st.integers(0, 2**32))
def test_where_an_alert_is_its_labels_no_end_of_an_older_incident_follows_the_beginning_of_a_newer(seed: int) -> None:
    """Renewals, repetitions and restarts included; and the last word is that of the last incident."""
    rng = random.Random(seed)
    one = moody(rng)
    one.traits = Traits(rng.choice((1, 30)), 0, is_leased=True)
    stage = Stage({"am[0]": one}, seed=seed)
    at_ms = START_MS
    for number in range(5):
        identity = {"incident_id": f"m-{number}", "started_at": at_ms}
        for state in ("FIRING", "RESOLVED")[: 1 if number == 4 else 2]:
            stage.write(alert_row("m", state, at_ms, **identity))
            at_ms += rng.choice((0, 1, 5_000, 200_000)) + (state == "FIRING")
            stage.run(max(0, at_ms - stage.now_ms) / 1000)
            if rng.random() < 0.3:
                stage.restart(crashes=True)
        at_ms += 1
    one.behaviour = lambda _send, _now_ms: DELIVERED
    stage.run(SETTLING_SECONDS)
    began_ms = 0
    for _, send, answer in one.calls:
        for notice in send.notices:
            if answer.verdict == "DELIVERED" and notice.alert_id == "m":
                assert notice.status == "firing" or notice.started_at_ms >= began_ms
                began_ms = max(began_ms, notice.started_at_ms)
                newest = notice
    assert (newest.incident_id, newest.status) == ("m-4", "firing")
