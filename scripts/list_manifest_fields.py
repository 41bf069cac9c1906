"""Writes the tables of docs/kubernetes.md from the tables by which manifests are read."""

import json
from pathlib import Path

from tgpu.dialects.kubernetes.field import Field
from tgpu.dialects.kubernetes.tables import TABLES

TARGET = Path(__file__).parent.parent / "docs" / "kubernetes.md"
BEGIN = (
    "<!-- Written by `make docs` from src/tgpu/dialects/kubernetes; a test fails when this is stale. -->\n"
)
PLACES = {
    "Job": "the document itself",
    "ObjectMeta": "`metadata`",
    "JobSpec": "`spec`",
    "PodFailurePolicy": "`spec.podFailurePolicy`",
    "PodFailurePolicyRule": "`spec.podFailurePolicy.rules[]`",
    "PodFailurePolicyOnExitCodesRequirement": "`spec.podFailurePolicy.rules[].onExitCodes`",
    "PodFailurePolicyOnPodConditionsPattern": "`spec.podFailurePolicy.rules[].onPodConditions[]`",
    "PodTemplateSpec": "`spec.template`",
    "PodMeta": "`spec.template.metadata`",
    "PodSpec": "`spec.template.spec`",
    "Toleration": "`spec.template.spec.tolerations[]`",
    "Container": "`spec.template.spec.containers[0]`",
    "EnvVar": "`spec.template.spec.containers[0].env[]`",
    "EnvVarSource": "`spec.template.spec.containers[0].env[].valueFrom`",
    "ObjectFieldSelector": "`spec.template.spec.containers[0].env[].valueFrom.fieldRef`",
    "SecretKeySelector": "`spec.template.spec.containers[0].env[].valueFrom.secretKeyRef`",
    "ResourceRequirements": "`spec.template.spec.containers[0].resources`",
    "SecurityContext": "`spec.template.spec.containers[0].securityContext`",
    "Capabilities": "`spec.template.spec.containers[0].securityContext.capabilities`",
}


def page() -> str:
    kept = TARGET.read_text(encoding="utf-8").partition(BEGIN)[0]
    return kept + BEGIN + "".join(_section(name) for name in TABLES)


def _section(name: str) -> str:
    rows = "".join(
        f"| `{field}` | {_verdict(what)} | {what.words} |\n" for field, what in TABLES[name].items()
    )
    return f"\n### {PLACES[name]}\n\n| field | | |\n|---|---|---|\n{rows}"


def _verdict(field: Field) -> str:
    let_pass = " and ".join(
        f"`{value if isinstance(value, str) else json.dumps(value)}`" for value in field.unless
    )
    return f"{field.verdict}, but for {let_pass}" if let_pass else str(field.verdict)


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
