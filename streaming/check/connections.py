"""`balancewatch check --connect`: whether Kafka, RocketMQ, tables, checkpoints and receivers can be used.

All checks run at once, each in a thread; none sends an alert or an event. Only a write shows a read-only mount, a quota
or a bucket's policy, so each folder gets a nameless temporary file and a bucket an object, which is deleted.
"""

import logging
import os
import queue
import re
import shutil
import socket
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any, Literal

import obstore
from deltalake.exceptions import DeltaError, TableNotFoundError
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource
from kafka.errors import KafkaError
from obstore.exceptions import BaseError
from rich.text import Text
from tenacity import Retrying, stop_after_attempt

from conf.location import Location, is_store
from conf.settings import Kafka, Settings
from schemas.contract import MAX_BYTES
from schemas.events import CLOCKS, EVENTS, HEARTBEATS, PULLS, ROUTES, SEND_LATENCIES
from schemas.tables import TABLES
from streaming.collector.access import are_keys_refused, explain_refusal, explain_tls, is_refused
from streaming.collector.known_brokers import pick_cluster
from streaming.collector.rocketmq_admin import RocketMQAdmin
from streaming.collector.rocketmq_answers import Broker
from streaming.collector.rocketmq_jvm import RocketMQError
from streaming.kafka_io.topics import new_topic, open_admin
from streaming.logs.logs import mask
from streaming.relay.receivers import make_receivers
from streaming.relay.receivers.posting import HttpReceiver, Receiver
from streaming.spark.jars import folder_of
from streaming.system.known_error import BalancewatchError
from streaming.text.console import VisibleConsole
from streaming.warehouse.delta_log import in_one_line
from streaming.warehouse.table_store import REACH_PATIENCE, StoreUnreachableError, reach, store_of, why_not
from streaming.warehouse.tables import open_delta, table_path

MOST_SECONDS = 30.0
"""Time limit of all checks together. The longest wait is for RocketMQ's admin client, a JVM."""

KAFKA_MS = 5_000
TCP_SECONDS = 3.0
MOST_GROUPS = 10
"""Groups whose members each broker is asked for."""

LEAST_FREE_BYTES = 1 << 30
"""Less free space fails: a checkpoint and its state take a few hundred MB."""

NO_TOPIC, AUTHORIZATION_FAILED = 3, 29
"""Kafka's error codes of a topic."""

STYLES = {"ok": "green", "failed": "bold red", "skipped": "yellow"}


@dataclass(frozen=True)
class Finding:
    """The result of one check. The text of a failure says what to change."""

    subject: str
    outcome: Literal["ok", "failed", "skipped"]
    text: str


def judged(subject: str, why_not: str, text: str) -> Finding:
    return Finding(subject, "failed" if why_not else "ok", why_not or text)


def try_connections(settings: Settings, *, is_shown: bool) -> list[Finding]:
    """Run all checks; print each finding when it is made, if `is_shown`. A terminal also shows what is not finished."""
    is_terminal = sys.stdout.isatty() if is_shown else sys.stderr.isatty()
    console, found = VisibleConsole(stderr=not is_shown, force_terminal=is_terminal), []
    with console.status("") as status:
        for finding in _run(CHECKS, settings, lambda names: status.update(f"checking {names}")):
            found.append(finding)
            if is_shown:
                outcome = Text(finding.outcome.ljust(8), style=STYLES[finding.outcome])
                console.print(Text.assemble(outcome, f"{finding.subject}: {finding.text}"), soft_wrap=True)
    return found


Check = Callable[[Settings], Iterable[Finding]]


def _run(checks: Mapping[str, Check], settings: Settings, show: Callable[[str], None]) -> Iterator[Finding]:
    """Yield the findings in the order in which they are made, for at most MOST_SECONDS."""
    made: queue.SimpleQueue[tuple[str, Finding | None]] = queue.SimpleQueue()

    def work(name: str, check: Check) -> None:
        try:
            for finding in check(settings):
                made.put((name, finding))
        except Exception as error:  # such as a damaged certificate in kafka.options
            made.put((name, Finding(name, "failed", f"{type(error).__name__}: {mask(in_one_line(error))}")))
        made.put((name, None))

    for each in checks.items():
        threading.Thread(target=work, args=each, daemon=True).start()
    running, deadline = dict(checks), time.monotonic() + MOST_SECONDS
    while running:
        show(", ".join(running).replace("RocketMQ", "RocketMQ (starts a JVM)"))
        try:
            name, finding = made.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            for name in running:
                yield Finding(name, "failed", f"no result within {MOST_SECONDS:g} s; check the network and the disk")
            return
        if finding is None:
            del running[name]
        else:
            yield finding


