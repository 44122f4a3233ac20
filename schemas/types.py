"""The types of event fields, with Spark's names and without Spark, which most commands do not need."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any


class DataType:
    """The type of a value in JSON."""


class StringType(DataType):
    """A text."""


class BooleanType(DataType):
    """True or false."""


class IntegerType(DataType):
    """An integer of 32 bits."""


class LongType(DataType):
    """An integer of 64 bits."""


@dataclass(frozen=True)
class ArrayType(DataType):
    """A list without nulls."""

    element_type: DataType


@dataclass(frozen=True)
class StructField:
    """A field of an object; a nullable one may be absent or null."""

    name: str
    data_type: DataType
    nullable: bool
    metadata: dict[str, Any]


@dataclass(frozen=True)
class StructType(DataType):
    """An object."""

    fields: Sequence[StructField]

    def __getitem__(self, name: str) -> StructField:
        return self.by_name[name]

    @cached_property
    def by_name(self) -> Mapping[str, StructField]:
        return {field.name: field for field in self.fields}
