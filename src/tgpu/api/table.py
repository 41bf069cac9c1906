"""Every endpoint there is, in one table."""

from tgpu.api.endpoint import Endpoint
from tgpu.api.routes import (
    audit,
    cancel,
    cluster,
    events,
    jobs,
    join_tokens,
    joining,
    logs,
    members,
    node_orders,
    nodes,
    queues,
    quotas,
    report,
    secrets,
    service,
    settings,
    stats,
    submit,
    tasks,
    tenant_moves,
    tenants,
    terminal,
    tokens,
    whoami,
    windows,
)
from tgpu.api.services import Services


def endpoints(services: Services) -> tuple[Endpoint, ...]:
    table = (
        *submit.endpoints(services),
        *jobs.ENDPOINTS,
        *tasks.ENDPOINTS,
        *cancel.ENDPOINTS,
        *logs.ENDPOINTS,
        *terminal.ENDPOINTS,
        *nodes.ENDPOINTS,
        *queues.ENDPOINTS,
        *node_orders.ENDPOINTS,
        *windows.ENDPOINTS,
        *stats.ENDPOINTS,
        *report.ENDPOINTS,
        *cluster.ENDPOINTS,
        *settings.ENDPOINTS,
        *tenants.ENDPOINTS,
        *tenant_moves.ENDPOINTS,
        *quotas.ENDPOINTS,
        *members.ENDPOINTS,
        *tokens.ENDPOINTS,
        *secrets.ENDPOINTS,
        *audit.ENDPOINTS,
        *join_tokens.ENDPOINTS,
        *joining.endpoints(),
        *events.ENDPOINTS,
        *whoami.ENDPOINTS,
    )
    return (*table, *service.endpoints(services, table))
