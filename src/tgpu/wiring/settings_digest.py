"""A digest of the settings that all servers of a cluster must have alike: whoever leads decides by them."""

import hashlib
from dataclasses import asdict

from tgpu.config.settings import Settings

SHARED = (
    "policy", "scorer", "default_limit", "max_wait", "reserve", "aging_step", "aging_most", "preemption",
    "min_run", "preemption_backoff", "fair_half_life", "cpu_overcommit", "memory_overcommit",
    "cluster_generic", "shared_paths", "admins", "others_may", "others_see", "tenant_rules",
    "job_keys", "join_approval", "default_cpus", "default_memory", "max_grace", "max_priority",
    "user_classes", "on_gpu_failure",
    "pin_images", "heartbeat_s", "node_silent_s", "gang_start_s", "pools", "shared_tmp", "tiers", "prices",
)  # fmt: skip


def digest_of(settings: Settings) -> str:
    """Of each by its name, so that a server can say which differ and nobody can read what they are."""
    values = asdict(settings)
    return " ".join(f"{name}:{_short(repr((name, values[name])))}" for name in sorted(SHARED))


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
