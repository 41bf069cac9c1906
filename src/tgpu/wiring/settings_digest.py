"""A digest of the settings that all servers of a cluster must have alike: whoever leads decides by them."""

import hashlib
from dataclasses import asdict

from tgpu.config.settings import Settings

SHARED = (
    "policy", "scorer", "default_limit", "reserve", "aging_step", "aging_most", "preemption", "min_run",
    "preemption_backoff", "fair_half_life", "cpu_overcommit", "memory_overcommit", "cluster_generic",
    "shared_paths", "admins", "others_may", "default_cpus", "default_memory", "heartbeat_s", "node_silent_s",
    "pools",
)  # fmt: skip


def digest_of(settings: Settings) -> str:
    values = asdict(settings)
    return hashlib.sha256(repr([(name, values[name]) for name in SHARED]).encode()).hexdigest()[:16]
