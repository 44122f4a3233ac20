"""balancewatch itself as a contender: the service of `run`, without notifications."""

import signal
import threading
import time
from pathlib import Path
from typing import Any

from conf.settings import Settings
from streaming.queries.written_batch import WrittenBatch
from streaming.service.service import Service
from tests.lab.bench.figures import ended_at
from tests.lab.bench.latency import make_ready
from tests.lab.bench.rivals.work import Drained, Work, mark_ready, note_flips, read_work, write_report
from tests.lab.bench.scratch import SPARK_LOG
from tests.support.calling import Calling


def main() -> None:
    work = read_work()
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def note(batch: WrittenBatch) -> None:
        note_flips(work, batch.rows.get("fault_items", []))

    limit = {"max_offsets_per_trigger": work.warm_events} if work.warm_events else {}
    settings = Settings.load(
        kafka={"bootstrap_servers": work.bootstrap_servers, "options": {}},
        paths={"warehouse": work.folder / "warehouse", "checkpoints": work.folder / "checkpoints"},
        queries=limit,
    )
    with Service(
        settings,
        available_now=not work.is_live,
        listeners=(Calling(note),),
        jvm_log=Path(SPARK_LOG).resolve(),
        stop=stop,
    ) as service:
        if work.is_live:
            make_ready(service, settings.kafka)
            mark_ready(work)
        service.wait(stop)
        progresses = list(service.running.query.recentProgress)
    if not work.is_live:
        write_report(work, _drained(work, progresses))


def _drained(work: Work, progresses: list[Any]) -> Drained:
    """From the batch with which the warm events were done to the end of the last."""
    seen, began = 0, 0.0
    for progress in progresses:
        seen += progress.numInputRows
        if seen >= work.warm_events:
            began = ended_at(progress)
            break
    rest = sum(progress.numInputRows for progress in progresses) - seen
    return Drained(rest, began or time.time(), ended_at(progresses[-1]))


if __name__ == "__main__":
    main()
