"""`python -m tests.lab.storm.feeder SERVERS ROUNDS`: the storm's collector, a process that is made to be killed.

It reads events from its standard input, a JSON array each, and publishes them. After each clock event it waits for
Kafka and appends the round to the file ROUNDS: cluster, event time, time of Kafka's answer. It repeats a round until
Kafka takes it, as `collect` does.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from conf.settings import Settings
from schemas.events import CLOCKS
from streaming.kafka_io.publisher import Publisher, PublishError


def main() -> None:
    servers, rounds = sys.argv[1], Path(sys.argv[2])
    kafka = Settings.load(kafka={"bootstrap_servers": servers, "options": {}}).kafka
    publisher: Publisher | None = None
    unconfirmed: list[tuple[str, dict[str, Any]]] = []
    for line in sys.stdin:
        topic, event = json.loads(line)
        unconfirmed.append((topic, event))
        if topic != CLOCKS:
            continue
        while unconfirmed:
            try:
                publisher = publisher or Publisher(kafka, delivery_seconds=10)
                for each_topic, each in unconfirmed[:-1]:
                    publisher.publish(each_topic, each)
                publisher.flush()  # everything before a clock event is in Kafka before it
                publisher.publish(topic, event)
                publisher.flush()
                unconfirmed = []
            except PublishError:
                if publisher is not None:
                    publisher.close()
                publisher = None
                time.sleep(1)
        with rounds.open("a") as file:
            file.write(json.dumps([event["cluster"], event["event_time_ms"], time.time_ns() // 1_000_000]) + "\n")


if __name__ == "__main__":
    main()
