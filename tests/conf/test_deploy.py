"""conf/deploy: what it starts, sets and probes is what there is, and each file passes its linter."""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import click
import pytest
from ruamel.yaml import YAML
from typer.main import get_command
from typer.testing import CliRunner

from conf.settings import Settings
from streaming.cli import COMMANDS, app
from tests.support.offenders import assert_none

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "conf" / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
DOCKERFILE = DEPLOY / "Dockerfile"
BASE = DEPLOY / "kubernetes"
MANIFEST = BASE / "balancewatch.yml"
COMPOSE = DEPLOY / "compose.yml"
WORKFLOW = ROOT / ".github" / "workflows" / "ci.yml"
PROGRAM = "/opt/balancewatch/bin/balancewatch"


def unit(path: Path) -> RawConfigParser:
    """Keys as they are written; of a repeated one the last."""
    parser = RawConfigParser(strict=False, allow_no_value=True, delimiters=("=",))
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # the way that the standard library documents
    parser.read(path)
    return parser


def command_of(path: Path) -> list[str]:
    """What a unit starts, its program left out."""
    program, *words = unit(path)["Service"]["ExecStart"].split()
    assert program == PROGRAM
    return words


def environment_of(text: str) -> dict[str, str]:
    """NAME=value lines, those that are commented out too."""
    found = re.findall(r"(?m)^#? ?([A-Z][A-Z0-9_]+)=(.*)$", text)
    return {name: value.strip("'\"") for name, value in found}


def dockerfile_environment() -> dict[str, str]:
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line.removeprefix("ENV ") for line in text.splitlines() if line.startswith("ENV ")]
    return {name: value.strip('"') for line in lines for name, value in re.findall(r"(\w+)=(\S+)", line)}


def objects() -> dict[str, Any]:
    """The manifest's objects, by kind and name."""
    found = [one for one in YAML(typ="safe").load_all(MANIFEST.read_text()) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in found}


def pods() -> dict[str, Any]:
    """The pod's spec of each workload of the manifest."""
    specs = {}
    for name, one in objects().items():
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            specs[name] = spec["template"]["spec"]
    return specs


def containers() -> Iterator[tuple[str, Any]]:
    for name, pod in pods().items():
        for one in pod["containers"]:
            yield f"{name}/{one['name']}", one


def read_yaml(path: Path) -> Any:
    return YAML(typ="safe").load(path)


def services() -> dict[str, Any]:
    """The services of compose.yml, as Compose merges them."""
    found: dict[str, Any] = read_yaml(COMPOSE)["services"]
    return found


def our_services() -> dict[str, Any]:
    return {name: one for name, one in services().items() if one["image"].startswith("balancewatch:")}


def tool(name: str) -> str:
    """Where a linter of the project's own environment is. Fails with what to do."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    return found or pytest.fail(f"no {name}: make setup")


SERVING = {"run", "relay", "board", "collect"}
WORST_EXPOSURE = 2.0
"""Of 10, by `systemd-analyze security`."""


def is_understood(words: list[str]) -> bool:
    """Whether the command line takes these words; nothing is run."""
    group: Any = get_command(app)
    context = group.make_context("balancewatch", list(words))
    name, *options = context._protected_args + context.args
    command = group.get_command(context, name)
    return command is not None and bool(command.make_context(name, options, parent=context))


def started() -> dict[str, list[str]]:
    """What each unit, container and the image start, by where it is said."""
    entry = re.findall(r'(?m)^(?:ENTRYPOINT|CMD) \["(\w+)"\]', DOCKERFILE.read_text())
    assert entry[0] == Path(PROGRAM).name
    return {
        **{path.name: command_of(path) for path in UNITS},
        **{name: one["args"] for name, one in containers()},
        **{f"compose/{name}": one["command"] for name, one in our_services().items()},
        "Dockerfile": entry[1:],
    }


def test_what_is_started_is_a_command_with_options_that_it_has() -> None:
    for where, words in started().items():
        try:
            assert is_understood(words), where
        except click.UsageError as error:
            pytest.fail(f"{where}: {error.format_message()}")
    commands = {word for words in started().values() for word in words if word in COMMANDS}
    assert commands == SERVING | {"maintain", "simulate"}


@pytest.mark.parametrize(
    "file", ["systemd/balancewatch.env", "systemd/board.env", "docker.env", "Dockerfile", MANIFEST.name, COMPOSE.name]
)
def test_every_variable_that_is_set_is_a_setting(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown ones that begin with BALANCEWATCH_ are refused when the settings are read."""
    if file == "Dockerfile":
        given = dockerfile_environment()
    elif file == MANIFEST.name:
        given = {one["name"]: one["value"] for _, container in containers() for one in container["env"]}
    elif file == COMPOSE.name:
        given = {name: value for one in our_services().values() for name, value in one["environment"].items()}
    else:
        given = environment_of((DEPLOY / file).read_text())
    assert given
    for name, value in given.items():
        if name.startswith("BALANCEWATCH_") and name != "BALANCEWATCH_CONFIG":
            monkeypatch.setenv(name, value or "x" * 16)
    Settings.load()
    monkeypatch.setenv("BALANCEWATCH_PATHS__NOT_THERE", "1")
    with pytest.raises(ValueError, match="NOT_THERE"):
        Settings.load()


