"""tgpu: a multi-user job scheduler for GPUs and ML work."""

__version__ = "0.1.0"
