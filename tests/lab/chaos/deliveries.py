"""The relay killed around its calls: nothing is left unreported, and only a call in flight is made twice.

No JVM and no Kafka: the alerts of a modelled log are put into Delta, and `balancewatch relay --once` calls a webhook.
"""

import contextlib
import itertools
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from conf.settings import Settings
from schemas.tables import ALERTS
from streaming.cli import app
from streaming.warehouse.writer import DeltalakeWriter, append_rows
from tests.lab.chaos.history import Comparison, Outcome
from tests.lab.chaos.modelled_log import modelled_log
from tests.lab.chaos.place import ChaosError
from tests.lab.chaos.victim import Victim, environment
from tests.relay.fakes import FakeServer
from tests.support.engine import Stream
from tests.support.laboratory import say

RELAY = ("relay", "--once")

LOG_SECONDS = 300
"""A longer log has fewer alerts that still fire at its end, and only those are reported."""

CONFIG = """\
[[oncall.receivers]]
name = "hook"
type = "webhook"
url = "{url}"

[[oncall.routes]]
name = "all"
match = {{ severity = "*" }}
receivers = ["hook"]

[[oncall.routes]]
name = "rest"
receivers = ["hook"]
"""


@contextlib.contextmanager
def _relay(folder: Path, sites: int, seed: int) -> Iterator[tuple[Settings, FakeServer, dict[str, str]]]:
    """A warehouse with the alerts of some sites, a webhook, and the environment that sends the first to the second."""
    settings = Settings.load(paths={"warehouse": folder / "warehouse", "checkpoints": folder / "checkpoints"})
    folder.mkdir(parents=True)
    with FakeServer() as hook:
        config = folder / "oncall.toml"
        config.write_text(CONFIG.format(url=hook.url))
        extra = {"BALANCEWATCH_CONFIG": str(config)}
        _relay_once(settings, extra)  # an alert that is over before its first run is not notified
        rows = {ALERTS.name: list(_alerts(sites, seed))}
        append_rows(DeltalakeWriter(settings.paths.warehouse), rows, "chaos", 0)
        yield settings, hook, extra


def _alerts(sites: int, seed: int) -> Iterator[dict[str, Any]]:
    """The rows of one log, for each site as clusters of its own."""
    rows = Stream().feed(modelled_log(LOG_SECONDS, seed))[ALERTS.name]
    for site in range(sites):
        for row in rows:
            names = ("cluster", "alert_id", "incident_id", "inhibited_by")
            yield row | {name: f"{row[name]}-{site}" for name in names if row[name]}


def deliveries(folder: Path, point: str, passes: Sequence[int], seed: int, sites: int = 1) -> Outcome:
    """One relay, killed at each pass in turn, against one that is left alone. Each site has two or three calls."""
    with _relay(folder / f"{point}_reference", sites, seed) as (settings, hook, extra):
        _relay_once(settings, extra)
        reference = _keys(hook)
    with _relay(folder / point, sites, seed) as (settings, hook, extra):
        for number, nth in enumerate(passes, 1):
            victim = Victim(settings, folder / point / "relay.log", RELAY, trap=(point, nth), extra=extra)
            if (code := victim.wait()) != -signal.SIGKILL:
                raise ChaosError(f"pass {nth} of {point} was not met, the relay ended with {code}")
            say(f"{point}: kill {number} of {len(passes)}, {len(hook.received)} of {len(reference)} delivered")
        _relay_once(settings, extra)
        reported = _keys(hook)
    allowed = len(passes) if point == "after_post" else 0
    twice = Counter(reported) - Counter(set(reported))
    lost, extra_keys = Counter(reference) - Counter(reported), Counter(set(reported) - set(reference))
    remark = "" if twice.total() <= allowed else f"{twice.total()} delivered twice, {allowed} were in flight"
    if _order(reported) != _order(reference):
        remark = f"{remark} an incident's notices came in another order".strip()
    comparison = Comparison(len(reported), lost, extra_keys)
    return Outcome(point, len(passes), len(passes), comparison, remark, min(twice.total(), allowed))


def _relay_once(settings: Settings, extra: dict[str, str]) -> None:
    """In this process: only a relay that is killed needs one of its own."""
    ended = CliRunner().invoke(app, RELAY, env=environment(settings) | extra)
    if ended.exit_code:
        raise ChaosError(f"the relay ended with {ended.exit_code}: {ended.output}")


def _keys(hook: FakeServer) -> list[str]:
    """Return the key of each request, in order."""
    return [request.headers["idempotency-key"] for request in hook.received]


def _order(keys: Sequence[str]) -> dict[str, list[str]]:
    """Each incident's keys in the order they came first."""
    first = dict.fromkeys(keys)
    by_incident = sorted(first, key=_incident)
    return {incident: list(of) for incident, of in itertools.groupby(by_incident, key=_incident)}


def _incident(key: str) -> str:
    return key.split(":", maxsplit=1)[0]
