"""`batch/v1` Job manifests: what is in them becomes a job of tgpu, or is refused by its path."""

from tgpu.dialects.kubernetes.problems import ManifestError
from tgpu.dialects.kubernetes.translation import job_fields, path_of, warnings

__all__ = ["ManifestError", "job_fields", "path_of", "warnings"]
