"""The endpoint over real HTTP: pages, reasons, the token, and an address that cannot be had."""

import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from structlog.testing import capture_logs

from conf.metrics import Metrics
from conf.section import SettingsError
from conf.settings import Settings
from streaming.metrics.exporter import Exporter
from streaming.metrics.server import TEXT, Endpoint, Server, read_token

reasons: dict[str, list[str]] = {"alive": [], "ready": []}


def settings(**keys: Any) -> Metrics:
    return Settings.load(metrics={"port": 0, **keys}).metrics


@pytest.fixture
def url() -> Iterator[str]:
    reasons.update(alive=[], ready=["Spark is starting"])
    endpoint = Endpoint(Exporter().text, lambda: reasons["alive"], lambda: reasons["ready"])
    with Server(settings(), endpoint) as server:
        yield f"http://127.0.0.1:{server.port}"


def test_metrics_are_prometheus_text(url: str) -> None:
    answer = httpx.get(f"{url}/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == TEXT
    assert "balancewatch_build_info{" in answer.text


def test_what_is_wrong_is_a_503_with_its_reasons(url: str) -> None:
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "reasons": []}
    starting = httpx.get(f"{url}/readyz")
    assert (starting.status_code, starting.json()) == (503, {"status": "failing", "reasons": ["Spark is starting"]})
    reasons.update(alive=["the thread relay is dead"], ready=[])
    assert httpx.get(f"{url}/healthz").status_code == 503
    assert httpx.get(f"{url}/readyz").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/", 404), ("POST", "/metrics", 405), ("HEAD", "/metrics", 200)]
)
def test_only_three_pages_and_only_to_read(url: str, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, url + path)
    assert answer.status_code == status
    assert bool(answer.text) == (method != "HEAD")


def test_a_token_guards_the_metrics_and_not_the_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", "let-me-in")
    wanted = settings(**{"token_env": "SCRAPE_TOKEN"})
    with Server(wanted, Endpoint(lambda: b"", list, list, read_token(wanted))) as server:
        url = f"http://127.0.0.1:{server.port}"
        shown = [None, "Bearer wrong", "Basic let-me-in", "Bearer let-me-in", "Bearer lét"]
        codes = [
            httpx.get(f"{url}/metrics", headers={} if one is None else {"Authorization": one.encode()}).status_code
            for one in shown
        ]
        assert codes == [401, 401, 401, 200, 401]
        assert httpx.get(f"{url}/readyz").status_code == 200


def test_a_token_that_the_environment_lacks_stops_the_start() -> None:
    with pytest.raises(SettingsError, match=r"metrics\.token_env = 'NOT_THERE': the environment variable NOT_THERE"):
        read_token(settings(**{"token_env": "NOT_THERE"}))


@pytest.mark.parametrize("key", ["port", "relay_port"])
def test_a_port_in_use_stops_the_start_with_key_and_value(key: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"metrics\.{key} = {port} .*'127\.0\.0\.1'.*in use.*name another"):
            Server(settings(**{key: port}), Endpoint(bytes, list, list), key=key)


@pytest.mark.parametrize("host", ["no such host", "\x00", "x" * 200])
def test_a_host_that_is_none_stops_the_start(host: str) -> None:
    with pytest.raises(SettingsError, match=r"metrics\.host = " + re.escape(repr(host))):
        Server(settings(host=host), Endpoint(bytes, list, list))


def test_a_token_that_no_scraper_can_show_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRAPE_TOKEN", "lét-me-in")
    with pytest.raises(SettingsError, match=r"metrics\.token_env = 'SCRAPE_TOKEN': .*ASCII") as refused:
        read_token(settings(**{"token_env": "SCRAPE_TOKEN"}))
    assert "lét" not in str(refused.value)


def test_a_port_is_free_again_when_the_server_is_closed() -> None:
    server = Server(settings(), Endpoint(bytes, list, list))
    server.close()
    assert not server._thread.is_alive()
    with Server(settings(port=server.port), Endpoint(bytes, list, list)) as again:
        assert again.port == server.port


def test_a_health_port_in_use_is_reported_and_the_checks_answer_beside_the_metrics() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.create_server(("127.0.0.1", 0)) as other:
        free, port = other.getsockname()[1], taken.getsockname()[1]
        other.close()
        with capture_logs() as lines, Server(settings(port=free, health_port=port), Endpoint(bytes, list, list)) as one:
            assert (one.health_port, httpx.get(f"http://127.0.0.1:{free}/healthz").status_code) == (None, 200)
    (warning,) = [line for line in lines if line["log_level"] == "warning"]
    assert f"metrics.health_port = {port}" in warning["error"]


def test_labels_are_made_visible_for_who_reads_the_metrics_on_a_terminal() -> None:
    text = 'lag{group="a\x1b[2J\u202e\\\\b"} 1\n'
    with Server(settings(), Endpoint(text.encode, list, list)) as server:
        answer = httpx.get(f"http://127.0.0.1:{server.port}/metrics").text
    assert answer == 'lag{group="a\\\\x1b[2J\\\\u202e\\\\b"} 1\n'
    (family,) = text_string_to_metric_families("# TYPE lag gauge\n" + answer)
    assert family.samples[0].labels == {"group": r"a\x1b[2J\u202e\b"}
