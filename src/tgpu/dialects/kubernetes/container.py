"""A container to what a task runs, and in what."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tgpu.dialects.kubernetes import own_variables
from tgpu.dialects.kubernetes.itself import Itself, kept
from tgpu.dialects.kubernetes.own_variables import INDEX
from tgpu.dialects.kubernetes.problems import refused
from tgpu.dialects.kubernetes.references import replaced
from tgpu.dialects.kubernetes.resources import resources
from tgpu.dialects.kubernetes.shape import Container, EnvVar

_PULLS = {"Always": "always", "IfNotPresent": "missing", "Never": "never"}
_ANYWHERE = "/"
"""Where a container is submitted from does not matter: of its node it sees nothing."""


def container_fields(asked: Container, path: str, itself: Itself, *, indexed: bool) -> dict[str, Any]:
    given = _Variables({}, {}, {})
    for at, variable in enumerate(asked.env):
        if not variable.name:
            raise refused(f"{path}.env[{at}].name", "is empty: say which variable")
        own_variables.check(variable, f"{path}.env[{at}]", asked)
        given.add(variable, f"{path}.env[{at}]", itself, indexed=indexed)
    later = given.later(indexed=indexed)
    words = {
        name: [replaced(f"{path}.{name}[{at}]", text, given.env, later) for at, text in enumerate(texts)]
        for name, texts in (("command", asked.command), ("args", asked.args))
    }
    fields: dict[str, Any] = {
        **(_in_image(asked, words) if asked.image else _as_process(asked, words, path)),
        **resources(asked.resources, f"{path}.resources"),
        "env": given.env,
    }
    if given.secrets:
        fields["secret_env"] = given.secrets
    if given.on_node:
        fields["annotations"] = kept(given.on_node)
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


@dataclass(frozen=True, slots=True)
class _Variables:
    """By where their values are found. Of two with one name the later holds."""

    env: dict[str, str]
    secrets: dict[str, str]
    on_node: dict[str, str]
    """Which of its fields a task is told there."""

    def later(self, *, indexed: bool) -> set[str]:
        """Whose values are not known yet."""
        return {*self.secrets, *self.on_node, *([INDEX] if indexed else ())}

    def add(self, variable: EnvVar, path: str, itself: Itself, *, indexed: bool) -> None:
        source = variable.value_from
        if source is None:
            value = replaced(f"{path}.value", variable.value, self.env, self.later(indexed=indexed))
            self._put(self.env, variable.name, value)
        elif variable.value:
            raise refused(path, "has both value and valueFrom: keep one of them")
        elif (source.field_ref is None) is (source.secret_key_ref is None):
            raise refused(f"{path}.valueFrom", "must say one thing: either secretKeyRef or fieldRef")
        elif source.secret_key_ref is not None:
            secret = source.secret_key_ref
            self._put(self.secrets, variable.name, f"store:{secret.name}.{secret.key}")
        elif source.field_ref is not None:
            wanted = source.field_ref.field_path
            told = itself.value(wanted, f"{path}.valueFrom.fieldRef.fieldPath")
            if told is None:
                self._put(self.on_node, variable.name, wanted)
            else:
                self._put(self.env, variable.name, told)

    def _put(self, where: dict[str, str], name: str, value: str) -> None:
        for one in (self.env, self.secrets, self.on_node):
            one.pop(name, None)
        where[name] = value
