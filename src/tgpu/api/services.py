"""Everything a request may need, handed in once by whoever wires the server."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tgpu.api.accounts import Accounts
from tgpu.api.allocation_cache import AllocationCache
from tgpu.api.auth.browser_access import BrowserAccess
from tgpu.api.body_budget import BodyBudget
from tgpu.api.feed import Feed
from tgpu.api.overview_documents import OverviewDocuments
from tgpu.api.overview_feed import OverviewFeed
from tgpu.api.ports import Live, LogReader, ShellDesk
from tgpu.api.snapshot_port import NoSnapshots, SnapshotDesk
from tgpu.api.turns import Turns
from tgpu.config.dashboard_folder import DASHBOARD
from tgpu.config.settings import Settings
from tgpu.observe.metrics import Metrics
from tgpu.protocol.job_keys import JobKeys
from tgpu.store.cluster_port import ServerRow
from tgpu.store.port import Store


@dataclass(frozen=True, slots=True)
class Services:
    store: Store
    live: Live
    logs: LogReader
    shells: ShellDesk
    settings: Settings
    metrics: Metrics
    feed: Feed
    now_ms: Callable[[], int]
    version: str
    accounts: Accounts = field(default_factory=Accounts)
    bodies: BodyBudget = field(default_factory=BodyBudget)
    names: frozenset[str] = frozenset()
    """Under which this server may be called, besides loopback and the address it is reached at."""
    browser: BrowserAccess = field(default_factory=BrowserAccess)
    dashboard: Path = DASHBOARD
    """The folder of its files."""
    ca_pem: str | None = None
    """The cluster's own authority, if TLS is signed by it."""
    servers: Callable[[], Sequence[str]] = tuple
    """Where the servers of this cluster are."""
    snapshots: SnapshotDesk = field(default_factory=NoSnapshots)
    is_cut_off: Callable[[], bool] = bool
    """Whether the store was away when this server last wrote there of itself."""
    job_keys: JobKeys | None = None
    """By which jobs speak for themselves; None: they do not."""
    allocations: AllocationCache = field(default_factory=AllocationCache)
    overviews: OverviewFeed = field(default_factory=OverviewFeed)
    overview_documents: OverviewDocuments = field(default_factory=OverviewDocuments)
    turns: Turns = field(default_factory=Turns)
    """For requests that read a lot."""
    preview_turns: Turns = field(default_factory=Turns)
    """For plan previews, which wait for the leader's time."""
    disk_shortage: Callable[[], str | None] = lambda: None
    """Why no new data of users' may be stored here now; None: it may."""
    alone: ServerRow | None = None
    """This server, if no other can use its store: then it does not write down that it is still there."""
