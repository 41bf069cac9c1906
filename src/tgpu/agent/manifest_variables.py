"""What a task finds in its environment if its manifest asked what only its node knows."""

from tgpu.dialects.kubernetes.itself import told
from tgpu.domain.dialect import DialectName
from tgpu.domain.ids import AttemptId
from tgpu.protocol.messages import Launch


def manifest_variables(launch: Launch, node: str) -> dict[str, str]:
    """Nothing for jobs in other words."""
    if launch.dialect is None or launch.dialect.name is not DialectName.KUBERNETES:
        return {}
    return told(launch.dialect.annotations, AttemptId.parse(launch.attempt), launch.job_name, node)
