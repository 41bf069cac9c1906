"""Every field of a Job that is not its pod's, and what becomes of it."""

from tgpu.dialects.kubernetes.field import Table, honoured, refused, translated

_BY_A_SERVER = "is set by a Kubernetes server: leave it out"
_KEPT = "kept with the job, in its annotations by path"

JOB: Table = {
    "apiVersion": honoured("`batch/v1`"),
    "kind": honoured("`Job`"),
    "metadata": honoured("see below", of="ObjectMeta"),
    "spec": honoured("see below", of="JobSpec"),
    "status": refused(_BY_A_SERVER),
}
OBJECT_META: Table = {
    "name": honoured("the job's name; several jobs may have one name"),
    "generateName": translated(
        "without `name`: the job's name, without a dash at its end; ids tell jobs apart"
    ),
    "namespace": translated("the tenant whose quota is charged; without it the user's own"),
    "labels": translated(_KEPT),
    "annotations": translated(_KEPT),
    "selfLink": refused(_BY_A_SERVER),
    "uid": refused(_BY_A_SERVER),
    "resourceVersion": refused(_BY_A_SERVER),
    "generation": refused(_BY_A_SERVER),
    "creationTimestamp": refused(_BY_A_SERVER),
    "deletionTimestamp": refused(_BY_A_SERVER),
    "deletionGracePeriodSeconds": refused(_BY_A_SERVER),
    "ownerReferences": refused("names what a Kubernetes cluster has: leave it out"),
    "finalizers": refused("waits for a controller that is not here: leave it out"),
    "managedFields": refused(_BY_A_SERVER),
}
JOB_SPEC: Table = {
    "parallelism": honoured("how many run at once; alone it is a work queue; 0 suspends the job"),
    "completions": honoured("how many must succeed"),
    "activeDeadlineSeconds": honoured("then the job has failed, and what runs of it is stopped"),
    "podFailurePolicy": honoured("see below", of="PodFailurePolicy"),
    "successPolicy": refused(
        "is not supported: a job has succeeded once all its completions have; leave it out"
    ),
    "backoffLimit": honoured("6 if nothing is said, and without limit if only backoffLimitPerIndex is said"),
    "backoffLimitPerIndex": honoured("with completionMode Indexed"),
    "maxFailedIndexes": honoured("with backoffLimitPerIndex"),
    "selector": refused("is not needed: a job knows its own tasks; leave it out"),
    "manualSelector": refused("is not needed: a job knows its own tasks; leave it out", False),
    "template": honoured("see below", of="PodTemplateSpec"),
    "ttlSecondsAfterFinished": honoured("how long after its end the job is remembered"),
    "completionMode": honoured("`NonIndexed`, or `Indexed`: then JOB_COMPLETION_INDEX is set"),
    "suspend": honoured(
        "until `tgpu resume`; with the label `kueue.x-k8s.io/queue-name` the job is queued, as Kueue would"
    ),
    "podReplacementPolicy": refused(
        "can only be Failed: a task is tried again once the attempt before has ended; leave it out", "Failed"
    ),
    "managedBy": refused("names a controller that is not here: leave it out", "kubernetes.io/job-controller"),
    "scheduling": refused("is not supported: tasks that start together are a gang (--nodes, --ntasks)"),
}
POD_FAILURE_POLICY: Table = {"rules": honoured("the first that matches decides", of="PodFailurePolicyRule")}
POD_FAILURE_POLICY_RULE: Table = {
    "action": honoured("`Count`, `Ignore`, `FailIndex` or `FailJob`"),
    "onExitCodes": honoured(
        "128 and the number of a signal for one that a signal ended; never of one that was disrupted",
        of="PodFailurePolicyOnExitCodesRequirement",
    ),
    "onPodConditions": translated("see below", of="PodFailurePolicyOnPodConditionsPattern"),
}
ON_EXIT_CODES: Table = {
    "containerName": honoured("the container's name"),
    "operator": honoured("`In` or `NotIn`"),
    "values": honoured("1 to 255 of them"),
}
ON_POD_CONDITIONS: Table = {
    "type": translated(
        "only `DisruptionTarget`: preempted, or its node or GPU was lost or ran short of memory"
    ),
    "status": honoured("only `True`, which it is if nothing is said"),
}
POD_TEMPLATE_SPEC: Table = {
    "metadata": honoured("see below", of="PodMeta"),
    "spec": honoured("see below", of="PodSpec"),
}
POD_META: Table = {
    **{name: refused(_BY_A_SERVER) for name in OBJECT_META},
    "name": translated(_KEPT),
    "generateName": refused("is not used: say metadata.generateName"),
    "namespace": refused("is not used: say metadata.namespace"),
    "labels": translated(_KEPT),
    "annotations": translated(_KEPT),
    "ownerReferences": OBJECT_META["ownerReferences"],
    "finalizers": OBJECT_META["finalizers"],
}
