"""Every endpoint there is, in one table."""

from tgpu.api.endpoint import Endpoint
from tgpu.api.identity import Identity
from tgpu.api.routes import cancel, events, jobs, logs, nodes, service, stats, submit, tenants, tokens
from tgpu.api.services import Services


def endpoints(services: Services, identity: Identity) -> tuple[Endpoint, ...]:
    table = (
        *submit.endpoints(services),
        *jobs.ENDPOINTS,
        *cancel.ENDPOINTS,
        *logs.ENDPOINTS,
        *nodes.ENDPOINTS,
        *stats.ENDPOINTS,
        *tenants.ENDPOINTS,
        *tokens.endpoints(identity),
        *events.ENDPOINTS,
    )
    return (*table, *service.endpoints(services, table))
