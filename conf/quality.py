"""The `[quality]` section: interval and size of samples, and the alert's threshold."""

from typing import Annotated

from pydantic import Field

from conf.section import Section


class Quality(Section):
    """All of `[quality]`."""

    every_batches: Annotated[int, Field(ge=0, le=1_000_000)]
    pause_seconds: Annotated[float, Field(ge=1, le=86_400)]
    sample_messages: Annotated[int, Field(ge=1, le=100_000)]
    sample_bytes: Annotated[int, Field(ge=1 << 10, le=256 << 20)]
    alert_share: Annotated[float, Field(ge=0, lt=1)]
    alert_validations: Annotated[int, Field(ge=1, le=1_000)]
