"""A manifest's shape: the fields that mean something here, with their types. Others are refused before."""

from typing import Literal

import msgspec

from tgpu.dialects.kubernetes.amounts import Amount

Amounts = dict[str, Amount]
Texts = dict[str, str]


class _Object(msgspec.Struct, rename="camel", forbid_unknown_fields=True, kw_only=True, frozen=True):
    """Names as Kubernetes writes them."""


class ObjectMeta(_Object, frozen=True):
    name: str = ""
    generate_name: str = ""
    namespace: str | None = None
    labels: Texts = {}
    annotations: Texts = {}


class PodMeta(_Object, frozen=True):
    name: str = ""
    labels: Texts = {}
    annotations: Texts = {}


class SecretKeySelector(_Object, frozen=True):
    name: str
    key: str


class ObjectFieldSelector(_Object, frozen=True):
    field_path: str


class EnvVarSource(_Object, frozen=True):
    field_ref: ObjectFieldSelector | None = None
    secret_key_ref: SecretKeySelector | None = None


class EnvVar(_Object, frozen=True):
    name: str
    value: str = ""
    value_from: EnvVarSource | None = None


class ResourceRequirements(_Object, frozen=True):
    limits: Amounts = {}
    requests: Amounts = {}


class Capabilities(_Object, frozen=True):
    drop: list[str] = []


class SecurityContext(_Object, frozen=True):
    capabilities: Capabilities = Capabilities()
    read_only_root_filesystem: bool = False


class Container(_Object, frozen=True):
    name: str
    image: str = ""
    command: list[str] = []
    args: list[str] = []
    working_dir: str = ""
    env: list[EnvVar] = []
    resources: ResourceRequirements = ResourceRequirements()
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    security_context: SecurityContext | None = None
    stdin: bool = False
    tty: bool = False


class Toleration(_Object, frozen=True):
    key: str = ""
    operator: Literal["Equal", "Exists"] = "Equal"
    value: str = ""
    effect: Literal["NoSchedule", ""] = ""


class PodSpec(_Object, frozen=True):
    containers: list[Container]
    restart_policy: Literal["Never", "OnFailure"]
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    node_selector: Texts = {}
    node_name: str = ""
    host_network: bool = False
    tolerations: list[Toleration] = []
    priority_class_name: str = ""
    enable_service_links: bool = True


class PodTemplateSpec(_Object, frozen=True):
    spec: PodSpec
    metadata: PodMeta = PodMeta()


class PodFailurePolicyOnExitCodesRequirement(_Object, frozen=True):
    operator: Literal["In", "NotIn"]
    values: list[int]
    container_name: str | None = None


class PodFailurePolicyOnPodConditionsPattern(_Object, frozen=True):
    type: Literal["DisruptionTarget"]
    status: Literal["True"] = "True"


class PodFailurePolicyRule(_Object, frozen=True):
    action: Literal["Count", "Ignore", "FailIndex", "FailJob"]
    on_exit_codes: PodFailurePolicyOnExitCodesRequirement | None = None
    on_pod_conditions: list[PodFailurePolicyOnPodConditionsPattern] = []


class PodFailurePolicy(_Object, frozen=True):
    rules: list[PodFailurePolicyRule]


class JobSpec(_Object, frozen=True):
    template: PodTemplateSpec
    parallelism: int | None = None
    completions: int | None = None
    active_deadline_seconds: int | None = None
    pod_failure_policy: PodFailurePolicy | None = None
    backoff_limit: int | None = None
    backoff_limit_per_index: int | None = None
    max_failed_indexes: int | None = None
    ttl_seconds_after_finished: int | None = None
    completion_mode: Literal["NonIndexed", "Indexed"] = "NonIndexed"
    suspend: bool = False


class Job(_Object, frozen=True):
    api_version: Literal["batch/v1"]
    kind: Literal["Job"]
    spec: JobSpec
    metadata: ObjectMeta = ObjectMeta()
