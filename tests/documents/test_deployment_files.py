"""What is shipped for Kubernetes, Helm and containers agrees with itself and with the gateway."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tarfile
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from jsonschema import Draft202012Validator, ValidationError  # type: ignore[import-untyped]  # it ships no types

from mgw import __version__
from mgw.config.load import parse
from mgw.config.settings import Config
from mgw.ops.service_manager import SECONDS_BEHIND_DRAIN
from tests.support.waiting import WAIT_SECONDS
from tools.oci_image import RUNNING, write_image

SHIPPED: Final = Path(__file__).resolve().parents[2] / "etc" / "deployment"
KUBERNETES: Final = SHIPPED / "kubernetes"
CHART: Final = SHIPPED / "helm" / "mgw"
VARIABLES: Final = {"MGW_EDGE_KEYS": "a-long-key", "OPENAI_API_KEY": "another-long-key"}


def objects() -> dict[str, Any]:  # Any: YAML
    """Return what the plain files make, by kind."""
    files = [path for path in KUBERNETES.glob("*.yaml") if path.name != "kustomization.yaml"]
    loaded = [yaml.safe_load(path.read_text(encoding="utf-8")) for path in files]
    return {each["kind"]: each for each in loaded}


def configured() -> Config:
    return parse(objects()["ConfigMap"]["data"]["mgw.yaml"], "mgw.yaml", VARIABLES)


def pod() -> Any:
    return objects()["Deployment"]["spec"]["template"]["spec"]


def test_a_pod_has_time_for_its_delay_and_its_drain() -> None:
    config = configured()
    needed = config.drain_delay_seconds + config.drain_seconds + SECONDS_BEHIND_DRAIN
    assert pod()["terminationGracePeriodSeconds"] > needed


def test_a_pod_that_stops_takes_requests_until_it_is_known_to_be_not_ready() -> None:
    probe = pod()["containers"][0]["readinessProbe"]
    assert probe["httpGet"]["path"] == "/readyz"
    assert configured().drain_delay_seconds > probe["periodSeconds"] * probe["failureThreshold"]


def test_a_pod_has_no_privilege_and_writes_only_where_it_should() -> None:
    spec, [container] = pod(), pod()["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    user, group = RUNNING["User"].split(":")
    assert (spec["securityContext"]["runAsUser"], spec["securityContext"]["runAsGroup"]) == (
        int(user),
        int(group),
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    writable = {mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")}
    assert writable == {"/var/lib/mgw", "/tmp"}


def test_the_variables_of_the_configuration_are_in_the_example_of_a_secret() -> None:
    text = objects()["ConfigMap"]["data"]["mgw.yaml"]
    assert set(re.findall(r"_env: (\S+)", text)) == set(objects()["Secret"]["stringData"])


def test_the_kustomization_names_every_file_but_the_secret() -> None:
    listed = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text(encoding="utf-8"))["resources"]
    files = {path.name for path in KUBERNETES.glob("*.yaml")}
    assert {*listed, "kustomization.yaml", "secret.example.yaml"} == files


def test_the_values_of_the_chart_fit_their_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    validator = Draft202012Validator(schema)
    validator.validate(values)
    assert set(values) == set(schema["properties"]) - {"global"}
    with pytest.raises(ValidationError):
        validator.validate({**values, "config": "providers: {}\nlisten: ':1'\n"})


def test_the_chart_has_the_version_of_the_gateway() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["appVersion"] == __version__
    assert pod()["containers"][0]["image"].endswith(f":{__version__}")


def test_the_page_names_files_that_are_there() -> None:
    page = (SHIPPED.parents[1] / "docs" / "deployment.rst").read_text(encoding="utf-8")
    named = set(re.findall(r"etc/deployment/[\w./-]*\w", page))
    assert {"etc/deployment/Dockerfile", "etc/deployment/kubernetes", "etc/deployment/helm/mgw"} <= named
    for path in named:
        assert (SHIPPED.parents[1] / path).exists(), path


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_builds_the_plain_files() -> None:
    made = run("kubectl", "kustomize", str(KUBERNETES))
    kinds = {each["kind"] for each in yaml.safe_load_all(made)}
    assert kinds == set(objects()) - {"Secret"}


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed")
def test_the_chart_makes_what_the_plain_files_make() -> None:
    version = ("--kube-version", "1.32.0")
    run("helm", "lint", "--strict", *version, str(CHART))
    rendered = run("helm", "template", "mgw", str(CHART), *version)
    made = {each["kind"]: without_labels_of_charts(each) for each in yaml.safe_load_all(rendered)}
    plain = objects()
    del plain["Secret"]
    assert made == plain


def without_labels_of_charts(value: Any) -> Any:
    """Leave out what only a chart writes: who installed it, and a digest that makes new pods."""
    if isinstance(value, dict):
        cleaned = {name: without_labels_of_charts(each) for name, each in value.items()}
        own = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by")
        kept = {
            name: each
            for name, each in cleaned.items()
            if name not in (*own, "helm.sh/chart", "checksum/config")
        }
        if kept.get("annotations") == {}:
            del kept["annotations"]
        return kept
    if isinstance(value, list):
        return [without_labels_of_charts(each) for each in value]
    return value


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"\\\n", "", (SHIPPED / "Dockerfile").read_text(encoding="utf-8"))
    return re.findall(r"^([A-Z]+) (.+)$", text, re.MULTILINE)


def test_the_dockerfile_says_what_the_image_without_docker_says() -> None:
    said = dict(instructions())
    assert json.loads(said["ENTRYPOINT"]) == RUNNING["Entrypoint"]
    assert json.loads(said["CMD"]) == RUNNING["Cmd"]
    assert json.loads(said["HEALTHCHECK"].partition(" CMD ")[2]) == RUNNING["Healthcheck"]["Test"][1:]
    assert (said["USER"], said["STOPSIGNAL"]) == (RUNNING["User"], RUNNING["StopSignal"])
    assert (said["WORKDIR"], [said["VOLUME"]]) == (RUNNING["WorkingDir"], list(RUNNING["Volumes"]))
    assert [f"{said['EXPOSE']}/tcp"] == list(RUNNING["ExposedPorts"])
    variables = [shlex.split(value)[0] for name, value in instructions() if name == "ENV"]
    assert variables == RUNNING["Env"][1:]


def test_an_image_starts_the_command_of_the_service() -> None:
    unit = (SHIPPED.parents[1] / "debian" / "mgw.service").read_text(encoding="utf-8")
    assert f"ExecStart={' '.join([*RUNNING['Entrypoint'], *RUNNING['Cmd']])}\n" in unit


def test_an_image_holds_the_folder_and_is_the_same_every_time(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp/left-over").write_text("x", encoding="utf-8")
    (root / "usr/bin/a").write_text("program", encoding="utf-8")
    (root / "usr/bin/b").symlink_to("a")
    (root / "bin").symlink_to("usr/bin")
    archives = [tmp_path / "one.tar", tmp_path / "two.tar"]
    for number, archive in enumerate(archives):
        os.utime(root / "usr/bin/a", (2e9 + number, 2e9 + number))
        write_image(root, archive, "1.2.3", "amd64", 1_700_000_000)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    blobs = read_image(archives[0])
    manifest = json.loads(blobs[json.loads(blobs["index"])["manifests"][0]["digest"]])
    config = json.loads(blobs[manifest["config"]["digest"]])
    with tarfile.open(fileobj=BytesIO(blobs[manifest["layers"][0]["digest"]])) as layer:
        assert layer.getnames() == ["bin", "tmp", "usr", "usr/bin", "usr/bin/a", "usr/bin/b"]
        assert layer.getmember("usr/bin/a").mtime == 1_700_000_000
        assert layer.getmember("bin").linkname == "usr/bin"
    assert config["config"]["User"] == RUNNING["User"]


def read_image(archive: Path) -> dict[str, bytes]:
    """Return the blobs of an image by their digests, each of which is right, and its index."""
    blobs: dict[str, bytes] = {}
    with tarfile.open(archive) as opened:
        for member in opened:
            stream = opened.extractfile(member)
            assert stream is not None
            data = stream.read()
            if member.name.startswith("blobs/sha256/"):
                assert member.name.removeprefix("blobs/sha256/") == sha256(data).hexdigest()
                blobs[f"sha256:{sha256(data).hexdigest()}"] = data
            elif member.name == "index.json":
                blobs["index"] = data
    return blobs
