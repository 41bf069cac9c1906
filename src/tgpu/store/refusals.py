"""What every refusal of a store is."""


class StoreError(Exception):
    """A request that the store refuses; nothing was changed."""