def check_kafka(settings: Settings) -> Iterator[Finding]:
    kafka = settings.kafka
    if not kafka.bootstrap_servers:
        yield Finding("Kafka", "skipped", "kafka.bootstrap_servers is empty; `run` and `collect` need it")
        return
    with _kafka_lines() as lines:
        try:
            with closing(open_admin(kafka, request_timeout_ms=KAFKA_MS, bootstrap_timeout_ms=KAFKA_MS)) as admin:
                brokers = admin.describe_cluster()["brokers"]
                with ThreadPoolExecutor(8) as threads:
                    why = next(filter(None, threads.map(_why_no_broker, brokers)), "")
                yield judged("Kafka", why, f"{kafka.bootstrap_servers} answers; brokers reached: {len(brokers)}")
                yield from _check_topics(settings, admin)
        except KafkaError as error:
            yield Finding("Kafka", "failed", _explain_kafka(kafka, error, lines))


@contextmanager
def _kafka_lines() -> Iterator[list[logging.LogRecord]]:
    """Collect the log of kafka-python, the only place where it says why a connection fails."""
    library, kept = logging.getLogger("kafka"), BufferingHandler(1_000_000)
    library.addHandler(kept)
    library.propagate = False
    try:
        yield kept.buffer
    finally:
        library.propagate = True
        library.removeHandler(kept)


_LOST = re.compile(r"Connection (?:failed|lost): (?:KafkaConnectionError: |\[Error \d+\] )?(.+)")


def _explain_kafka(kafka: Kafka, error: KafkaError, lines: Sequence[logging.LogRecord]) -> str:
    said = Counter(found[1] for line in lines if (found := _LOST.search(line.getMessage())))
    why = mask(said.most_common(1)[0][0] if said else str(error))
    fix = "kafka.bootstrap_servers and the network"
    if said and not ("ECONN" in why or "DNS" in why):
        fix = f"kafka.options: security.protocol is {kafka.options.get('security.protocol', 'PLAINTEXT')}"
    return f"no broker answers at {kafka.bootstrap_servers} ({why}); check {fix}"


def _why_no_broker(broker: Mapping[str, Any]) -> str:
    """Connect to the address that a broker advertises, which clients use after the first request; return why not."""
    host, port = broker["host"], broker["port"]
    try:
        socket.create_connection((host, port), TCP_SECONDS).close()
    except OSError as error:
        where = f"broker {broker['broker_id']} advertises {host}:{port}, which cannot be reached from here"
        return f"{where} ({error.strerror or error}); check its advertised.listeners and the network"
    return ""


def _check_topics(settings: Settings, admin: KafkaAdminClient) -> Iterator[Finding]:
    topics = {topic["name"]: topic for topic in admin.describe_topics(sorted(EVENTS))}
    hidden = [name for name, topic in topics.items() if topic["error_code"] == AUTHORIZATION_FAILED]
    missing = [name for name, topic in topics.items() if topic["error_code"] == NO_TOPIC]
    why = f"the user may not see {', '.join(hidden)}; grant it Describe" if hidden else ""
    if missing:
        wanted = [new_topic(settings.kafka, name) for name in missing]
        for made in admin.create_topics(wanted, validate_only=True, raise_errors=False)["topics"]:
            if made["error_code"]:
                fix = "Create it by hand, grant the user Create, or correct kafka.replication_factor"
                why = why or f"{made['name']} is missing and may not be created: {made['error_message']} {fix}"
    more = f"; `run` may create the other {len(missing)}" if missing else ""
    yield judged("Kafka topics", why, f"{len(topics) - len(missing)} of {len(topics)} exist{more}")
    known = {name: topic["authorized_operations"] for name, topic in topics.items() if name not in missing}
    rights = {name: rights or [] for name, rights in known.items() if rights is not None or name in hidden}
    canary = (HEARTBEATS, ROUTES) if settings.canary.interval_seconds else ()
    yield judge_rights("run", EVENTS, {CLOCKS, *canary}, rights)
    if settings.collector.name_server:
        probe = (SEND_LATENCIES,) if settings.collector.probe else ()
        yield judge_rights("collect", {CLOCKS}, {CLOCKS, HEARTBEATS, PULLS, ROUTES, *probe}, rights)
    resources = [ConfigResource("TOPIC", name) for name in sorted(known)]
    found = admin.describe_configs(resources, config_filter="all")["topic"] if resources else {}
    values = {name: {key: config["value"] for key, config in of.items()} for name, of in found.items() if of}
    yield judge_topic_settings(values)


