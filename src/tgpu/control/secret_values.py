"""Puts users' secrets into the launches that name them, on their way out; they are kept nowhere else."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from tgpu.protocol.messages import Launch

IN_STORE = "store:"
Bodies = Callable[[str, Sequence[str]], Awaitable[dict[str, bytes]]]
"""By user and names; those that there are not are missing."""


def names_secrets(launch: Launch) -> bool:
    return any(reference.startswith(IN_STORE) for reference in launch.secret_env.values())


async def revealed(launches: Sequence[Launch], bodies: Bodies) -> list[Launch]:
    """A name that there is no more is left as it is: the node refuses such a task, and says why."""
    wanted: dict[str, set[str]] = {}
    for launch in launches:
        names = (ref.removeprefix(IN_STORE) for ref in launch.secret_env.values() if ref.startswith(IN_STORE))
        wanted.setdefault(launch.user, set()).update(names)
    found = {user: await bodies(user, sorted(names)) for user, names in wanted.items() if names}
    return [_filled(launch, found.get(launch.user, {})) for launch in launches]


def _filled(launch: Launch, bodies: dict[str, bytes]) -> Launch:
    env, left = dict(launch.env), dict(launch.secret_env)
    for variable, reference in launch.secret_env.items():
        body = bodies.get(reference.removeprefix(IN_STORE)) if reference.startswith(IN_STORE) else None
        if body is not None:
            env[variable] = body.decode().removesuffix("\n")
            del left[variable]
    return replace(launch, env=env, secret_env=left)
