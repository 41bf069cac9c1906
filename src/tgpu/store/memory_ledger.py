"""The ledger of a memory store: a book on its tenants, written back when all is decided."""

from dataclasses import dataclass, replace

from tgpu.domain.job import Request
from tgpu.domain.lifecycle import Cause, Status
from tgpu.domain.quota import Standing
from tgpu.domain.tenant import Tenant
from tgpu.store.access_port import Token
from tgpu.store.account import Account, account_of
from tgpu.store.book import Book, Charged, Lineage
from tgpu.store.token_cap import TokenCap


@dataclass(frozen=True, slots=True)
class MemoryTask:
    """What is remembered of a task beside its job."""

    request: Request
    standing: Standing
    waiting_since_ms: int
    status: Status = Status.PENDING
    attempts: int = 0
    reserved_gpu_ms: int = 0
    token_id: int | None = None
    cause: Cause | None = None
    """Why it was closed without having run."""
    detail: str = ""
    checkpoint_ms: int | None = None
    failures: int = 0
    eligible_ms: int = 0
    cancel_by: str | None = None
    restart_by: str | None = None

    @property
    def charged(self) -> Charged:
        return Charged(self.request, self.standing, self.reserved_gpu_ms)


class MemoryBook:
    def __init__(self, tenants: dict[str, Tenant], tokens: dict[int, Token]) -> None:
        self._tenants, self._tokens = tenants, tokens
        self._accounts: dict[str, Account] = {}
        self._caps: dict[int, TokenCap] = {}
        self.book = Book(self._open)

    def of(self, tenant_id: str) -> Lineage:
        return self.book.of(tenant_id)

    def shown(self, account: Account) -> Tenant:
        return account.shown_on(self._tenants[account.tenant_id])

    def cap(self, token_id: int | None) -> TokenCap | None:
        token = None if token_id is None else self._tokens.get(token_id)
        if token is None:
            return None
        return self._caps.setdefault(
            token.token_id, TokenCap(token.token_id, token.jobs_left, token.gpu_ms_left)
        )

    def give_back(self, token_id: int, gpu_ms: int) -> None:
        cap = self.cap(token_id)
        if cap is not None:
            cap.gpu_ms -= gpu_ms

    def write(self) -> None:
        for tenant_id, account in self._accounts.items():
            self._tenants[tenant_id] = self.shown(account)
        for token_id, cap in self._caps.items():
            self._tokens[token_id] = replace(
                self._tokens[token_id],
                jobs_left=None if cap.jobs_left is None else cap.jobs_left - cap.jobs,
                gpu_ms_left=None if cap.gpu_ms_left is None else cap.gpu_ms_left - cap.gpu_ms,
            )

    def _open(self, tenant_id: str) -> Account | None:
        tenant, account = self._tenants.get(tenant_id), self._accounts.get(tenant_id)
        if account is None and tenant is not None:
            account = self._accounts[tenant_id] = account_of(tenant)
        return account