def judge_rights(
    command: str, read: Iterable[str], written: Iterable[str], rights: Mapping[str, Sequence[str]]
) -> Finding:
    """Compare the rights by topic with what the command needs. Of a topic without an entry they are unknown."""
    subject = f"Kafka rights of `{command}`"
    if not rights:
        return Finding(subject, "skipped", "unknown before the topics exist, and before Kafka 2.3")
    needs = [("Read", name) for name in sorted(read)] + [("Write", name) for name in sorted(written)]
    lacking = [f"{right} on {name}" for right, name in needs if right.upper() not in rights.get(name, (right.upper(),))]
    why = f"the user lacks {', '.join(lacking)}; grant them" if lacking else ""
    return judged(subject, why, "the user may read and write all that it needs")


def judge_topic_settings(values: Mapping[str, Mapping[str, str]]) -> Finding:
    """Judge the settings by topic, which are readable with DescribeConfigs."""
    subject, key = "Kafka message size", "max.message.bytes"
    if not values:
        return Finding(subject, "skipped", "no topic exists yet, or the user lacks DescribeConfigs")
    name = min(values, key=lambda name: int(values[name][key]))
    text = f"{name} takes {int(values[name][key]):,} bytes, events have up to {MAX_BYTES:,}"
    return judged(subject, f"{text}; raise its {key}" if int(values[name][key]) < MAX_BYTES else "", text)


def check_rocketmq(settings: Settings) -> Iterator[Finding]:
    collector = settings.collector
    if not collector.name_server:
        yield Finding("RocketMQ", "skipped", "collector.name_server is empty; only `collect` needs it")
        return
    if not folder_of("rocketmq", settings.paths.jars).is_dir():
        yield Finding("RocketMQ", "skipped", "its jars are missing; the first start of `collect` downloads them")
        return
    try:
        with closing(RocketMQAdmin(collector, settings.paths.jars)) as admin, ThreadPoolExecutor(8) as threads:
            servers = collector.name_server.split(";")
            reasons = list(threads.map(lambda server: _why_no_name_server(settings, admin, server), servers))
            for server, why in zip(servers, reasons, strict=True):
                yield judged(f"NameServer {server}", why, "answers")
            if all(reasons):
                return
            retrying = Retrying(stop=stop_after_attempt(len(servers)), reraise=True)  # each asks the next NameServer
            cluster, brokers = pick_cluster(retrying(admin.read_clusters), collector.cluster)
            reasons = list(threads.map(lambda broker: _why_not_read(settings, admin, broker), brokers))
            for broker, why in zip(brokers, reasons, strict=True):
                if why:
                    yield Finding(f"broker {broker.broker_name}", "failed", why)
            text = f"{reasons.count('')} of {len(brokers)} in cluster {cluster} permit what `collect` reads"
            yield judged("RocketMQ brokers", "" if "" in reasons else text, text)
    except BalancewatchError as error:
        yield Finding("RocketMQ", "failed", str(error))


def _why_no_name_server(settings: Settings, admin: RocketMQAdmin, server: str) -> str:
    try:
        admin.ask_name_server(server)
    except RocketMQError as error:
        return explain_tls(settings.collector, server) or f"{error}; check collector.name_server and the network"
    return ""


