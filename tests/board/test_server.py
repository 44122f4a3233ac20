"""The board's server over real HTTP beside slow sockets."""

import threading
from pathlib import Path

import pytest

from conf.settings import Settings
from streaming.board.web.access import AccessControl
from streaming.board.web.app import BoardServer
from tests.system.test_bounded_server import connected, get, is_closed, quickly

pytestmark = pytest.mark.real


def test_a_person_gets_the_board_beside_260_dripping_sockets(tmp_path: Path) -> None:
    settings = Settings.load(paths={"warehouse": tmp_path}, board={"port": 0})
    server = BoardServer(settings, access=AccessControl(frozenset(), "correct-horse-battery-staple", 3600))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        with connected(server.port, 260, b"GET / H") as slow:
            asked = {"Authorization": "Bearer correct-horse-battery-staple"}
            assert [quickly(lambda: get(server.port, **asked)) for _ in range(3)] == [200] * 3
            assert 150 < sum(map(is_closed, slow)) < 260
    finally:
        server.close()
        thread.join(10)
