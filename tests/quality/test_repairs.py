"""Claims: a quarantined message is given to one replay, ever, however many ask and whenever one dies."""

import threading
from pathlib import Path
from typing import Any

import pytest

from schemas.events import PULLS
from streaming.quality import repairs as module
from streaming.quality.repairs import BusyError, Place, Repairs, Standing

NOW_MS = 1_750_000_000_000


def place(offset: int, topic: str = PULLS, ingest_time_ms: int = NOW_MS) -> Place:
    return Place(topic, 0, offset, ingest_time_ms)


def values(*offsets: int) -> dict[Place, bytes]:
    return {place(offset): b"{%d}" % offset for offset in offsets}


def test_a_message_nobody_touched_has_no_standing(tmp_path: Path) -> None:
    assert Repairs(tmp_path).standings() == {}


def test_the_way_of_a_message(tmp_path: Path) -> None:
    repairs = Repairs(tmp_path)
    assert repairs.repair(values(1), "ada", NOW_MS) == [place(1)]
    assert repairs.standings() == {place(1): Standing("REPAIRED")}
    claim_id, claimed = repairs.claim(values(1), "ada", NOW_MS + 1)
    assert claimed == [place(1)]
    assert repairs.standings() == {place(1): Standing("UNKNOWN", claim_id)}
    repairs.done(claim_id, {place(1): (0, 77)}, "ada", NOW_MS + 2)
    assert repairs.standings() == {place(1): Standing("REPLAYED", claim_id)}


@pytest.mark.parametrize("is_done", [False, True])
def test_what_was_claimed_is_neither_claimed_nor_repaired_again(tmp_path: Path, is_done: bool) -> None:
    """A replay that died after its claim leaves the message UNKNOWN, and so it stays."""
    repairs = Repairs(tmp_path)
    claim_id, _ = repairs.claim(values(1, 2), "ada", NOW_MS)
    if is_done:
        repairs.done(claim_id, {place(1): (0, 5), place(2): (0, 6)}, "ada", NOW_MS)
    assert repairs.claim(values(1, 2, 3), "bob", NOW_MS + 1)[1] == [place(3)]
    assert repairs.repair(values(1, 2), "bob", NOW_MS + 2) == []


def test_an_offset_of_a_topic_that_was_made_anew_is_another_message(tmp_path: Path) -> None:
    repairs = Repairs(tmp_path)
    repairs.claim(values(1), "ada", NOW_MS)
    later = place(1, ingest_time_ms=NOW_MS + 86_400_000)
    assert repairs.claim({later: b"{}"}, "ada", NOW_MS)[1] == [later]


def test_of_many_replays_at_once_each_message_goes_to_one(tmp_path: Path) -> None:
    """Eight at a time want the same forty messages, in pieces of another size each."""
    won: list[tuple[str, Place]] = []
    lock, start = threading.Lock(), threading.Barrier(8)

    def work(number: int) -> None:
        repairs = Repairs(tmp_path)
        start.wait()
        for first in range(0, 40, number + 3):
            claim_id, claimed = repairs.claim(values(*range(first, min(40, first + number + 3))), "x", NOW_MS)
            with lock:
                won.extend((claim_id, one) for one in claimed)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(one.offset for _, one in won) == list(range(40))
    claims = {one: claim_id for claim_id, one in won}
    assert {one: standing.claim_id for one, standing in Repairs(tmp_path).standings().items()} == claims


def test_a_commit_between_reading_and_writing_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody claims just before our commit: ours is refused, and the second look leaves the message to them."""
    theirs: list[Place] = []
    write = module.write_deltalake

    def write_late(*args: Any, **keys: Any) -> None:
        monkeypatch.setattr(module, "write_deltalake", write)
        theirs.extend(Repairs(tmp_path).claim(values(1), "bob", NOW_MS)[1])
        write(*args, **keys)

    Repairs(tmp_path).repair(values(9), "ada", NOW_MS)
    monkeypatch.setattr(module, "write_deltalake", write_late)
    assert Repairs(tmp_path).claim(values(1, 2), "ada", NOW_MS)[1] == [place(2)]
    assert theirs == [place(1)]


def test_a_commit_that_went_through_though_it_failed_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = module.write_deltalake

    def write_and_fail(*args: Any, **keys: Any) -> None:
        monkeypatch.setattr(module, "write_deltalake", write)
        write(*args, **keys)
        raise module.CommitFailedError("the answer was lost")

    monkeypatch.setattr(module, "write_deltalake", write_and_fail)
    assert Repairs(tmp_path).claim(values(1), "ada", NOW_MS)[1] == [place(1)]


def test_a_table_that_is_always_busy_claims_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise module.CommitFailedError("somebody else")

    monkeypatch.setattr(module, "write_deltalake", fail)
    with pytest.raises(BusyError, match="other processes wrote table repairs"):
        Repairs(tmp_path).claim(values(1), "ada", NOW_MS)
    assert Repairs(tmp_path).standings() == {}
