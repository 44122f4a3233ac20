"""The brokers page: when producers avoided a broker, which producers do so now, and its incidents.

Intervals and incidents end where the data end or the broker's cluster stopped sending data; a hatched band follows.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streaming.board.chart import AMBER, BLUE, PURPLE, RED, Axis, Bar, Chart, Key, fitting, lane_name
from streaming.board.known import NO_DATA, Known, extent_of, read_cluster_names, read_known
from streaming.board.page import Page, View
from streaming.board.url import SortKeys, href, read_choice, read_span_ms, slice_of, sort_rows
from streaming.board.words import counted
from streaming.store.store import History
from streaming.text.language import gettext, localize
from streaming.text.times import clock
from udfs.alerts.phrase import phrase
from udfs.alerts.rulebook import CANARY_CLUSTER

MERGED_SHARES = (400, 100, 12)
"""Intervals are joined over breaks shorter than this part of the period, about a pixel. If more than MOST_BARS remain,
the next share joins longer breaks."""

MOST_BARS, MOST_INTERVALS = 500, 4_000
MOST_INCIDENTS = 300
MOST_AVOIDERS = 5_000


@dataclass(frozen=True, slots=True)
class Interval:
    """From `start_ms` to `end_ms`, up to `avoiding` of `producers` avoided the broker, `times` times."""

    start_ms: int
    end_ms: int
    avoiding: int
    producers: int
    times: int

    @property
    def words(self) -> str:
        share = phrase("{avoiding} of {producers} producers", avoiding=self.avoiding, producers=self.producers)
        often = phrase("up to {share}, {times} times", share=share, times=self.times)
        return localize(often if self.times > 1 else share)


@dataclass(frozen=True)
class Broker:
    """One broker: its state now, and its intervals and incidents in the period.

    `avoiders` are the producers whose FaultItem is unavailable: since when, until when, and by which send. `incidents`
    are those of the broker itself; `end_ms` is None while one is open.
    """

    cluster: str
    broker_name: str
    avoiding: int
    producers: int
    until_ms: int | None
    intervals: tuple[Interval, ...] = ()
    avoiders: Sequence[Mapping[str, Any]] = ()
    incidents: Sequence[Mapping[str, Any]] = ()

    @property
    def open_incidents(self) -> Sequence[Mapping[str, Any]]:
        return [incident for incident in self.incidents if incident["end_ms"] is None]

    @property
    def urgency(self) -> tuple[bool, float, bool, int, str, str]:
        """Sort key: open incidents, then the share of producers that avoid it now, then the latest avoidance."""
        share = self.avoiding / self.producers if self.producers else 0.0
        last_ms = max((one.end_ms for one in self.intervals), default=0)
        return (not self.open_incidents, -share, not self.incidents, -last_ms, self.cluster, self.broker_name)

    @property
    def is_quiet(self) -> bool:
        """Whether the period has no avoidance and no incident of it."""
        return not (self.avoiding or self.intervals or self.incidents)


_CHOSEN = "($cluster = '' OR cluster = $cluster) AND ($cluster = $canary OR cluster <> $canary)"

_KNOWN = f"""
SELECT cluster, broker_name, max(k) AS avoiding, max(n) AS producers, max(until_ms) AS until_ms FROM (
    SELECT cluster, broker_name, unavailable_producers AS k, producers AS n, epoch_ms(unavailable_until) AS until_ms
    FROM broker_health_now
    UNION ALL
    SELECT DISTINCT cluster, broker_name, 0, 0, NULL::BIGINT FROM assignments
) WHERE {_CHOSEN} GROUP BY ALL
"""

_INTERVALS = f"""
WITH steps AS (
    SELECT cluster, broker_name, unavailable_producers AS k, producers AS n, epoch_ms(changed_at) AS start_ms, batch_id
    FROM broker_health
    WHERE changed_at > make_timestamptz($from_ms * 1000) AND changed_at <= make_timestamptz($until_ms * 1000)
    UNION ALL
    SELECT cluster, broker_name, unavailable_producers, producers, $from_ms, -1
    FROM broker_health_at(make_timestamptz($from_ms * 1000))
), spans AS (
    SELECT
        *,
        lead(start_ms, 1, $until_ms) OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS end_ms
    FROM steps
    WHERE {_CHOSEN}
), avoided AS (
    SELECT
        *,
        start_ms - lag(end_ms) OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS pause_ms
    FROM spans
    WHERE k > 0 AND end_ms > start_ms
), numbered AS (
    SELECT
        *,
        count(*) FILTER (pause_ms IS NULL OR pause_ms > $merge_ms)
            OVER (PARTITION BY cluster, broker_name ORDER BY start_ms, batch_id) AS number
    FROM avoided
)
SELECT
    cluster,
    broker_name,
    min(start_ms) AS start_ms,
    max(end_ms) AS end_ms,
    max(k) AS avoiding,
    max(n) AS producers,
    count(*) FILTER (pause_ms IS NULL OR pause_ms > 0) AS times
