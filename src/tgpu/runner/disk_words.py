"""Words for full disks, shared by supervisors and agents; imports nothing."""

DISK_FULL = "the disk of its node is full"
"""How the detail of an end begins that is to be blamed on that."""
