"""The `[maintain]` section: retention of rows and files, compaction."""

from typing import Annotated, Literal

from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError
from pydantic_core.core_schema import ValidationInfo

from conf.section import NO_BOOL, Section

TableName = Literal[
    "alerts",
    "assignments",
    "memberships",
    "fault_items",
    "broker_health",
    "quarantine",
    "alert_deliveries",
    "silences",
    "acknowledgements",
    "quality",
    "repairs",
]
"""The Delta tables; tests/conf/test_maintenance.py holds them against schemas.tables.TABLES."""

Hours = Annotated[int, Field(ge=1, le=87_600)]
Days = Annotated[int, Field(ge=0, le=36_500)]


class Maintain(Section):
    """All of `[maintain]`. Tables that `retention_days` does not name, or sets to 0, keep all rows."""

    retention_days: dict[TableName, Annotated[Days, NO_BOOL]]
    target_file_mb: Annotated[int, Field(ge=1, le=4_096)]
    min_files: Annotated[int, Field(ge=2, le=1_000_000)]
    beside_seconds: Annotated[float, Field(ge=0, le=86_400), NO_BOOL]
    reader_hours: Hours
    vacuum_hours: Hours

    @field_validator("vacuum_hours")
    @classmethod
    def _is_not_under_a_readers(cls, hours: int, known: ValidationInfo) -> int:
        if hours < known.data.get("reader_hours", 0):
            raise PydanticCustomError(
                "vacuum_hours",
                "must not be below reader_hours = {reader_hours}, for which readers need the files",
                {"reader_hours": known.data["reader_hours"]},
            )
        return hours
