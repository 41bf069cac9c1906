"""What every refusal and every failure of a store is."""


class StoreError(Exception):
    """A request that the store refuses; nothing was changed."""


class StoreFailedError(Exception):
    def __init__(self, why: str, outcome: str = "") -> None:
        """`why`: with what to do about it. `outcome`: of the change; who only looks need not know it."""
        super().__init__(f"{why}; {outcome}" if outcome else why)
        self.why, self.outcome = why, outcome
