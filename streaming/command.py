"""How a command begins and ends: settings loaded, what goes wrong said in one sentence, exit codes 0, 1 and 2."""

from typing import Any, NoReturn

import typer

from conf.settings import Settings, SettingsError
from streaming.log_flags import given_log_flags
from streaming.logs import say_failure, set_up_logs


def load(**flags: dict[str, Any]) -> Settings:
    """Settings with the flags that were given. Leaves with 2 and a sentence when one cannot be used."""
    given = {
        section: {key: value for key, value in keys.items() if value is not None}
        for section, keys in {"log": given_log_flags(), **flags}.items()
    }
    try:
        settings = Settings.load(**{section: keys for section, keys in given.items() if keys})
    except SettingsError as error:
        fail(str(error), code=2)
    set_up_logs(settings.log)
    return settings


def fail(reason: str, code: int = 1) -> NoReturn:
    """Leave with one sentence on stderr."""
    say_failure(reason)
    raise typer.Exit(code)


def needs_kafka(settings: Settings) -> None:
    if not settings.kafka.bootstrap_servers:
        fail(
            "kafka.bootstrap_servers is empty; give --bootstrap-servers HOST:PORT or set "
            "BALANCEWATCH_KAFKA__BOOTSTRAP_SERVERS (`balancewatch kafka` starts one)",
            code=2,
        )


def guard(work: Any, *args: Any, **kwargs: Any) -> None:
    """Run; what is known to go wrong ends in one sentence and exit code 1."""
    from streaming.data_loss import DataLossError
    from streaming.ingest.embedded_kafka import EmbeddedKafkaError
    from streaming.ingest.publisher import PublishError
    from streaming.ingest.rocketmq_jvm import RocketMQError
    from streaming.ingest.round_reader import CollectorError
    from streaming.ingest.topics import KafkaUnreachableError
    from streaming.jars import JarsError
    from streaming.service import ServiceError

    known = (
        JarsError,
        EmbeddedKafkaError,
        KafkaUnreachableError,
        PublishError,
        RocketMQError,
        CollectorError,
        DataLossError,
        ServiceError,
    )
    try:
        work(*args, **kwargs)
    except known as error:
        fail(str(error))
