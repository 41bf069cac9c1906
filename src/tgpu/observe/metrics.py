"""What is counted and measured, for Prometheus and for `tgpu stats`; each instance has its own registry."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from tgpu.domain.lifecycle import Status
from tgpu.domain.views import NodeView, Quantiles
from tgpu.observe.node_gauges import NodeGauges

_WAIT_S = (0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)
_RUN_S = (0.1, 1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600, 7 * 24 * 3600)
_FAST_S = (0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_REMEMBERED = 2048  # enough for a steady 99th percentile, little enough to sort on every request
_LEADS = "1 on the server that leads, 0 on the others."
_STORE_UP = "0 while this server's store is away, 1 otherwise."
_SHARES = (0.50, 0.90, 0.99)


class Recent:
    """The last few observations, for percentiles a person can read without a query language."""

    def __init__(self) -> None:
        self._values: deque[float] = deque(maxlen=_REMEMBERED)
        self._count = 0

    def add(self, value: float) -> None:
        self._values.append(value)
        self._count += 1

    def summary(self) -> Quantiles:
        return replace(quantiles(self._values), count=self._count)


def quantiles(values: Iterable[float]) -> Quantiles:
    ordered = sorted(values)
    if not ordered:
        return Quantiles()
    last = len(ordered) - 1
    return Quantiles(len(ordered), *(round(ordered[round(share * last)], 6) for share in _SHARES))


class _ByLabels(dict[tuple[str | int, ...], Histogram]):
    """A histogram's children by their labels, looked up without the library's lock."""

    def __init__(self, parent: Histogram) -> None:
        super().__init__()
        self._parent = parent

    def __missing__(self, labels: tuple[str | int, ...]) -> Histogram:
        child = self[labels] = self._parent.labels(*labels)
        return child


class Metrics:
    """Observations are pushed by whoever sees them happen; gauges are filled when somebody looks."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self._submissions = Counter("tgpu_submissions", "Jobs accepted.", registry=registry)
        self._placements = Counter("tgpu_placements", "Assignments committed.", registry=registry)
        self._drift = Counter(
            "tgpu_picture_drift",
            "Differences found between the picture in memory and the database, and mended.",
            registry=registry,
        )
        self._ledger = Counter(
            "tgpu_ledger_differences",
            "Numbers of the quotas' ledger that had to be put right.",
            registry=registry,
        )
        self._faults = Counter(
            "tgpu_control_faults", "Exceptions in the control loop that were contained.", registry=registry
        )
        self._refused = Counter(
            "tgpu_invalid_messages", "Invalid messages of agents; each ended its stream.", registry=registry
        )
        self._wait = Histogram(
            "tgpu_wait_seconds",
            "From submission to start.",
            ["priority_class"],
            buckets=_WAIT_S,
            registry=registry,
        )
        self._run = Histogram(
            "tgpu_run_seconds", "From start to end.", ["outcome"], buckets=_RUN_S, registry=registry
        )
        self._completion = Histogram(
            "tgpu_completion_seconds",
            "From submission to end.",
            ["outcome"],
            buckets=_RUN_S,
            registry=registry,
        )
        self._start_estimates = Counter(
            "tgpu_start_estimates",
            "Jobs that have started after an estimate of their start, by whether they started inside it.",
            ["horizon", "inside"],
            registry=registry,
        )
        self._start_error = Histogram(
            "tgpu_start_estimate_error_seconds",
            "Between the expected and the actual start.",
            ["horizon"],
            buckets=_WAIT_S,
            registry=registry,
        )
        self._decision = self._fast("tgpu_decision_seconds", "How long a decision took.")
        self._cycle = self._fast("tgpu_cycle_seconds", "One scheduling cycle.")
        self._commit = self._fast("tgpu_commit_seconds", "One commit of the control loop.")
        self._requests = Histogram(
            "tgpu_http_request_seconds",
            "From a request's arrival to the first byte of its answer.",
            ["method", "route", "status"],
            buckets=_FAST_S,
            registry=registry,
        )
        self._jobs = Gauge("tgpu_jobs", "Jobs by status.", ["status"], registry=registry)
        self._live = Gauge(
            "tgpu_live_jobs", "Jobs that wait or run, by user.", ["user", "status"], registry=registry
        )
        self._alert = Gauge(
            "tgpu_alert", "1 while something is wrong that does not mend itself.", ["name"], registry=registry
        )
        self._alerts: dict[str, bool] = {}
        self._leads = Gauge("tgpu_leads", _LEADS, registry=registry)
        Gauge("tgpu_store_up", _STORE_UP, registry=registry).set(1)  # else `without_store` is told
        self._nodes = NodeGauges(registry)
        self._wait_of, self._run_of = _ByLabels(self._wait), _ByLabels(self._run)
        self._completion_of, self._request_of = _ByLabels(self._completion), _ByLabels(self._requests)
        self._decisions = Recent()

    def _fast(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, buckets=_FAST_S, registry=self.registry)

    def count_submissions(self, number: int) -> None:
        self._submissions.inc(number)

    def count_placements(self, number: int) -> None:
        self._placements.inc(number)

    def count_drift(self, number: int) -> None:
        self._drift.inc(number)

    def count_ledger_differences(self, number: int) -> None:
        self._ledger.inc(number)

    def count_fault(self, why: str) -> None:
        del why  # in the log
        self._faults.inc()

    def count_invalid_message(self) -> None:
        self._refused.inc()

    def note_alert(self, name: str, *, on: bool) -> None:
        self._alerts[name] = on

    def observe_wait(self, priority_class: str, seconds: float) -> None:
        self._wait_of[priority_class,].observe(seconds)

    def observe_run(self, outcome: str, seconds: float) -> None:
        self._run_of[outcome,].observe(seconds)

    def observe_completion(self, outcome: str, seconds: float) -> None:
        self._completion_of[outcome,].observe(seconds)

    def observe_start_estimate(self, horizon: str, *, inside: bool, error_s: float) -> None:
        self._start_estimates.labels(horizon, "true" if inside else "false").inc()
        self._start_error.labels(horizon).observe(error_s)

    def observe_decision(self, seconds: float) -> None:
        self._decision.observe(seconds)
        self._decisions.add(seconds)

    def observe_cycle(self, seconds: float) -> None:
        self._cycle.observe(seconds)

    def observe_commit(self, seconds: float) -> None:
        self._commit.observe(seconds)

    def observe_request(self, method: str, route: str, status: int, seconds: float) -> None:
        self._request_of[method, route, status].observe(seconds)

    def decisions(self) -> Quantiles:
        """Percentiles of the latest scheduling cycles of this server, in seconds."""
        return self._decisions.summary()

    def of_a_follower(self, tenants: Collection[str] | None = None) -> bytes:
        """What this server has seen happen. What is true of the cluster is told by its leader alone, so that
        sums over all servers count it once. `tenants`: the only ones of whom alerts may speak."""
        self._leads.set(0)
        self._fill({}, {}, ())
        self._fill_alerts(tenants)
        return generate_latest(self.registry)

    def without_store(self) -> bytes:
        """What can be told to anybody while the store is away: that it is, and that nobody leads."""
        registry = CollectorRegistry()
        Gauge("tgpu_leads", _LEADS, registry=registry).set(0)
        Gauge("tgpu_store_up", _STORE_UP, registry=registry).set(0)
        return generate_latest(registry)

    def exposition(
        self,
        by_status: Mapping[Status, int],
        live_by_user: Mapping[tuple[str, Status], int],
        nodes: Sequence[NodeView],
        tenants: Collection[str] | None = None,
    ) -> bytes:
        """Everything in Prometheus' text format, as the leader has it: the gauges filled with what was just
        read. `tenants`: the only ones of whom alerts may speak."""
        self._leads.set(1)
        self._fill({status: by_status.get(status, 0) for status in Status}, live_by_user, nodes)
        self._fill_alerts(tenants)
        return generate_latest(self.registry)

    def _fill(
        self,
        by_status: Mapping[Status, int],
        live_by_user: Mapping[tuple[str, Status], int],
        nodes: Sequence[NodeView],
    ) -> None:
        self._jobs.clear()
        self._live.clear()
        for status, number in by_status.items():
            self._jobs.labels(status.value).set(number)
        for (user, status), number in live_by_user.items():
            self._live.labels(user, status.value).set(number)
        self._nodes.fill(nodes)

    def _fill_alerts(self, tenants: Collection[str] | None) -> None:
        """An alert about a tenant has it in its name, such as `budget-spent:lab`."""
        self._alert.clear()
        for name, on in self._alerts.items():
            about = name.partition(":")[2]
            if not about or tenants is None or about in tenants:
                self._alert.labels(name).set(on)