def checked(text: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> Settings:
    """Return settings that `balancewatch check` accepts."""
    (folder / "balancewatch.toml").write_text(text)
    monkeypatch.setenv("BALANCEWATCH_CONFIG", str(folder / "balancewatch.toml"))
    monkeypatch.setenv("BALANCEWATCH_PATHS__WAREHOUSE", str(folder))
    monkeypatch.setenv("BALANCEWATCH_BOARD_TOKEN", "x" * 16)
    ended = CliRunner().invoke(app, ["check"])
    assert ended.exit_code == 0, ended.output
    return Settings.load()


def test_the_manifests_settings_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = checked(objects()["ConfigMap/balancewatch"]["data"]["balancewatch.toml"], monkeypatch, tmp_path)
    assert not settings.metrics.is_loopback
    assert settings.runbooks_url == "https://board.example.org/runbooks"


def test_the_services_of_compose_find_each_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = checked(read_yaml(COMPOSE)["configs"]["settings"]["content"], monkeypatch, tmp_path)
    assert not settings.oncall.enabled  # `run` and the relay must not both send
    listeners = services()["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert listeners == f"PLAINTEXT://{settings.kafka.bootstrap_servers}"
    assert [receiver.urls for receiver in settings.oncall.receivers if receiver.name == "am"] == [
        ("http://alertmanager:9093",)
    ]
    prometheus = read_yaml(DEPLOY / "prometheus.yml")
    (job,) = prometheus["scrape_configs"]
    targets = {f"run:{settings.metrics.port}", f"relay:{settings.metrics.relay_port}"}
    assert (job["job_name"], set(job["static_configs"][0]["targets"])) == ("balancewatch", targets)
    for name, port in (("relay", settings.metrics.relay_health_port), ("board", settings.board.port)):
        assert f"http://127.0.0.1:{port}/healthz" in services()[name]["healthcheck"]["test"][-1]
    assert services()["board"]["ports"] == [f"127.0.0.1:{settings.board.port}:{settings.board.port}"]
    assert settings.oncall.board_url == f"http://127.0.0.1:{settings.board.port}"
    assert_none(name for name in targets_of(prometheus) if name.partition(":")[0] not in services())


def targets_of(prometheus: Any) -> Iterator[str]:
    for one in (*prometheus["scrape_configs"], *prometheus["alerting"]["alertmanagers"]):
        yield from one["static_configs"][0]["targets"]


def test_compose_mounts_files_that_exist_and_volumes_and_configs_that_it_names() -> None:
    content = read_yaml(COMPOSE)
    for service in services().values():
        for mount in service["volumes"]:
            source = mount.split(":")[0]
            assert (DEPLOY / source).is_file() if source.startswith(".") else source in content["volumes"]
        assert {one["source"] for one in service.get("configs", ())} <= content["configs"].keys()
        assert_none(port for port in service.get("ports", ()) if not port.startswith("127.0.0.1:"))
        assert re.search(r":v?\d", service["image"])


def test_prometheus_and_alertmanager_take_their_files(tmp_path: Path) -> None:
    for file in (DEPLOY / "prometheus.yml", ROOT / "conf" / "prometheus.rules.yml"):
        shutil.copy(file, tmp_path)
    for command in (
        [tool("promtool"), "check", "config", str(tmp_path / "prometheus.yml")],
        [tool("amtool"), "check-config", str(DEPLOY / "alertmanager.yml")],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("file", "schema"), [(COMPOSE, "compose-spec"), (WORKFLOW, "github-workflows")])
def test_docker_and_github_take_their_files(file: Path, schema: str) -> None:
    command = [tool("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_workflow_calls_targets_of_make_and_does_what_ci_does() -> None:
    steps = [step["run"] for job in read_yaml(WORKFLOW)["jobs"].values() for step in job["steps"] if "run" in step]
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert_none(
        step
        for step in steps
        if (found := re.fullmatch(r"(?:sudo )?make ([a-z-]+)", step)) is None or found[1] not in targets
    )
    script = (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"(?m)^make .*", script) == steps[1:]
    packages = re.search(r"(?s)^packages:.*?\n\n", makefile, re.MULTILINE)
    assert packages is not None
    assert_none(
        name
        for name in ("prometheus", "prometheus-alertmanager", "openssl", "chromium fonts-dejavu-core")
        if name not in packages[0] or name not in script
    )


def test_ports_are_those_of_the_settings() -> None:
    settings = Settings.load()
    ports = {"metrics": settings.metrics.port, "health": settings.metrics.health_port, "board": settings.board.port}
    text = DOCKERFILE.read_text()
    assert set(map(int, re.findall(r"(?m)^EXPOSE (.+)$", text)[0].split())) == set(ports.values())
    assert f"http://127.0.0.1:{ports['health']}/healthz" in text
    given = {port["name"]: port["containerPort"] for _, one in containers() for port in one.get("ports", [])}
    assert given == ports
    service = {
        one["name"]: (one["port"], one["targetPort"]) for one in objects()["Service/balancewatch"]["spec"]["ports"]
    }
    assert service == {name: (ports[name], name) for name in ("board", "metrics")}
    rules = objects()["NetworkPolicy/balancewatch"]["spec"]["ingress"]
    assert {one["port"] for rule in rules for one in rule["ports"]} <= ports.keys()


def test_the_query_is_one_and_probed_where_it_answers() -> None:
    deployment = objects()["Deployment/balancewatch"]["spec"]
    assert (deployment["replicas"], deployment["strategy"]["type"]) == (1, "Recreate")
    run = next(one for name, one in containers() if name.endswith("balancewatch/run"))
    paths = {probe: run[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
    assert {probe: (one["path"], one["port"]) for probe, one in paths.items()} == {
        "startup": ("/healthz", "health"),
        "liveness": ("/healthz", "health"),
        "readiness": ("/readyz", "health"),
    }
    assert run["startupProbe"]["periodSeconds"] * run["startupProbe"]["failureThreshold"] >= 300


def test_the_claim_is_where_tables_and_checkpoints_are() -> None:
    environment = dockerfile_environment()
    run = next(one for name, one in containers() if name.endswith("balancewatch/run"))
    mounts = {one["name"]: Path(one["mountPath"]) for one in run["volumeMounts"]}
    for name in ("WAREHOUSE", "CHECKPOINTS"):
        assert Path(environment[f"BALANCEWATCH_PATHS__{name}"]).is_relative_to(mounts["data"])
    assert Path(environment["XDG_CACHE_HOME"]).is_relative_to(mounts["cache"])
    volumes = {one["name"]: one for one in pods()["Deployment/balancewatch"]["volumes"]}
    assert f"PersistentVolumeClaim/{volumes['data']['persistentVolumeClaim']['claimName']}" in objects()
    assert_none(
        f"{name} mounts {one['name']}"
        for name, pod in pods().items()
        for container in pod["containers"]
        for one in container["volumeMounts"]
        if one["name"] not in {volume["name"] for volume in pod["volumes"]}
    )


def test_no_pod_is_root_writes_its_image_or_is_given_variables_that_are_no_settings() -> None:
    """A Service "balancewatch" would be variables BALANCEWATCH_PORT and the like."""
    assert_none(
        name
        for name, pod in pods().items()
        if not pod["securityContext"]["runAsNonRoot"]
        or pod["enableServiceLinks"]
        or pod["automountServiceAccountToken"]
    )
    assert_none(
        name
        for name, one in containers()
        if not one["securityContext"]["readOnlyRootFilesystem"]
        or one["securityContext"]["allowPrivilegeEscalation"]
        or "memory" not in one["resources"]["limits"]
    )
    user = re.findall(r"(?m)^USER (\d+):\d+$", DOCKERFILE.read_text())[-1]
    assert {pod["securityContext"]["runAsUser"] for pod in pods().values()} == {int(user)}


def test_the_board_has_its_own_secrets_and_cannot_write_the_tables() -> None:
    board = next(one for name, one in containers() if name.endswith("/board"))
    assert {one["name"] for one in board["volumeMounts"] if one.get("readOnly")} == {"data", "settings"}
    assert [one["secretRef"]["name"] for one in board["envFrom"]] == ["balancewatch-board"]
    assert board["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "board"}
    path = DEPLOY / "systemd" / "balancewatch-board.service"
    service = unit(path)["Service"]
    assert "StateDirectory" not in service
    assert re.findall(r"(?m)^EnvironmentFile=(.*)$", path.read_text()) == ["/etc/balancewatch/board.env"]
    assert service["ReadOnlyPaths"] == "/var/lib/balancewatch"


def test_memory_and_temporary_files_are_limited_everywhere() -> None:
    assert_none(path.name for path in UNITS if "MemoryMax" not in unit(path)["Service"])
    assert_none(
        f"{name}/{volume['name']}"
        for name, pod in pods().items()
        for volume in pod["volumes"]
        if "sizeLimit" not in volume.get("emptyDir", {"sizeLimit": None})
    )


def test_dockers_env_file_has_no_quotes_around_values() -> None:
    """Docker reads NAME=value as it is."""
    values = [line.partition("=")[2] for line in (DEPLOY / "docker.env").read_text().splitlines() if "=" in line]
    assert_none(value for value in values if value[:1] in ("'", '"'))


def test_a_stop_has_longer_than_we_take() -> None:
    """What is in flight may take twice a receiver's time-out, or a collector's round."""
    settings = Settings.load()
    seconds = {path.name: int(unit(path)["Service"].get("TimeoutStopSec", "0")) for path in UNITS}
    assert seconds["balancewatch-relay.service"] > 2 * settings.oncall.timeout_seconds + 10
    assert seconds["balancewatch-collector@.service"] > settings.collector.interval_seconds + 30
    grace = {name: pod.get("terminationGracePeriodSeconds") for name, pod in pods().items()}
    assert grace["Deployment/balancewatch"] == seconds["balancewatch-run.service"] == 180
    assert grace["Deployment/balancewatch-collector"] == seconds["balancewatch-collector@.service"]


def test_a_unit_that_serves_is_started_again_but_not_over_a_setting_that_cannot_be_used() -> None:
    serving = [path for path in UNITS if command_of(path)[-1] in SERVING]
    assert len(serving) == len(SERVING)
    for path in serving:
        service = unit(path)["Service"]
        assert (service["Restart"], service["RestartPreventExitStatus"]) == ("always", "2")
        assert (service["KillSignal"], service["KillMode"]) == ("SIGTERM", "mixed")
        assert unit(path)["Unit"]["StartLimitIntervalSec"] == "0"
    assert_none(path.name for path in UNITS if unit(path)["Service"]["User"] != "balancewatch")
    watched = {path.name for path in UNITS if "WatchdogSec" in unit(path)["Service"]}
    assert watched == {"balancewatch-run.service", "balancewatch-relay.service"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd's own linter is where systemd is")
def test_systemd_understands_every_unit_and_finds_it_closed(tmp_path: Path) -> None:
    files = [*UNITS, *(DEPLOY / "systemd").glob("*.timer")]
    for file in files:
        (tmp_path / file.name).write_text(file.read_text().replace(PROGRAM, shutil.which("true") or "/bin/true"))
    names = [file.name for file in files]
    verified = subprocess.run(
        ["systemd-analyze", "verify", *names], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    ours = [line for line in verified.stderr.splitlines() if "balancewatch" in line]
    assert (verified.returncode, ours) == (0, [])
    for unit_file in UNITS:
        judged = subprocess.run(
            ["systemd-analyze", "security", "--offline=true", f"./{unit_file.name}"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        found = re.search(r"exposure level for .*: ([\d.]+)", judged.stdout)
        assert found, judged.stderr
        assert float(found[1]) <= WORST_EXPOSURE, unit_file.name


def test_the_dockerfile_passes_its_linter() -> None:
    linted = subprocess.run([tool("hadolint"), DOCKERFILE], capture_output=True, text=True, check=False)
    assert (linted.returncode, linted.stdout) == (0, "")


def test_the_manifest_is_what_kubernetes_takes() -> None:
    linted = subprocess.run(
        [tool("kubernetes-validate"), "--strict", MANIFEST, BASE / "ingress.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert linted.returncode == 0, linted.stdout + linted.stderr


def test_the_base_has_every_file_and_the_image_that_the_manifest_names() -> None:
    base = read_yaml(BASE / "kustomization.yml")
    assert {*base["resources"], "kustomization.yml"} == {path.name for path in BASE.iterdir()}
    (image,) = base["images"]
    assert {f"{image['name']}:{image['newTag']}"} == {one["image"] for _, one in containers()}
    assert {one["image"] for one in our_services().values()} == {one["image"] for _, one in containers()}


def test_the_ingress_and_the_service_monitor_name_ports_of_the_service() -> None:
    service = objects()["Service/balancewatch"]
    ports = {port["name"] for port in service["spec"]["ports"]}
    monitor, ingress = read_yaml(BASE / "servicemonitor.yml"), read_yaml(BASE / "ingress.yml")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {end["port"] for end in monitor["spec"]["endpoints"]} == {"metrics"} < ports
    (rule,) = ingress["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert path["backend"]["service"] == {"name": "balancewatch", "port": {"name": "board"}}
    settings = objects()["ConfigMap/balancewatch"]["data"]["balancewatch.toml"]
    assert f'allowed_hosts = ["{rule["host"]}"]' in settings
    assert {one["metadata"]["namespace"] for one in (monitor, ingress, service)} == {"balancewatch"}


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kustomize is where kubectl is")
def test_kustomize_builds_the_base() -> None:
    built = subprocess.run(["kubectl", "kustomize", BASE], capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    assert built.stdout.count("\nkind: ") == len(objects()) + 2


def test_the_image_is_made_of_what_is_there() -> None:
    text = DOCKERFILE.read_text()
    copied = [name for line in re.findall(r"(?m)^COPY (?!--from)(.+) \S+$", text) for name in line.split()]
    let_in = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    assert copied
    assert_none(name for name in copied if not (ROOT / name).exists())
    assert_none(name for name in copied if f"!{name.split('/')[0]}" not in let_in)
    assert len(re.findall(r"(?m)^FROM ", text)) == 2


@pytest.mark.parametrize("recipe", [DEPLOY / "README.md", DOCKERFILE], ids=lambda path: path.name)
def test_a_server_gets_no_package_of_the_tests_and_no_build_tool_that_the_index_chooses(recipe: Path) -> None:
    installs = re.findall(r"bin/pip install (.*)", recipe.read_text())
    assert [re.findall(r"-r (\S+)", line) for line in installs] == [
        ["conf/deploy/build.lock"],
        ["requirements.lock"],
        [],
    ]
    assert_none(line for line in installs[:2] if "--require-hashes" not in line)
    assert_none(line for line in installs[1:] if "--no-deps --no-build-isolation" not in line)


def test_setup_downloads_the_jars_of_every_command() -> None:
    """So that no command needs a network after `make setup`."""
    makefile = (ROOT / "Makefile").read_text()
    setup = re.search(r"^setup:.*\n\t@\S+ -m streaming\.spark\.jars (.*)$", makefile, re.MULTILINE)
    assert setup is not None
    assert setup[1].split() == ["spark", "kafka", "rocketmq"]
