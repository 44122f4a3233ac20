"""A query's memory within the limit of its container or unit."""

from pathlib import Path

import pytest

from streaming.store.limits import MOST_BYTES, memory_bytes


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, MOST_BYTES),
        ({"memory.max": "max"}, MOST_BYTES),
        ({"memory.max": f"{64 << 30}"}, MOST_BYTES),
        ({"memory.max": f"{1 << 30}"}, 512 << 20),
        ({"memory.max": "max", "system.slice/board.service/memory.max": f"{1 << 30}"}, 512 << 20),
        ({"memory/memory.limit_in_bytes": f"{1 << 30}"}, 512 << 20),
        ({"memory/memory.limit_in_bytes": "9223372036854771712"}, MOST_BYTES),
    ],
)
def test_a_query_has_half_of_the_containers_memory_at_most(
    tmp_path: Path, files: dict[str, str], expected: int
) -> None:
    (tmp_path / "own").write_text("0::/system.slice/board.service\n")
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    assert memory_bytes(tmp_path, tmp_path / "own") == expected
