"""The part of a long list that a URL asks for with `page`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from streaming.board.url.parameters import read_number

Item = TypeVar("Item")


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """One page of a list of `whole` items; `page` counts from 1 and is the last one where the URL asks for more."""

    items: Sequence[Item]
    page: int
    pages: int
    whole: int


def slice_of(items: Sequence[Item], asked: Mapping[str, str], size: int) -> Slice[Item]:
    """The page that `page` asks for. Raises AskedError."""
    page, pages = read_page(asked, len(items), size)
    return Slice(items[(page - 1) * size : page * size], page, pages, len(items))


def read_page(asked: Mapping[str, str], whole: int, size: int) -> tuple[int, int]:
    """The page that `page` asks for, and how many pages there are. Raises AskedError."""
    pages = max(1, -(-whole // size))
    return min(read_number(asked, "page", 1, 1, 1_000_000), pages), pages
