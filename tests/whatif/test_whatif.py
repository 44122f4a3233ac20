"""The whatif command: its state from Delta or a file, its output and its errors; no JVM, no Kafka."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from streaming.cli import app
from streaming.whatif.whatif_command import read_file, read_group, save_file
from tests.history import warehouse_stage
from tests.history.warehouse_stage import Row, assignment, write

IDS = ("10.0.0.1@7", "10.0.0.2@7")


def member(client_id: str, second: int = 0, change: str = "JOINED", **columns: Any) -> Row:
    row = {"client_version": "V4_9_8", "strategy": None, "topics": ["%RETRY%billing", "orders"]}
    return warehouse_stage.member(client_id, change, second, **(row | columns))


def queue(broker_name: str, queue_id: int, verdict: str = "UNKNOWN", second: int = 0, **columns: Any) -> Row:
    row = {"broker_name": broker_name, "planned_owner": IDS[0], "observed_owners": []}
    return assignment(queue_id, verdict, second, **(row | columns))


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """billing: four queues on each of two brokers; broker-a lists two members, broker-b one, others have left."""
    members = [member(cid) for cid in (*IDS, "10.0.0.3@7", "10.0.0.4@7")]
    first = {
        "memberships": [*members, member(IDS[0], broker_name="broker-b")],
        "assignments": [
            *(queue(name, queue_id) for name in ("broker-b", "broker-a") for queue_id in range(4)),
            queue("broker-a", 0, topic="%RETRY%billing"),
            queue("broker-a", 0, consumer_group="audit", cluster="d"),
        ],
    }
    second = {
        "memberships": [
            member("10.0.0.3@7", 5, change="LEFT"),
            member("10.0.0.4@7", 6, change="EXPIRED"),
            member(IDS[1], 7, change="CHANGED", strategy="AVG_BY_CIRCLE"),
            member(IDS[1], 3, change="CHANGED", topics=[]),  # written late: event time decides
        ],
        "assignments": [queue("broker-a", 0, "OK", 9)],
    }
    return write(tmp_path_factory.mktemp("warehouse"), first, second)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["whatif", *map(str, arguments)])


def report(*arguments: str | Path) -> dict[str, Any]:
    result = invoke(*arguments, "--format", "json")
    assert result.exit_code == 0, result.output
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def of(warehouse: Path, *changes: str) -> tuple[str | Path, ...]:
    return ("--warehouse", warehouse, "--group", "billing", "--topic", "orders", *changes)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two clients, AVG, four queues on each of two brokers."""
    path = tmp_path / "state.json"
    path.write_text(
        json.dumps(
            {
                "consumer_group": "billing",
                "topic": "orders",
                "queues": {"broker-a": 4, "broker-b": 4},
                "clients": [{"client_id": client_id} for client_id in IDS],
            }
        )
    )
    return path


def test_the_newest_rows_of_delta_are_the_state(warehouse: Path) -> None:
    group, notes = read_group(warehouse, "billing", "orders", None, "AVG")
    assert [(mq.broker_name, mq.queue_id) for mq in group.queues] == [
        (name, queue_id) for name in ("broker-a", "broker-b") for queue_id in range(4)
    ]
    assert {client.client_id: client.strategy for client in group.clients} == dict(
        zip(IDS, (None, "AVG_BY_CIRCLE"), strict=True)
    )
    assert all(client.subscribes("orders") for client in group.clients)
    assert {client.client_version for client in group.clients} == {"V4_9_8"}
    assert group.strategy == "AVG_BY_CIRCLE"
    assert notes == ["The brokers list different members. This result uses broker-a's list (2); broker-b lists 1."]


def test_the_setting_s_strategy_is_assumed_when_no_client_has_reported_its_own(tmp_path: Path) -> None:
    rows = {"memberships": [member(IDS[0])], "assignments": [queue("broker-a", 0, verdict="NOT_JUDGED")]}
    group, notes = read_group(write(tmp_path, rows), "billing", "orders", None, "CONSISTENT_HASH")
    assert group.strategy == "CONSISTENT_HASH"
    assert notes[0] == "No client has reported its strategy; CONSISTENT_HASH is assumed."
    assert notes[1].startswith("The verdict of these queues is NOT_JUDGED:")


def test_a_group_without_members_starves(tmp_path: Path) -> None:
    rows = {"memberships": [member(IDS[0], change="LEFT")], "assignments": [queue("broker-a", 0)]}
    read = report(*of(write(tmp_path, rows)))
    assert read["after"]["starved"] == [{"queue": "broker-a:0", "cause": "group_offline", "client_id": None}]


