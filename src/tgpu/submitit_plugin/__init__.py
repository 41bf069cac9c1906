"""submitit on tgpu: `AutoExecutor(folder, cluster="tgpu")`. submitit loads this by its entry points."""

from tgpu.submitit_plugin.environment import TgpuJobEnvironment
from tgpu.submitit_plugin.executor import TgpuExecutor
from tgpu.submitit_plugin.job import TgpuJob
from tgpu.submitit_plugin.torch_environment import install

install()

__all__ = ["TgpuExecutor", "TgpuJob", "TgpuJobEnvironment"]