def _why_not_read(settings: Settings, admin: RocketMQAdmin, broker: Broker) -> str:
    """Ask a broker what a poll round asks; return why it does not answer."""
    what = "its list of groups"
    try:
        groups = settings.collector.groups or list(admin.read_groups(broker))
        what = "its producers"
        admin.read_producers(broker)
        for group in groups[:MOST_GROUPS]:
            what = f"the members of {group}"
            admin.read_consumer_connection(broker, group)
    except RocketMQError as error:
        if are_keys_refused(error):
            return explain_refusal(settings.collector, error)
        if is_refused(error):
            return f"refuses {what}; grant the user Get on Cluster:* and Group:*"
        return f"{broker.address} does not answer ({error}); check the broker and the network"
    return ""


def check_tables(settings: Settings) -> Iterator[Finding]:
    warehouse = settings.paths.warehouse
    why, free = _try_place("paths.warehouse", warehouse)
    opened = 0
    for path in [] if why else [table_path(warehouse, name) for name in TABLES]:
        try:
            open_delta(path)
            opened += 1
            if not is_store(path) and not os.access(path, os.W_OK):
                why = f"{path} is not writable; change its owner to the user of `run`"
        except TableNotFoundError:
            continue
        except (DeltaError, OSError) as error:
            why = f"{path} cannot be opened ({in_one_line(error)}); restore it from a backup"
    yield judged("tables", why, f"{warehouse} is writable{free}; {opened} of {len(TABLES)} tables exist and open")


def check_checkpoints(settings: Settings) -> Iterator[Finding]:
    why, free = _try_place("paths.checkpoints", settings.paths.checkpoints)
    yield judged("checkpoints", why, f"{settings.paths.checkpoints} is writable{free}")


def _try_place(key: str, place: Location) -> tuple[str, str]:
    return _try_store(key, str(place)) if is_store(place) else _try_folder(key, Path(place))


def _try_folder(key: str, given: Path) -> tuple[str, str]:
    """Write a nameless file to the folder, or to the nearest one that exists; return why not, and the free space."""
    folder = given.expanduser().resolve()
    nearest = next(each for each in (folder, *folder.parents) if each.exists())
    try:
        next(nearest.iterdir(), None)
        with tempfile.TemporaryFile(dir=nearest) as file:
            file.write(b"balancewatch check")
        free = shutil.disk_usage(nearest).free
    except OSError as error:
        why = f"{nearest} cannot be read or written ({error.strerror}); change its owner, or set another folder"
        return f"{key} = {given}: {why}", ""
    why = f"{key} = {given}: only {free >> 20:,} MB are free; free space" if free < LEAST_FREE_BYTES else ""
    return why, f", {free >> 30:,} GB free"


def _try_store(key: str, place: str) -> tuple[str, str]:
    """Write an object to the bucket and delete it; return why not."""
    name = f"balancewatch-check-{uuid.uuid4().hex}"
    try:
        reach(place, key)
        store = store_of(place, REACH_PATIENCE)
        obstore.put(store, name, b"balancewatch check")
        obstore.delete(store, name)
    except StoreUnreachableError as error:
        return str(error), ""
    except (BaseError, OSError) as error:
        return why_not(place, f"{type(error).__name__} {error}", key), ""
    return "", ""


def check_receivers(settings: Settings) -> Iterator[Finding]:
    receivers = make_receivers(settings.oncall).values()
    with ThreadPoolExecutor(len(receivers)) as threads:
        yield from threads.map(_try_receiver, receivers)


def _try_receiver(receiver: Receiver) -> Finding:
    subject = f"receiver {receiver.name}"
    if not isinstance(receiver, HttpReceiver):
        return Finding(subject, "skipped", "it writes to the log")
    why = receiver.try_connection()
    fix = f"{why}; check its address in [oncall] and the network" if why else ""
    return judged(subject, fix, f"{receiver.host} accepts connections")


CHECKS: Mapping[str, Check] = {
    "Kafka": check_kafka,
    "RocketMQ": check_rocketmq,
    "tables": check_tables,
    "checkpoints": check_checkpoints,
    "receivers": check_receivers,
}
