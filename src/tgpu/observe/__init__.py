"""What can be seen of a running tgpu: logs and metrics."""
