"""Every field of a pod and of its container, and what becomes of it."""

from tgpu.dialects.kubernetes.field import Table, honoured, refused, translated

_IN_ONE_PLACE = (
    "is not supported: a task is one container; run one job after the other (--after), or use groups"
)
_ONE_CONTAINER = (
    "is not supported: a task is one container; programs that run beside each other are groups of a job in "
    "tgpu's own form (docs/gangs.md)"
)
_NO_VOLUMES = "is not supported: say --mount SOURCE:TARGET for a path of the node, --shm-size for /dev/shm"
_NO_PROBES = "is not supported: nothing looks at a task from outside while it runs; leave it out"
_NO_NAMES = "is not supported: a task has the host name that its node or engine gives it; leave it out"
_AS_SUBMITTER = "is not supported: a task runs as the user who submits it; leave it out"
_NO_ACCOUNT = "is not supported: a task gets no account of a cluster; leave it out"
_OWN_SPACES = "can only be false: a container has namespaces of its own; leave it out"

POD_SPEC: Table = {
    "volumes": refused(_NO_VOLUMES),
    "initContainers": refused(_IN_ONE_PLACE),
    "containers": honoured("exactly one, see below", of="Container", only_one=_ONE_CONTAINER),
    "ephemeralContainers": refused(
        "is not supported: look into a running task with `tgpu exec`; leave it out"
    ),
    "restartPolicy": translated("`Never` or `OnFailure`: either way a new attempt, on any node"),
    "terminationGracePeriodSeconds": honoured("from SIGTERM to SIGKILL; without it the class's own"),
    "activeDeadlineSeconds": honoured("the time limit of each attempt"),
    "dnsPolicy": refused(
        "can only be ClusterFirst or Default: names are resolved as on the node", "ClusterFirst", "Default"
    ),
    "nodeSelector": translated(
        "labels of the node; `kubernetes.io/hostname` is its host, `nvidia.com/gpu.product` the model of its "
        "GPUs, and `kubernetes.io/os` can only be `linux`"
    ),
    "serviceAccountName": refused(_NO_ACCOUNT, "default"),
    "serviceAccount": refused(_NO_ACCOUNT, "default"),
    "automountServiceAccountToken": refused("can only be false: there is no such token; leave it out", False),
    "nodeName": translated("the host of the node; the scheduler still decides when"),
    "hostNetwork": translated("with an image the network `host`; a process has its node's network anyway"),
    "hostPID": refused(_OWN_SPACES, False),
    "hostIPC": refused(_OWN_SPACES, False),
    "shareProcessNamespace": refused(_OWN_SPACES, False),
    "securityContext": refused(_AS_SUBMITTER),
    "imagePullSecrets": refused(
        "is not supported: a node fetches images with its own credentials (registry_auth); leave it out"
    ),
    "hostname": refused(_NO_NAMES),
    "subdomain": refused(_NO_NAMES),
    "affinity": refused("is not supported: say nodeSelector, or --where 'zone in (a, b)', and leave it out"),
    "schedulerName": refused("names a scheduler that is not here: leave it out", "default-scheduler"),
    "tolerations": translated("see below", of="Toleration"),
    "hostAliases": refused(_NO_NAMES),
    "priorityClassName": translated(
        "`real-time`, `high`, `default`, `low` or `best-effort`, also with `-priority` behind it"
    ),
    "priority": refused("is set by a Kubernetes server: say priorityClassName, or --priority"),
    "dnsConfig": refused("is not supported: names are resolved as on the node; leave it out"),
    "readinessGates": refused(_NO_PROBES),
    "runtimeClassName": refused(
        "can only be nvidia: a node knows how GPUs get into its containers", "nvidia"
    ),
    "enableServiceLinks": honoured("there are no services here that could be linked"),
    "preemptionPolicy": refused(
        "can only be PreemptLowerPriority: the class decides", "PreemptLowerPriority"
    ),
    "overhead": refused("is not supported: only what the container asks for is reserved; leave it out"),
    "topologySpreadConstraints": refused("is not supported: say nodeSelector, and leave it out"),
    "setHostnameAsFQDN": refused(_NO_NAMES, False),
    "os": refused("can only be linux", {"name": "linux"}),
    "hostUsers": refused("can only be true: users are the node's own; leave it out", True),
    "schedulingGates": refused("is not supported: say spec.suspend, or --hold, and leave it out"),
    "resourceClaims": refused("is not supported: say nvidia.com/gpu in the container's limits"),
    "resources": refused("is not supported of a whole pod: say it of the container"),
    "hostnameOverride": refused(_NO_NAMES),
    "schedulingGroup": refused("is not supported: tasks that start together are a gang (--nodes, --ntasks)"),
    "evictionResponders": refused(
        "is not supported: a task is told by SIGTERM that it gives way; leave it out"
    ),
}
TOLERATION: Table = {
    "key": honoured("with `Exists` and without a key: every taint"),
    "operator": honoured("`Equal` or `Exists`"),
    "value": translated("without one `Equal` tolerates every value of the key"),
    "effect": honoured("only `NoSchedule`: taints have no other effect here"),
    "tolerationSeconds": refused(
        "is not supported: the cluster decides when a node counts as lost; leave it out"
    ),
}
CONTAINER: Table = {
    "name": honoured("what podFailurePolicy calls it; the job's name if that has none"),
    "image": honoured("without one it runs as a process of its node, in the caller's directory"),
    "command": honoured("instead of the image's entry point; `$(NAME)` is replaced"),
    "args": honoured("what the entry point or the command is given; `$(NAME)` is replaced"),
    "workingDir": honoured("in the container; of a process: on its node"),
    "ports": refused("is not supported: nobody is let in from outside; leave it out"),
    "envFrom": refused("is not supported: name each variable in env; secrets by valueFrom.secretKeyRef"),
    "env": honoured("see below", of="EnvVar"),
    "resources": honoured("see below", of="ResourceRequirements"),
    "resizePolicy": refused("is not supported: what a task has stays as it is; leave it out"),
    "restartPolicy": refused("is not supported of a container: say it of the pod"),
    "restartPolicyRules": refused("is not supported: say spec.podFailurePolicy"),
    "volumeMounts": refused(_NO_VOLUMES),
    "volumeDevices": refused(_NO_VOLUMES),
    "livenessProbe": refused(_NO_PROBES),
    "readinessProbe": refused(_NO_PROBES),
    "startupProbe": refused(_NO_PROBES),
    "lifecycle": refused(
        "is not supported: handle SIGTERM, or another signal with --stop-signal; leave it out"
    ),
    "terminationMessagePath": refused(
        "is not supported: what it prints is kept (`tgpu logs`); leave it out", "/dev/termination-log"
    ),
    "terminationMessagePolicy": refused(
        "is not supported: what it prints is kept (`tgpu logs`); leave it out", "File"
    ),
    "imagePullPolicy": translated("`Always`, `IfNotPresent` or `Never`; the digest is found at submission"),
    "securityContext": honoured("see below; only with an image", of="SecurityContext"),
    "stdin": translated("only with `tty`"),
    "stdinOnce": refused("can only be false: its terminal stays open; leave it out", False),
    "tty": translated("a terminal of its own (`tgpu attach`)"),
}
ENV_VAR: Table = {
    "name": honoured(
        "the variable; those that tgpu sets itself, such as CUDA_VISIBLE_DEVICES and JOB_COMPLETION_INDEX, "
        "are refused with other values"
    ),
    "value": honoured("its value; `$(NAME)` is replaced by variables that stand before it"),
    "valueFrom": honoured("see below", of="EnvVarSource"),
}
ENV_VAR_SOURCE: Table = {
    "fieldRef": translated("see below", of="ObjectFieldSelector"),
    "resourceFieldRef": refused("is not supported: write the value out"),
    "configMapKeyRef": refused("is not supported: write the value out"),
    "secretKeyRef": translated("see below", of="SecretKeySelector"),
    "fileKeyRef": refused("is not supported: write the value out"),
}
OBJECT_FIELD_SELECTOR: Table = {
    "apiVersion": refused("can only be v1", "v1"),
    "fieldPath": translated(
        "`metadata.labels['NAME']` and `metadata.annotations['NAME']` of the pod, with "
        "`batch.kubernetes.io/job-completion-index` and `batch.kubernetes.io/job-name`; `metadata.name`: "
        "NAME-JOB-TASK-ATTEMPT; `metadata.namespace`; `spec.nodeName`: the node"
    ),
}
SECRET_KEY_SELECTOR: Table = {
    "name": translated("the user's secret NAME.KEY: `tgpu secret set NAME.KEY`"),
    "key": translated("see name"),
    "optional": refused("can only be false: a secret that is missing is told at submission", False),
}
RESOURCES: Table = {
    "limits": translated(
        "`cpu` and `memory`: what it may use at most (without one: what it reserves); `nvidia.com/gpu`; "
        "other names with a `/` are named resources; what is only limited is reserved, too"
    ),
    "requests": honoured("what it reserves; `ephemeral-storage` as well, the larger of request and limit"),
    "claims": refused("is not supported: say nvidia.com/gpu in the limits"),
}
SECURITY_CONTEXT: Table = {
    "capabilities": honoured("see below", of="Capabilities"),
    "privileged": refused("can only be false: no container is privileged", False),
    "seLinuxOptions": refused(_AS_SUBMITTER),
    "windowsOptions": refused("is not supported: nodes run Linux; leave it out"),
    "runAsUser": refused(_AS_SUBMITTER),
    "runAsGroup": refused(_AS_SUBMITTER),
    "runAsNonRoot": refused(_AS_SUBMITTER, False),
    "readOnlyRootFilesystem": honoured("nothing can be written but mounts and /tmp"),
    "allowPrivilegeEscalation": refused("can only be false: no container gets more rights", False),
    "procMount": refused("can only be Default", "Default"),
    "seccompProfile": refused("can only be RuntimeDefault: the engine's own", {"type": "RuntimeDefault"}),
    "appArmorProfile": refused("can only be RuntimeDefault: the engine's own", {"type": "RuntimeDefault"}),
}
CAPABILITIES: Table = {
    "add": refused("is not supported: a container has no capabilities; leave it out"),
    "drop": honoured("all are dropped anyway"),
}
