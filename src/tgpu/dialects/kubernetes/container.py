"""A container to what a task runs, and in what."""

from collections.abc import Mapping
from typing import Any

from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.references import replaced
from tgpu.dialects.kubernetes.resources import resources
from tgpu.dialects.kubernetes.shape import Container, EnvVar

INDEX = "JOB_COMPLETION_INDEX"
_PULLS = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
_ANYWHERE = "/"
"""Where a container is submitted from does not matter: of its node it sees nothing."""


def container_fields(asked: Container, path: str, *, indexed: bool) -> dict[str, Any]:
    env, secrets = _environment(asked.env, f"{path}.env", indexed=indexed)
    later = {*secrets, INDEX} if indexed else set(secrets)
    words = {
        name: [replaced(f"{path}.{name}[{at}]", text, env, later) for at, text in enumerate(given)]
        for name, given in (("command", asked.command), ("args", asked.args))
    }
    fields: dict[str, Any] = {
        **(_in_image(asked, words) if asked.image else _as_process(asked, words, path)),
        **resources(asked.resources, f"{path}.resources"),
        "env": env,
    }
    if secrets:
        fields["secret_env"] = secrets
    if asked.stdin and not asked.tty:
        raise refused(f"{path}.stdin", "can be true only with tty: there a person may attach to it")
    return fields | ({"pty": True} if asked.tty else {})


def _in_image(asked: Container, words: Mapping[str, list[str]]) -> dict[str, Any]:
    fields: dict[str, Any] = {"image": asked.image, "cwd": _ANYWHERE}
    if command := [*words["command"], *words["args"]]:
        fields["command"] = command
    if words["command"]:
        fields["ignore_entrypoint"] = True
    if asked.working_dir:
        fields["container_cwd"] = asked.working_dir
    if asked.image_pull_policy is not None:
        fields["pull"] = _PULLS[asked.image_pull_policy]
    if asked.security_context is not None and asked.security_context.read_only_root_filesystem:
        fields["read_only"] = True
    return fields


def _as_process(asked: Container, words: Mapping[str, list[str]], path: str) -> dict[str, Any]:
    if not words["command"]:
        raise refused(f"{path}.command", "is missing: without an image nothing else says what to run")
    for name, given in (
        ("imagePullPolicy", asked.image_pull_policy),
        ("securityContext", asked.security_context),
    ):
        if given is not None:
            raise refused(f"{path}.{name}", "is about a container: say image, too, or leave it out")
    fields: dict[str, Any] = {"command": [*words["command"], *words["args"]]}
    return fields | ({"cwd": asked.working_dir} if asked.working_dir else {})


def _environment(
    variables: list[EnvVar], path: str, *, indexed: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """Values, and secrets by where they are found. Of two with one name the later holds."""
    env: dict[str, str] = {}
    secrets: dict[str, str] = {}
    for at, variable in enumerate(variables):
        name, source = variable.name, variable.value_from
        if source is None:
            later = {*secrets, INDEX} if indexed else set(secrets)
            env[name] = replaced(f"{path}[{at}].value", variable.value, env, later)
            secrets.pop(name, None)
        elif variable.value:
            raise refused(f"{path}[{at}]", "has both value and valueFrom: keep one of them")
        elif source.secret_key_ref is None:
            raise refused(f"{path}[{at}].valueFrom", "says nothing: say secretKeyRef")
        else:
            secrets[name] = f"store:{source.secret_key_ref.name}.{source.secret_key_ref.key}"
            env.pop(name, None)
    return env, secrets
