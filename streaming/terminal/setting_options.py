"""Options that stand for a setting, the same in every command that has them; None leaves what the settings say."""

from pathlib import Path
from typing import Annotated

import typer

BootstrapServers = Annotated[
    str | None, typer.Option("--bootstrap-servers", help="Kafka brokers, host:port,host:port [kafka.bootstrap_servers]")
]
Warehouse = Annotated[
    str | None, typer.Option("--warehouse", help="Delta tables: a folder, or s3://bucket/prefix [paths.warehouse]")
]
Checkpoints = Annotated[
    Path | None, typer.Option("--checkpoints", help="Folder of the checkpoints [paths.checkpoints]")
]
