"""The settings about measuring what tasks use."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class UseSettings:
    """A part of `Settings`."""

    sample_s: float = setting(
        5.0, "How often an agent looks at what each running task uses, in seconds; at least 1."
    )
