"""Every endpoint there is, in one table."""

from tgpu.api.endpoint import Endpoint
from tgpu.api.identity import Identity
from tgpu.api.routes import (
    cancel,
    cluster,
    events,
    jobs,
    join_tokens,
    joining,
    logs,
    node_orders,
    nodes,
    service,
    settings,
    stats,
    submit,
    tenants,
    tokens,
    windows,
)
from tgpu.api.services import Services


def endpoints(services: Services, identity: Identity) -> tuple[Endpoint, ...]:
    table = (
        *submit.endpoints(services),
        *jobs.ENDPOINTS,
        *cancel.ENDPOINTS,
        *logs.ENDPOINTS,
        *nodes.ENDPOINTS,
        *node_orders.ENDPOINTS,
        *windows.ENDPOINTS,
        *stats.ENDPOINTS,
        *cluster.ENDPOINTS,
        *settings.ENDPOINTS,
        *tenants.ENDPOINTS,
        *tokens.endpoints(identity),
        *join_tokens.ENDPOINTS,
        *joining.endpoints(),
        *events.ENDPOINTS,
    )
    return (*table, *service.endpoints(services, table))
