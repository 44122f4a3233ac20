"""Options that override a setting, the same in each command; None keeps the setting."""

from typing import Annotated

import typer

BootstrapServers = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers", help="Kafka brokers, host:port,host:port [kafka.bootstrap_servers]", metavar="SERVERS"
    ),
]
Warehouse = Annotated[
    str | None,
    typer.Option("--warehouse", help="Delta tables: a folder or s3://bucket/prefix [paths.warehouse]", metavar="PLACE"),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        "--checkpoints", help="Checkpoints: a folder or s3a://bucket/prefix [paths.checkpoints]", metavar="PLACE"
    ),
]
