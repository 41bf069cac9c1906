"""tgpu: a multi-user job scheduler for GPUs and ML work."""

from tgpu.checkpoint import checkpointed

__all__ = ["__version__", "checkpointed"]
__version__ = "0.1.0"
