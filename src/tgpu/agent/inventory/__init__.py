"""What this node has, what of it is offered, and how much of it is in use."""

from tgpu.agent.inventory.offer import Inventory

__all__ = ["Inventory"]
