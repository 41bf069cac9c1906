"""Judges what a job says of its container, and finds out what its image's name means before it is kept."""

from collections.abc import Sequence
from dataclasses import replace

from tgpu.api.job_form import JobAsked
from tgpu.api.ports import Live, NoLeaderError
from tgpu.api.problems import ProblemError, inside, unprocessable
from tgpu.domain.container import (
    Container,
    ImageMeaning,
    Pull,
    image,
    is_pinned,
    mounts,
    network,
    path_inside,
    short_name,
)
from tgpu.domain.job import Group, JobSpec, LabelOp, LabelRule, Request
from tgpu.domain.node_terms import CONTAINERS_LABEL, HOST_LABEL
from tgpu.domain.quantities import MAX_MIB, BadQuantityError, whole

_HOST_NETWORK = "host"
_NEEDS_IMAGE = ("mounts", "shm_size_mb", "read_only", "network", "pull", "ignore_entrypoint", "container_cwd")


def container_of(asked: JobAsked, networks: Sequence[str]) -> Container | None:
    """`networks`: those that jobs may ask for. Raises ProblemError."""
    if asked.image is None:
        for field in _NEEDS_IMAGE:
            if getattr(asked, field):
                raise unprocessable(field, f"{field} is about a container: say image, too, or leave it out")
        return None
    try:
        return Container(
            image=image("image", asked.image),
            pull=asked.pull or Pull.MISSING,
            mounts=mounts("mounts", asked.mounts),
            shm_mib=None if asked.shm_size_mb is None else whole("shm_size_mb", asked.shm_size_mb, MAX_MIB),
            read_only=asked.read_only,
            network=None if asked.network is None else _network(asked.network, networks),
            ignores_entrypoint=asked.ignore_entrypoint,
            cwd=None if asked.container_cwd is None else path_inside("container_cwd", asked.container_cwd),
        )
    except BadQuantityError as error:
        raise unprocessable(str(error).partition(" ")[0], str(error)) from None


def check_way_of_life(asked: JobAsked, groups: Sequence[Group]) -> None:
    """What cannot be promised of a container."""
    if not any(group.container for group in groups):
        return
    if asked.once:
        raise unprocessable(
            "once",
            "once: a job with an image cannot live at most once, since nothing freezes its container while "
            "its agent is away; leave out once or image",
        )


def on_one_network(groups: tuple[Group, ...], networks: Sequence[str]) -> tuple[Group, ...]:
    """Of a gang: its tasks meet at addresses of their nodes, and a container has those only on the network of
    its node. Whoever names another knows what they do. Raises ProblemError."""
    unsaid = [group for group in groups if group.container is not None and group.container.network is None]
    if not unsaid or sum(group.tasks for group in groups) == 1:
        return groups
    if _HOST_NETWORK not in networks:
        raise unprocessable(
            "network",
            "network: the containers of a gang meet on the network of their nodes, and container_networks "
            f"does not allow {_HOST_NETWORK} here: name a network on which they reach each other (of "
            f"{', '.join(networks) or 'none'}), or ask an administrator to allow {_HOST_NETWORK}",
        )
    return tuple(_with_network(group, _HOST_NETWORK) if group in unsaid else group for group in groups)


def _with_network(group: Group, name: str) -> Group:
    assert group.container is not None
    return replace(group, container=replace(group.container, network=name))


def on_nodes_with_an_engine(request: Request) -> Request:
    rule = LabelRule(CONTAINERS_LABEL, LabelOp.EXISTS)
    return request if rule in request.node_rules else replace(request, node_rules=(*request.node_rules, rule))


def program_of(group: Group) -> tuple[str, ...] | str:
    """For its job's name: of a container that runs what its image says, the image."""
    if group.container is not None and not group.command:
        return (short_name(group.container.image),)
    return group.command


async def pinned_down(specs: Sequence[JobSpec], live: Live, *, many: bool) -> list[JobSpec]:
    """The same jobs, with the images that the names mean now. Each name is asked for once. Nobody to ask, or
    nobody who knows: the name is kept, and read when the job starts."""
    known: dict[tuple[str, bool], ImageMeaning] = {}
    found = []
    for index, spec in enumerate(specs):
        try:
            groups = [await _pinned(group, live, known) for group in spec.groups]
        except ProblemError as problem:
            raise (inside(problem, f"jobs[{index}]") if many else problem) from None
        found.append(replace(spec, groups=tuple(groups)))
    return found


async def _pinned(group: Group, live: Live, known: dict[tuple[str, bool], ImageMeaning]) -> Group:
    container = group.container
    if container is None:
        return group
    if is_pinned(container.image):
        return replace(group, container=replace(container, digest=container.image))
    asked = (container.image, container.pull is Pull.NEVER)
    if asked not in known:
        try:
            known[asked] = await live.resolve_image(*asked)
        except NoLeaderError:
            known[asked] = ImageMeaning()
    meaning = known[asked]
    if meaning.refusal:
        raise unprocessable("image", f"image: {meaning.refusal}")
    request = group.request
    if meaning.hosts:
        rule = LabelRule(HOST_LABEL, LabelOp.IN, meaning.hosts)
        request = replace(request, node_rules=(*request.node_rules, rule))
    return replace(group, request=request, container=replace(container, digest=meaning.digest))


def remark(why_not: str) -> str:
    """What a caller should know whose job has no node because of its image."""
    if CONTAINERS_LABEL not in why_not:
        return ""
    return (
        " (a job with an image needs a node with Docker or Podman; `tgpu doctor` there says what is missing)"
    )


def _network(asked: str, networks: Sequence[str]) -> str:
    name = network("network", asked)
    if name not in networks:
        raise BadQuantityError(
            f"network must be one of {', '.join(networks)} here, by the setting container_networks; "
            f"got {name!r}"
        )
    return name
