"""submitit's `TorchDistributedEnvironment().export()` in a task of tgpu: ranks and GPUs are there already.

As it is, it refuses to set ranks that are set, though tgpu has set the same ones. And it takes its local rank
for the number of a GPU: true where the tasks of a node see the GPUs of all of them, counted from 0. Here a
task sees its own, and where nothing fences it in by their numbers on the node: that one may be another job's.
"""

import os

from submitit.helpers import TorchDistributedEnvironment

from tgpu.submitit_plugin.environment import TgpuJobEnvironment

_GPUS = "CUDA_VISIBLE_DEVICES"
_as_it_is = TorchDistributedEnvironment.export


def _export(
    self: TorchDistributedEnvironment, set_cuda_visible_devices: bool = True, overwrite: bool = False
) -> TorchDistributedEnvironment:
    if not isinstance(self._job_env, TgpuJobEnvironment):
        return _as_it_is(self, set_cuda_visible_devices, overwrite)
    _as_it_is(self, set_cuda_visible_devices=False, overwrite=overwrite or self._job_env.is_gang)
    if set_cuda_visible_devices and _GPUS in os.environ:
        os.environ[_GPUS] = os.environ[_GPUS].partition(",")[0]  # one GPU for each rank, as everywhere
    return self


def install() -> None:
    """Programs import submitit's own name, so it must mean this."""
    TorchDistributedEnvironment.export = _export  # type: ignore[method-assign]
