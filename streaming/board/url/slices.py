"""Pages of a long list, chosen by the URL's `page`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from streaming.board.url.parameters import read_number

Item = TypeVar("Item")


@dataclass(frozen=True)
class Slice(Generic[Item]):
    """One page of a list of `total` items. `page` counts from 1; a number beyond the end gives the last page."""

    items: Sequence[Item]
    page: int
    pages: int
    total: int


def slice_of(items: Sequence[Item], asked: Mapping[str, str], size: int) -> Slice[Item]:
    """Return the page that `page` asks for. Raises AskedError."""
    page, pages = read_page(asked, len(items), size)
    return Slice(items[(page - 1) * size : page * size], page, pages, len(items))


def read_page(asked: Mapping[str, str], total: int, size: int) -> tuple[int, int]:
    """Return the requested page's number and the number of pages. Raises AskedError."""
    pages = max(1, -(-total // size))
    return min(read_number(asked, "page", 1, 1, 1_000_000), pages), pages
