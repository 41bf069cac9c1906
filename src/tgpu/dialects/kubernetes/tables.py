"""Every object that a Job manifest is made of, by the name that the API of Kubernetes has for it."""

from tgpu.dialects.kubernetes import job_table as job
from tgpu.dialects.kubernetes import pod_table as pod
from tgpu.dialects.kubernetes.field import Table

TABLES: dict[str, Table] = {
    "Job": job.JOB,
    "ObjectMeta": job.OBJECT_META,
    "JobSpec": job.JOB_SPEC,
    "PodFailurePolicy": job.POD_FAILURE_POLICY,
    "PodFailurePolicyRule": job.POD_FAILURE_POLICY_RULE,
    "PodFailurePolicyOnExitCodesRequirement": job.ON_EXIT_CODES,
    "PodFailurePolicyOnPodConditionsPattern": job.ON_POD_CONDITIONS,
    "PodTemplateSpec": job.POD_TEMPLATE_SPEC,
    "PodMeta": job.POD_META,
    "PodSpec": pod.POD_SPEC,
    "Toleration": pod.TOLERATION,
    "Container": pod.CONTAINER,
    "EnvVar": pod.ENV_VAR,
    "EnvVarSource": pod.ENV_VAR_SOURCE,
    "ObjectFieldSelector": pod.OBJECT_FIELD_SELECTOR,
    "SecretKeySelector": pod.SECRET_KEY_SELECTOR,
    "ResourceRequirements": pod.RESOURCES,
    "SecurityContext": pod.SECURITY_CONTEXT,
    "Capabilities": pod.CAPABILITIES,
}
"""`PodMeta` is the ObjectMeta of the pods: there other fields matter than in the job's own."""
