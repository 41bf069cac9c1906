"""What one commit does to the ledger: gathered while tasks are moved, applied once their tenants are held.

Tenants are held after jobs and all at once, and which ones it takes shows only as the tasks are read; so what
ends is written down first, and charged when assignments have to be decided, or at the end.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from tgpu.store.book import Book, Lineage
from tgpu.store.sql import ledger, token_caps
from tgpu.store.sql.session import Session


class Postings:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._gathered: list[tuple[str, Callable[[Lineage], None]]] = []
        self._accounts: ledger.Accounts | None = None
        self._book = Book(lambda _: None)
        self._unused: defaultdict[int, int] = defaultdict(int)
        self._expected: set[str] = set()

    def post(self, tenant_id: str, act: Callable[[Lineage], None]) -> None:
        """To be done to the tenant and everybody above it; before the book is opened."""
        assert self._accounts is None, "assignments come last"
        self._gathered.append((tenant_id, act))

    def expect(self, tenant_ids: Iterable[str]) -> None:
        """These will be asked for, too, after the book was opened for others."""
        self._expected.update(tenant_ids)

    def give_back(self, token_id: int, gpu_ms: int) -> None:
        self._unused[token_id] += gpu_ms

    def book(self, tenant_ids: Iterable[str]) -> Book:
        """With these and all that something was posted for; to be asked for once."""
        if self._accounts is None:
            wanted = {tenant_id for tenant_id, _ in self._gathered}.union(tenant_ids, self._expected)
            self._accounts = ledger.hold(self._session, wanted)
            self._book = Book(self._accounts.get)
            for tenant_id, act in self._gathered:
                act(self._book.of(tenant_id))
        return self._book

    def write(self) -> None:
        """Everything, after the last task was moved."""
        if self._gathered:
            self.book(())
        if self._accounts is not None:
            ledger.write(self._session, self._accounts.values())
        if self._unused:
            token_caps.give_back(self._session, self._unused)
