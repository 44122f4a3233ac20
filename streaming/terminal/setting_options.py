"""Options that override a setting, the same in each command; None keeps the setting."""

from pathlib import Path
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
    Path | None, typer.Option("--checkpoints", help="Folder of the checkpoints [paths.checkpoints]", metavar="FOLDER")
]