FROM numbered
GROUP BY cluster, broker_name, number
ORDER BY end_ms DESC, cluster, broker_name
LIMIT {MOST_INTERVALS + 1}
"""

_AVOIDERS = f"""
SELECT
    cluster,
    broker_name,
    client_id,
    client_version,
    current_latency_ms,
    isolation,
    epoch_ms(changed_at) AS since_ms,
    epoch_ms(start_timestamp) AS until_ms
FROM fault_items_now
WHERE NOT available AND {_CHOSEN}
ORDER BY start_timestamp DESC, client_id
LIMIT {MOST_AVOIDERS}
"""

_INCIDENTS = f"""
SELECT
    cluster,
    unnest(string_split(broker_name, ',')) AS broker_name,
    incident_id,
    kind,
    state,
    summary,
    epoch_ms(started_at) AS start_ms,
    CASE WHEN state = 'RESOLVED' THEN epoch_ms(changed_at) END AS end_ms
FROM alerts_now
WHERE consumer_group IS NULL AND broker_name IS NOT NULL AND fired_at IS NOT NULL
    AND (state <> 'RESOLVED' OR changed_at > make_timestamptz($from_ms * 1000)) AND {_CHOSEN}
ORDER BY state = 'RESOLVED', started_at DESC
LIMIT {MOST_INCIDENTS}
"""


def read_brokers(
    history: History, cluster: str, from_ms: int, until_ms: int, known: Known | None = None
) -> tuple[list[Broker], bool]:
    """Return the brokers, worst first, and whether the oldest intervals are missing because there are too many.

    `cluster` "" is for all. Intervals end with the data of the broker's cluster.
    """
    known = known or Known(until_ms)
    params: dict[str, Any] = {"cluster": cluster, "canary": CANARY_CLUSTER, "from_ms": from_ms, "until_ms": until_ms}
    for share in MERGED_SHARES:
        params["merge_ms"] = (until_ms - from_ms) // share
        intervals = history.rows(_INTERVALS, params)
        if len(intervals) <= MOST_BARS:
            break
    by_broker: dict[tuple[str, str], dict[str, list[Any]]] = {}

    def file(rows: list[dict[str, Any]], name: str, kind: Callable[..., Any]) -> None:
        for row in rows:
            place = (row.pop("cluster"), row.pop("broker_name"))
            by_broker.setdefault(place, {}).setdefault(name, []).append(kind(**row))

    file(intervals[:MOST_INTERVALS], "intervals", Interval)
    file(history.rows(_AVOIDERS, params), "avoiders", dict)
    file(history.rows(_INCIDENTS, params), "incidents", dict)
    rows = history.rows(_KNOWN, params)
    now = {(row.pop("cluster"), row.pop("broker_name")): row for row in rows}
    brokers = []
    for place in sorted(now.keys() | by_broker.keys()):
        found: dict[str, Any] = {"avoiding": 0, "producers": 0, "until_ms": None}
        found |= now.get(place, {}) | by_broker.get(place, {})
        known_ms = known.of(place[0])
        cut = [replace(one, end_ms=min(one.end_ms, known_ms)) for one in found.pop("intervals", ())]
        found["intervals"] = tuple(one for one in cut if one.start_ms < known_ms)
        brokers.append(Broker(*place, **found))
    brokers.sort(key=lambda broker: broker.urgency)
    return brokers, len(intervals) > MOST_INTERVALS


BROKERS_A_PAGE = 50

SORT: SortKeys = {
    "broker": lambda broker: broker.broker_name,
    "cluster": lambda broker: broker.cluster,
    "avoiding": lambda broker: broker.avoiding,
    "until": lambda broker: broker.until_ms if broker.avoiding else None,
    "incidents": lambda broker: (len(broker.open_incidents), len(broker.incidents)),
}

MOST_LANES = 40
LANE_PX = 44


def read(view: View) -> dict[str, Any]:
    """Return the values of the page: all brokers, worst first, and `listed`, the page of those with avoidance or
    incidents.

    `from_ms` to `until_ms` is the part of the period that is drawn. `clusters` are the options of the filter. `is_cut`:
    the oldest intervals are missing because there are too many.
    """
    asked, cluster, until_ms = view.asked, view.asked.get("cluster", ""), view.now_ms
    wanted_ms = until_ms - read_span_ms(asked, "since", "24h")
    known = read_known(view.history, view.known_until_ms, by_sends=True)
    brokers, is_cut = read_brokers(view.history, cluster, wanted_ms, until_ms, known)
    from_ms, end_ms = _extent(brokers, wanted_ms, until_ms, known)
    if from_ms > wanted_ms:  # again, since a shorter period shows shorter breaks
        brokers, is_cut = read_brokers(view.history, cluster, from_ms, until_ms, known)
    clusters = read_cluster_names(view.history)
    if cluster and not brokers:
        read_choice(asked, "cluster", clusters)
    listed = [broker for broker in brokers if not broker.is_quiet]
    return {
        "asked": asked,
        "cluster": cluster,
        "from_ms": from_ms,
        "until_ms": end_ms,
        "clusters": clusters,
        "brokers": brokers,
        "listed": slice_of(sort_rows(listed, asked, SORT), asked, BROKERS_A_PAGE),
        "known": known,
        "is_cut": is_cut,
        "is_stale": view.is_stale,
        "now_ms": until_ms,
    }


def _extent(brokers: Sequence[Broker], from_ms: int, until_ms: int, known: Known) -> tuple[int, int]:
    """Return the part of the period with something to draw; it includes the end for open incidents and missing data."""
    lanes = [broker for broker in brokers if broker.intervals or broker.incidents][:MOST_LANES]
    times_ms = [ms for lane in lanes for one in lane.intervals for ms in (one.start_ms, one.end_ms)]
    times_ms += [
        ms
        for lane in lanes
        for one in lane.incidents
        for ms in (one["start_ms"], until_ms if one["end_ms"] is None else one["end_ms"])
    ]
    times_ms += [until_ms for lane in lanes if known.of(lane.cluster) < until_ms]
    return extent_of(from_ms, until_ms, times_ms)


SHOWN_AVOIDERS = 12

LEAST_SHARE = 1 / 500
"""Least width of a bar as a share of the axis, so that short intervals can be seen."""

KEYS = (Key("avoided by some", AMBER, "slash"), Key("avoided by all", RED, "cross"), Key("incident", BLUE, "tint"))
SILENT = Key(NO_DATA, PURPLE, "dots")


def draw(page: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the chart and what the template cannot derive: `current` brokers have data of now, `silent` clusters are
    shown in their last known state, unless the notice of stale data covers them."""
    brokers, known, cluster = page["brokers"], page["known"], page["cluster"]
    lanes = [broker for broker in brokers if broker.intervals or broker.incidents]
    silent = [] if page["is_stale"] else sorted(known.silent_ms.items())
    return {
        "current": [broker for broker in brokers if known.of(broker.cluster) >= page["now_ms"]],
        "silent": [(name, ms) for name, ms in silent if cluster == name or (not cluster and name != CANARY_CLUSTER)],
        "lanes": lanes,
        "most_lanes": MOST_LANES,
        "chart": brokers_chart(page, lanes[:MOST_LANES]) if lanes else None,
        "shown_avoiders": SHOWN_AVOIDERS,
    }


