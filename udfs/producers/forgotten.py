"""What producers told of a broker, or a cluster, that a person decided is gone: it ends, and nothing of it is kept."""

from collections.abc import Iterator

from udfs.alerts.alert import Transition, brokers_of, with_words
from udfs.alerts.life import Evaluation, Reason, end
from udfs.brokers.skew import Skew
from udfs.producers.board import Board, Flip, Health
from udfs.producers.fleet import Fleet
from udfs.producers.waiting_sends import end_drop


def forget_items(board: Board, now_ms: int) -> tuple[list[Flip], list[Health]]:
    """The last rows of the broker's items: nobody avoids what is not there."""
    flips = [
        Flip(client_id, item.client_version, item.current_latency_ms, False, item.start_timestamp_ms, True, now_ms)
        for client_id, item in sorted(board.items.items())
        if not item.is_available
    ]
    had_items = bool(board.items)
    board.items.clear()
    board.has_reported = False
    return flips, [Health(0, 0, None, now_ms)] if had_items else []


def forget_of_fleet(fleet: Fleet, kind: str, name: str, now_ms: int, words: str = "") -> Iterator[Transition]:
    """A broker, or with the kind "cluster" the whole fleet; `words` are those of who decided it."""
    is_all = kind == "cluster"
    for key, incident in sorted(fleet.incidents.items()):
        if is_all or brokers_of(incident) == {name}:
            del fleet.incidents[key]
            yield with_words(end(incident, Reason.FORGOTTEN, Evaluation(now_ms)), words)
    if is_all:
        yield from (with_words(one, words) for one in end_drop(fleet, now_ms, Reason.FORGOTTEN))
    brokers = {*fleet.shut_out, *fleet.waiting, *fleet.boards, *fleet.gone, name} if is_all else {name}
    for broker_name in brokers:
        fleet.boards.pop(broker_name, None)
        fleet.shut_out.pop(broker_name, None)
        fleet.waiting.pop(broker_name, None)
        fleet.gone.pop(broker_name, None)
    for producer in fleet.producers.values():
        for broker_name in list(producer.seen_ms):
            if is_all or broker_name == name:
                del producer.seen_ms[broker_name]
    if is_all:
        fleet.skew = Skew()
    fleet.producers = {one: producer for one, producer in fleet.producers.items() if producer.seen_ms}
    fleet.episodes = {
        key: episode for key, episode in fleet.episodes.items() if not is_all and key.partition(" ")[2] != name
    }
