"""`balancewatch kafka`: the embedded Kafka in the foreground."""

from pathlib import Path
from typing import Annotated

import typer

from streaming.kafka_io.embedded_kafka import EmbeddedKafka, EmbeddedKafkaError
from streaming.kafka_io.topics import create_topics
from streaming.system.stopping import stop_on_signals
from streaming.terminal.command import load, run_or_exit
from streaming.text.output import say


def kafka(
    port: Annotated[
        int | None, typer.Option(help="Port on the loopback. Default: a free one.", min=1, max=65535)
    ] = None,
    data_dir: Annotated[Path, typer.Option(help="Data folder, kept for the next start.")] = Path(".kafka"),
) -> None:
    """Run an embedded Kafka with the five topics in the foreground, until Ctrl-C or SIGTERM.

    Prints `bootstrap_servers=HOST:PORT` when it is ready.

    Example: balancewatch kafka --port 9092 --data-dir /var/lib/balancewatch/kafka
    """
    stop = stop_on_signals()
    settings = load()

    def work() -> None:
        broker = EmbeddedKafka(settings.paths.jars, data_dir, port)
        try:
            create_topics(
                settings.kafka.model_copy(update={"bootstrap_servers": broker.bootstrap_servers, "options": {}})
            )
            say(f"bootstrap_servers={broker.bootstrap_servers}", flush=True)
            while broker.is_alive() and not stop.wait(0.5):
                pass
            if not stop.is_set():
                raise EmbeddedKafkaError(f"Kafka stopped unexpectedly; see {broker.log}")
        finally:
            broker.stop()

    run_or_exit(work, ending=stop)
