"""The files for several machines, checked against the image, the routes and the settings they are about."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from app import Settings, create_app
from tests.test_deploy import DEPLOY, compose, gunicorn_setting, only, seconds


def objects() -> dict[str, dict[str, Any]]:
    """Read the Kubernetes objects, by their kind."""
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {each["kind"]: each for each in found}


def pod() -> dict[str, Any]:
    """Give the pod that the deployment makes."""
    found: dict[str, Any] = objects()["Deployment"]["spec"]["template"]["spec"]
    return found


def container() -> dict[str, Any]:
    """Give its one container."""
    (found,) = pod()["containers"]
    assert isinstance(found, dict)
    return found


def shared() -> dict[str, Any]:
    """Read the compose file that goes over the plain one."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.shared.yaml").read_text())
    return found


def test_pods_are_probed_at_routes_that_answer(tmp_path: Path) -> None:
    """Every probe asks for a route of the gateway that answers without a key, on the container's port."""
    (port,) = container()["ports"]
    settings = {"SLUICE_API_KEYS": "a:key", "SLUICE_DATABASE_URL": f"sqlite:///{tmp_path}/x.db"}
    client = create_app(settings).test_client()

    for name in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container()[name]["httpGet"]
        assert port["name"] == asked["port"]
        assert 200 == client.get(asked["path"], headers={"Host": "10.1.2.3:8000"}).status_code
    assert str(port["containerPort"]) == only("EXPOSE")
    assert "/v1/ready" == container()["readinessProbe"]["httpGet"]["path"]


def test_pods_have_time_to_drain() -> None:
    """The wait before the signal and gunicorn's own time for open streams fit into what Kubernetes gives."""
    wait = float(container()["lifecycle"]["preStop"]["exec"]["command"][1])
    probe = container()["readinessProbe"]

    assert wait + gunicorn_setting("graceful_timeout") < pod()["terminationGracePeriodSeconds"]
    assert probe["periodSeconds"] * (probe["failureThreshold"] + 1) < wait


def test_pods_are_made_of_the_image() -> None:
    """User, port and the record's place are the image's, and nothing else can be written to."""
    places = {mount["mountPath"] for mount in container()["volumeMounts"]}

    assert str(pod()["securityContext"]["runAsUser"]) == only("USER")
    assert only("VOLUME") in places
    assert True is container()["securityContext"]["readOnlyRootFilesystem"]


def test_pods_settings_are_settings() -> None:
    """Each variable is known and its value is taken."""
    given = {each["name"]: each["value"] for each in container()["env"]}

    settings = Settings.from_mapping({**given, "SLUICE_API_KEYS": "a:key"})

    assert "json" == settings.log_format
    assert f":{only('EXPOSE')}" == given["BIND"][-5:]


def test_services_and_budgets_choose_the_pods() -> None:
    """Every selector is of the labels that the pods have."""
    labels = objects()["Deployment"]["spec"]["template"]["metadata"]["labels"]

    for kind in ("Deployment", "PodDisruptionBudget"):
        assert labels == objects()[kind]["spec"]["selector"]["matchLabels"]
    assert labels == objects()["Service"]["spec"]["selector"]


def test_compose_shares_records_and_limits() -> None:
    """With the second file the workers use the database and the Redis that it starts, once these are there."""
    services = shared()["services"]
    env = services["gateway"]["environment"]
    settings = Settings.from_mapping({**env, "SLUICE_API_KEYS": "a:key"})

    assert settings.database_url is not None and "@postgres:5432/" in settings.database_url
    assert "redis://redis:6379/0" == settings.limit_storage
    assert {"postgres", "redis"} == set(services["gateway"]["depends_on"]) == set(services) - {"gateway"}
    for name in ("postgres", "redis"):
        assert "test" in services[name]["healthcheck"]
        # They outlive the gateway, whose last streams are still to be recorded.
        assert seconds(services[name]["stop_grace_period"]) >= seconds(
            compose()["services"]["gateway"]["stop_grace_period"]
        )


def test_the_shared_file_changes_the_plain_ones_gateway() -> None:
    """It adds to a service that is there, under its name."""
    assert "gateway" in compose()["services"]
    assert set(shared()["volumes"]) == {
        mount.partition(":")[0] for mount in shared()["services"]["postgres"]["volumes"]
    }