def brokers_chart(page: Mapping[str, Any], lanes: Sequence[Broker]) -> Chart:
    """Return the chart of brokers with avoidance or incidents: a band while it is avoided, its incidents below."""
    known, from_ms, until_ms = page["known"], page["from_ms"], page["until_ms"]
    axis = Axis(from_ms, until_ms)
    share, avoided = phrase("{part} of {all}"), phrase("{broker}: {words}, {start} to {end}")
    silent, no_data = phrase("{broker}: no data since {time}"), gettext("no data")
    bars = []
    for number, lane in enumerate(lanes):
        y = number * LANE_PX
        for interval in lane.intervals:
            key = KEYS[interval.avoiding >= interval.producers]
            place = axis.span(interval.start_ms, interval.end_ms, LEAST_SHARE)
            text = fitting(localize(share.given(part=interval.avoiding, all=interval.producers)), place[1])
            start, end = clock(interval.start_ms, until_ms), clock(interval.end_ms, until_ms)
            title = localize(avoided.given(broker=lane.broker_name, words=interval.words, start=start, end=end))
            bars.append(Bar(*place, y + 3, 20, key.tone, key.hatch, key.name, title, text))
        known_ms = max(known.of(lane.cluster), from_ms)
        if known_ms < until_ms:
            place = axis.span(known_ms, until_ms)
            title = localize(silent.given(broker=lane.broker_name, time=clock(known_ms, until_ms)))
            text = fitting(no_data, place[1])
            bars.append(Bar(*place, y + 3, 20, SILENT.tone, SILENT.hatch, NO_DATA, title, text))
        taken: list[tuple[float, float]] = []
        for incident in lane.incidents:
            end_ms = incident["end_ms"] or known.of_incident(lane.cluster, incident["kind"], incident["start_ms"])
            place = axis.span(incident["start_ms"], max(incident["start_ms"], end_ms), LEAST_SHARE)
            title, link = f"{incident['kind']}: {incident['summary']}", href("/incident", id=incident["incident_id"])
            is_free = all(place[0] + place[1] <= x or place[0] >= end for x, end in taken)
            taken.append((place[0], place[0] + place[1]))
            text = fitting(incident["kind"], place[1]) if is_free else ""
            bars.append(Bar(*place, y + 25, 15, BLUE, "", "incident", title, text, link))
    with_cluster = len(page["clusters"]) > 1 and not page["cluster"]
    names = [f"{lane.cluster} {lane.broker_name}" if with_cluster else lane.broker_name for lane in lanes]
    label = phrase("Avoidance and incidents over time of {brokers}: {names}", brokers=counted(len(lanes), "broker"))
    label = label.given(names=", ".join(names[:10]))
    keys = (*KEYS, SILENT) if any(bar.name == NO_DATA for bar in bars) else KEYS
    places = [(number * LANE_PX + LANE_PX / 2, lane_name(name)) for number, name in enumerate(names)]
    return Chart("brokers-chart", localize(label), LANE_PX * len(lanes), axis, bars, keys=keys, names=places)


PAGE = Page(
    "brokers",
    "/brokers",
    phrase("Brokers"),
    read,
    draw,
    nav=phrase("Brokers"),
    parameters=frozenset({"cluster", "since", "sort", "page"}),
    tables=frozenset({"alerts", "assignments", "broker_health", "fault_items", "memberships"}),
)
