"""The fields that the API of Kubernetes 1.37 describes, object by object: what the tables must cover."""

FIELDS = {
    name: fields.split()
    for name, fields in {
        "Job": "apiVersion kind metadata spec status",
        "ObjectMeta": """
            name generateName namespace selfLink uid resourceVersion generation creationTimestamp
            deletionTimestamp deletionGracePeriodSeconds labels annotations ownerReferences finalizers
            managedFields""",
        "JobSpec": """
            parallelism completions activeDeadlineSeconds podFailurePolicy successPolicy backoffLimit
            backoffLimitPerIndex maxFailedIndexes selector manualSelector template ttlSecondsAfterFinished
            completionMode suspend podReplacementPolicy managedBy scheduling""",
        "PodFailurePolicy": "rules",
        "PodFailurePolicyRule": "action onExitCodes onPodConditions",
        "PodFailurePolicyOnExitCodesRequirement": "containerName operator values",
        "PodFailurePolicyOnPodConditionsPattern": "type status",
        "PodTemplateSpec": "metadata spec",
        "PodSpec": """
            volumes initContainers containers ephemeralContainers restartPolicy terminationGracePeriodSeconds
            activeDeadlineSeconds dnsPolicy nodeSelector serviceAccountName serviceAccount
            automountServiceAccountToken nodeName hostNetwork hostPID hostIPC shareProcessNamespace
            securityContext imagePullSecrets hostname subdomain affinity schedulerName tolerations hostAliases
            priorityClassName priority dnsConfig readinessGates runtimeClassName enableServiceLinks
            preemptionPolicy overhead topologySpreadConstraints setHostnameAsFQDN os hostUsers schedulingGates
            resourceClaims resources hostnameOverride schedulingGroup evictionResponders""",
        "Toleration": "key operator value effect tolerationSeconds",
        "Container": """
            name image command args workingDir ports envFrom env resources resizePolicy restartPolicy
            restartPolicyRules volumeMounts volumeDevices livenessProbe readinessProbe startupProbe lifecycle
            terminationMessagePath terminationMessagePolicy imagePullPolicy securityContext stdin stdinOnce
            tty""",
        "EnvVar": "name value valueFrom",
        "EnvVarSource": "fieldRef resourceFieldRef configMapKeyRef secretKeyRef fileKeyRef",
        "ObjectFieldSelector": "apiVersion fieldPath",
        "SecretKeySelector": "name key optional",
        "ResourceRequirements": "limits requests claims",
        "SecurityContext": """
            capabilities privileged seLinuxOptions windowsOptions runAsUser runAsGroup runAsNonRoot
            readOnlyRootFilesystem allowPrivilegeEscalation procMount seccompProfile appArmorProfile""",
        "Capabilities": "add drop",
    }.items()
}
FIELDS["PodMeta"] = FIELDS["ObjectMeta"]
