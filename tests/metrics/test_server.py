"""The endpoint over real HTTP: pages, reasons, the token, and an address that cannot be bound."""

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from conf.section import SettingsError
from conf.settings import Metrics, Settings
from streaming.metrics.exporter import TEXT, Exporter
from streaming.metrics.server import Server
from tests.system.test_bounded_server import connected

reasons: dict[str, list[str]] = {"alive": [], "ready": []}


def settings(**keys: Any) -> Metrics:
    return Settings.load(metrics={"port": 0, **keys}).metrics


@pytest.fixture
def url() -> Iterator[str]:
    reasons.update(alive=[], ready=["Spark is starting"])
    with contextlib.closing(
        Server(settings(), Exporter().text, lambda: reasons["alive"], lambda: reasons["ready"])
    ) as server:
        yield f"http://127.0.0.1:{server.port}"


def test_metrics_are_prometheus_text(url: str) -> None:
    answer = httpx.get(f"{url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TEXT
    assert "balancewatch_build_info{" in answer.text


def test_a_failing_check_is_a_503_with_its_reasons(url: str) -> None:
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "reasons": []}
    starting = httpx.get(f"{url}/readyz")
    assert (starting.status_code, starting.json()) == (503, {"status": "failing", "reasons": ["Spark is starting"]})
    reasons.update(alive=["the thread relay is dead"], ready=[])
    assert httpx.get(f"{url}/healthz").status_code == 503
    assert httpx.get(f"{url}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status", "sentence"),
    [
        ("GET", "/", 404, "not found; available: /metrics, /healthz and /readyz\n"),
        ("POST", "/metrics", 405, "only GET and HEAD are allowed\n"),
        ("HEAD", "/metrics", 200, ""),
    ],
)
def test_only_three_pages_that_can_only_be_read(url: str, method: str, path: str, status: int, sentence: str) -> None:
    response = httpx.request(method, url + path)
    assert (response.status_code, response.text) == (status, sentence)
    assert response.headers["x-content-type-options"] == "nosniff"


def test_a_token_guards_the_metrics_and_not_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", "lét-me-in")
    with contextlib.closing(Server(settings(**{"token_env": "SCRAPE_TOKEN"}), bytes, list, list)) as server:
        url = f"http://127.0.0.1:{server.port}"
        shown = [None, "Bearer wrong", "Basic lét-me-in", "Bearer lét-me-in", "Bearer lét"]
        codes = [
            httpx.get(f"{url}/metrics", headers={} if one is None else {"Authorization": one.encode()}).status_code
            for one in shown
        ]
        assert codes == [401, 401, 401, 200, 401]
        assert httpx.get(f"{url}/readyz").status_code == 200


def test_a_missing_token_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"metrics\.token_env = .* SCRAPE_TOKEN is empty or not set"):
        Server(settings(**{"token_env": "SCRAPE_TOKEN"}), bytes, list, list)


@pytest.mark.parametrize("key", ["port", "relay_port"])
def test_a_port_in_use_stops_the_start_with_key_and_value(key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"metrics\.{key} = {port} .*'127\.0\.0\.1'.*in use.*name another"):
            Server(settings(**{key: port}), bytes, list, list, key=key)


@pytest.mark.parametrize("host", ["no such host", "\x00", "x" * 200])
def test_an_invalid_host_stops_the_start(host: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.host = " + re.escape(repr(host))):
        Server(settings(host=host), bytes, list, list)


def test_a_port_is_free_again_when_the_server_is_closed() -> None:
    server = Server(settings(), bytes, list, list)
    server.close()
    assert not any(thread.name in ("metrics", "health") for thread in threading.enumerate())
    with contextlib.closing(Server(settings(port=server.port), bytes, list, list)) as again:
        assert again.port == server.port


def test_a_health_port_in_use_is_reported_and_the_checks_answer_beside_the_metrics() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        free, port = other.getsockname()[1], taken.getsockname()[1]
        other.close()
        with (
            capture_logs() as lines,
            contextlib.closing(Server(settings(port=free, health_port=port), bytes, list, list)) as server,
        ):
            answer = httpx.get(f"http://127.0.0.1:{free}/healthz")
            assert (server.health_port, answer.status_code) == (None, 200)
    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert f"metrics.health_port = {port}" in warning["error"]


@pytest.mark.parametrize("filled", [["port"], ["health_port"], ["port", "health_port"]])
def test_health_is_reported_beside_80_dripping_sockets(filled: list[str]) -> None:
    with (
        contextlib.closing(Server(settings(), bytes, list, lambda: ["not yet"])) as server,
        contextlib.ExitStack() as stack,
        httpx.Client(timeout=30) as client,
    ):
        for key in filled:
            stack.enter_context(connected(getattr(server, key), 80, b"GET / H"))
        for port in (server.port, server.health_port):
            assert client.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
            assert client.get(f"http://127.0.0.1:{port}/readyz").status_code == 503
        assert client.get(f"http://127.0.0.1:{server.health_port}/metrics").status_code == 404


def test_labels_are_readable_on_a_terminal() -> None:
    text = 'lag{group="a\x1b[2J\u202e\\\\b"} 1\n'
    with contextlib.closing(Server(settings(), text.encode, list, list)) as server:
        answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics").text
    assert answer == 'lag{group="a\\\\x1b[2J\\\\u202e\\\\b"} 1\n'
    (family,) = text_string_to_metric_families("# TYPE lag gauge\n" + answer)
    assert family.samples[0].labels == {"group": r"a\x1b[2J\u202e\b"}