def test_twins_in_delta_are_two_channels(tmp_path: Path) -> None:
    twins = [member("A", client_addr=f"10.0.0.{host}:5") for host in (1, 2)]
    rows = {"memberships": [*twins, member("B")], "assignments": [queue("broker-a", number) for number in range(8)]}
    read = report(*of(write(tmp_path, rows)))
    assert [one["queue"] for one in read["after"]["starved"]] == ["broker-a:3", "broker-a:4", "broker-a:5"]
    assert [one["client"] for one in read["after"]["clients"]] == ["A", "A (2)", "B"]


def test_a_saved_state_gives_the_same_answer(warehouse: Path, tmp_path: Path) -> None:
    saved = tmp_path / "saved.json"
    changes = ("--twin", IDS[0], "--add-broker", "broker-c=2")
    live = report(*of(warehouse, *changes, "--save", str(saved)))
    again = report("--file", saved, *changes)
    assert live["notes"]
    assert {**live, "notes": []} == again


def test_every_field_of_a_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    spec = {
        "cluster": "c",
        "consumer_group": "billing",
        "topic": "orders",
        "strategy": "MACHINE_ROOM",
        "consumer_idcs": ["sh"],
        "virtual_nodes": 3,
        "queues": {"sh@a": 2, "hz@b": [5, 7]},
        "broker_rooms": {"sh@a": "sh", "hz@b": "hz"},
        "clients": [
            {"client_id": "A", "client_version": "4.7.1", "room": "sh", "topics": ["orders"]},
            {"client_id": "B", "strategy": "CONFIG", "config_queues": ["hz@b:7"], "topics": None},
            {"client_id": "C", "topics": ["payments"]},
        ],
    }
    path.write_text(json.dumps(spec))
    save_file(tmp_path / "again.json", read_file(path))
    assert read_file(tmp_path / "again.json") == read_file(path)
    read = report("--file", path)
    shares = {client["client"]: client["queues"] for client in read["before"]["clients"]}
    assert shares == {"A": ["sh@a:0"], "B": ["hz@b:7"], "C": []}
    assert [one["queue"] for one in read["before"]["starved"]] == ["hz@b:5", "sh@a:1"]
    nearby = report(
        "--file", path, "--strategy", "MACHINE_ROOM_NEARBY-AVG", "--remove-client", "B", "--remove-client", "C"
    )
    assert nearby["after"]["clients"][0]["queues"] == ["sh@a:0", "sh@a:1", "hz@b:5", "hz@b:7"]


@pytest.mark.parametrize(
    ("changes", "verdict"),
    [
        ([], "Nothing starves."),
        (["--add-client", "x", "--add-client", "y"], "Nothing starves, 6 move to another client."),
        (["--remove-client", IDS[0]], "Nothing starves, 4 move to another client."),
        (["--twin", IDS[0]], "3 of 8 queues starve, 3 are consumed twice, none move to another client."),
        (["--unsubscribe", IDS[0]], "4 of 8 queues starve, none move to another client."),
        (["--add-broker", "broker-c"], "Nothing starves, 2 move to another client."),
        (["--remove-broker", "broker-a"], "Nothing starves, 2 move to another client."),
        (["--queues", "8"], "Nothing starves, none move to another client."),
        (["--queues", "broker-b=2"], "Nothing starves, 1 moves to another client."),
        (["--strategy", "AVG_BY_CIRCLE"], "Nothing starves, 4 move to another client."),
        (
            ["--strategy", f"{IDS[1]}=AVG_BY_CIRCLE"],
            "2 of 8 queues starve, 2 are consumed twice, none move to another client.",
        ),
        (
            ["--strategy", "CONSISTENT_HASH", "--virtual-nodes", "0"],
            "8 of 8 queues starve, none move to another client.",
        ),
        (["--strategy", "MACHINE_ROOM", "--consumer-idc", "sh"], "8 of 8 queues starve, none move to another client."),
    ],
)
def test_changes(state: Path, changes: list[str], verdict: str) -> None:
    result = invoke("--file", state, *changes)
    assert result.stdout.splitlines()[0] == verdict
    assert report("--file", state, *changes)["verdict"] == verdict


