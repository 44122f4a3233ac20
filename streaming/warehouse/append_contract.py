"""What a table asks of whoever appends to it, and what of that an append which reads nothing cannot give.

Source: Delta's PROTOCOL.md, "Writer Version Requirements" and "Table Features".
"""

from dataclasses import dataclass

import pyarrow as pa
from deltalake import DeltaTable

from streaming.system.known_error import BalancewatchError

KEPT_BY_ANY_APPEND = frozenset(
    {
        "appendOnly",
        "changeDataFeed",  # rows of an added file count as inserted
        "checkConstraints",
        "columnMapping",
        "deletionVectors",
        "domainMetadata",
        "generatedColumns",
        "identityColumns",
        "invariants",
        "timestampNtz",
        "v2Checkpoint",
        "vacuumProtocolCheck",
    }
)
"""Features an append keeps as long as nothing of them is in use, which the metadata tells."""

NEWEST_WRITER = 7

IN_METADATA = {
    "delta.invariants": "invariants",
    "delta.generationExpression": "generated columns",
    "delta.identity.start": "identity columns",
    "CURRENT_DEFAULT": "column defaults",
}
"""A column's metadata that makes writers compute or check something."""


class AppendRefusedError(BalancewatchError):
    """A blind append would break the table, or lacks columns. The message names the table and what to change."""


@dataclass(frozen=True)
class AppendContract:
    """The columns of one version of a table: `types` by name, and the names of those that may not be null."""

    table: str
    types: dict[str, pa.DataType]
    required: frozenset[str]

    def check(self, rows: pa.Table) -> None:
        """Raises AppendRefusedError for a column that is not there, of another type, or null where it may not be."""
        for name, column in zip(rows.column_names, rows.columns, strict=True):
            if name not in self.types:
                raise AppendRefusedError(f"{self.table} has no column {name}; start `balancewatch run` to add it")
            if column.type != self.types[name]:
                raise AppendRefusedError(
                    f"{self.table}: column {name} has type {self.types[name]}, but this release writes {column.type}; "
                    "move the table away, or set another paths.warehouse"
                )
            if name in self.required and column.null_count:
                raise AppendRefusedError(f"{self.table}: {column.null_count} rows have no {name}, which is required")
        missing = self.required - set(rows.column_names)
        if missing:
            raise AppendRefusedError(f"{self.table}: the rows lack {', '.join(sorted(missing))}, which are required")


def contract_of(handle: DeltaTable) -> AppendContract:
    """Of the version that the handle has read. Raises AppendRefusedError where an append must do more than append."""
    path = handle.table_uri
    found = sorted(_in_use(handle))
    if found:
        raise AppendRefusedError(
            f"{path} uses {', '.join(found)}, which balancewatch does not support when it appends; drop it from the "
            "table (ALTER TABLE ... DROP FEATURE, or unset its property), or set another paths.warehouse"
        )
    fields = handle.schema().fields
    arrow = pa.schema(handle.schema().to_arrow())
    return AppendContract(
        path,
        {field.name: _plain(arrow.field(field.name).type) for field in fields},
        frozenset(field.name for field in fields if not field.nullable),
    )


def _in_use(handle: DeltaTable) -> set[str]:
    """What writers must keep in this table beyond its columns, in words a person can look up."""
    protocol, metadata = handle.protocol(), handle.metadata()
    properties = {name.lower(): value for name, value in metadata.configuration.items()}
    features = set(protocol.writer_features or ())
    found = {f"the table feature {name}" for name in features - KEPT_BY_ANY_APPEND}
    if protocol.min_writer_version > NEWEST_WRITER:
        found.add(f"writer version {protocol.min_writer_version}")
    if metadata.partition_columns:
        found.add(f"partitions (by {', '.join(metadata.partition_columns)})")
    if any(name.startswith("delta.constraints.") for name in properties):
        found.add("check constraints")
    if properties.get("delta.columnmapping.mode", "none").lower() != "none":
        found.add("column mapping")
    for field in handle.schema().fields:
        found |= {f"{words} ({field.name})" for key, words in IN_METADATA.items() if key in field.metadata}
    return found


def _plain(type_: pa.DataType) -> pa.DataType:
    """A type as pyarrow makes it of rows: delta-rs names a list's values, and may take larger offsets."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return pa.list_(_plain(type_.value_type))
    if pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_large_binary(type_) or pa.types.is_binary_view(type_):
        return pa.binary()
    return type_
