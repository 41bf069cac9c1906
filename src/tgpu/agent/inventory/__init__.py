"""What this node has, what of it is offered, and how much of it is in use."""

from tgpu.agent.inventory.offer import Inventory
from tgpu.agent.inventory.owners import Owners

__all__ = ["Inventory", "Owners"]