def test_people_get_the_queues_of_each_client_and_what_changes(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    lines = invoke("--file", state, "--twin", IDS[1]).stdout.splitlines()
    assert max(map(len, lines)) <= 110
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert cells == [
        [IDS[0], "4: broker-a:0-3", "3: broker-a:0-2"],
        [IDS[1], "4: broker-b:0-3", "3: broker-a:3 and broker-b:0-1"],
        [f"{IDS[1]} (2)", "absent", "3: broker-a:3 and broker-b:0-1"],
        ["broker-a:3", IDS[0], f"{IDS[1]} and {IDS[1]} (2)", "taken twice"],
        ["broker-b:0-1", IDS[1], f"{IDS[1]} and {IDS[1]} (2)", "taken twice"],
        ["broker-b:2-3", IDS[1], "none", "no client: duplicate_client_id"],
    ]


def test_csv_has_a_row_a_queue(state: Path) -> None:
    head, *rows = invoke("--file", state, "--twin", IDS[0], "--format", "csv").stdout.splitlines()
    assert head == "broker_name,queue_id,before,after,change,cause,cause_client_id"
    assert len(rows) == 8
    assert rows[0] == f"broker-a,0,{IDS[0]},{IDS[0]} {IDS[0]} (2),doubled,,"
    assert rows[3] == f"broker-a,3,{IDS[0]},,starved,duplicate_client_id,{IDS[0]}"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "give either --group and --topic, or --file"),
        (["--group", "billing"], "give either --group and --topic, or --file"),
        (["--file", "STATE", "--group", "billing"], "give either --group and --topic, or --file"),
        (["--file", "STATE", "--format", "yaml"], "--output 'yaml': choose table, json or csv"),
        (
            ["--file", "nowhere.json"],
            "--file nowhere.json: No such file or directory; `balancewatch whatif --save",
        ),
        (["--file", "STATE", "--save", "STATE"], "File exists; name another file"),
        (
            ["--file", "STATE", "--remove-client", "x"],
            f"group billing has no client x on topic orders; it has {IDS[0]}",
        ),
        (["--file", "STATE", "--add-broker", "x=many"], "--add-broker 'many' is not a number of queues"),
        (["--file", "STATE", "--queues", "x"], "--queues 'x' is not a number of queues"),
        (["--file", "STATE", "--strategy", "SWAY"], "strategy 'SWAY' of group 'billing' is not one of AVG"),
        (["--file", "STATE", "--strategy", "CONFIG"], "only client 10.0.0.1@7 knows the queues that CONFIG gives it"),
        (
            ["--file", "STATE", "--client-version", "new"],
            "--client-version 'new' is not a RocketMQ release such as 4.9.8",
        ),
    ],
)
def test_an_error_is_one_sentence_that_names_the_value(arguments: list[str], sentence: str, state: Path) -> None:
    result = invoke(*(str(state) if argument == "STATE" else argument for argument in arguments))
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"topic": None}, "Expected `str`, got `null` - at `$.topic`"),
        ({"queues": {"a": -1}}, "`$.queues[...]`"),
        ({"clients": [{"client_id": "A", "topic": []}]}, "unknown field `topic` - at `$.clients[0]`"),
        ({"clients": [{"client_id": ""}]}, "`$.clients[0].client_id`"),
        ({"clients": [{"client_id": "A", "config_queues": ["a"]}]}, "`$.clients[0].config_queues[0]`"),
    ],
)
def test_a_file_that_is_no_state_says_where(state: Path, wrong: dict[str, Any], sentence: str) -> None:
    state.write_text(json.dumps(json.loads(state.read_text()) | wrong))
    result = invoke("--file", state)
    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--group", "bill", "--topic", "orders"], "--group 'bill' does not exist; nearest: billing"),
        (
            ["--group", "billing", "--topic", "x"],
            "--topic 'x': group billing of cluster c has no queue of it; known: %RETRY%billing, orders",
        ),
        (
            ["--group", "billing", "--topic", "orders", "--cluster", "d"],
            "--cluster 'd' has no group billing; it is in c",
        ),
    ],
)
def test_an_unknown_name_is_reported_with_the_known_ones(warehouse: Path, arguments: list[str], sentence: str) -> None:
    result = invoke("--warehouse", warehouse, *arguments)
    assert (result.exit_code, len(result.stderr.splitlines())) == (1, 1)
    assert sentence in result.stderr


def test_a_group_of_two_clusters_needs_the_cluster(tmp_path: Path) -> None:
    rows = [queue("broker-a", 0), queue("broker-a", 0, cluster="d")]
    root = write(tmp_path, {"assignments": rows, "memberships": [member("A"), member("B", cluster="d")]})
    result = invoke(*of(root))
    assert (result.exit_code, "choose one with --cluster: c, d" in result.stderr) == (2, True)
    assert report(*of(root, "--cluster", "d"))["before"]["clients"][0]["client_id"] == "B"


def test_no_tables_is_a_failure_that_names_the_setting(tmp_path: Path) -> None:
    result = invoke(*of(tmp_path / "nowhere"))
    assert result.exit_code == 1
    assert " found; has `balancewatch run` written here?" in result.stderr
