"""The settings about containers: which engine a node uses, and what it lets containers have."""

from dataclasses import dataclass

from tgpu.config.setting import setting


@dataclass(frozen=True, kw_only=True)  # without slots: `Settings` has several such parts
class ContainerSettings:
    """A part of `Settings`."""

    docker_host: str = setting(
        "auto",
        "The container engine of this node, for jobs with an image: a URL such as "
        "`unix:///run/user/1000/docker.sock`. `auto`: as DOCKER_HOST says, else the socket of Docker or "
        "Podman where it usually is. `off`: none.",
    )
    pin_images: str = setting(
        "on",
        "`on`: what the name of an image means is asked of its registry when a job is submitted, and that is "
        "what runs. `off`: the name is read when the job starts. A setting of the servers.",
    )
    mount_allow: tuple[str, ...] = setting(
        ("~",),
        "Directories of this node below which containers may have mounts; `~` is the home of the job's user. "
        "Those of `shared_paths` are allowed, too, except `/`.",
    )
    container_networks: tuple[str, ...] = setting(
        ("bridge", "host", "none"),
        "Networks that containers may use; the first is what one gets that does not say, unless it is of a "
        "gang: these meet on `host`.",
    )
    gpu_injection: str = setting(
        "auto",
        "How containers of this node get their GPUs: `nvidia` (by NVIDIA's runtime), `cdi` (by CDI), `off` "
        "(not at all), `auto`: as the engine can.",
    )
    registry_auth: str = setting(
        "",
        "The file with this node's credentials for registries, as `docker login` writes it; empty: "
        ".docker/config.json in the home of the agent's user.",
    )
    container_keep: str = setting(
        "120s", "How long a container of this node is kept after its end, for people to look at."
    )


CONTAINER_CHOICES = {
    "pin_images": ("on", "off"),
    "gpu_injection": ("auto", "nvidia", "cdi", "off"),
}
