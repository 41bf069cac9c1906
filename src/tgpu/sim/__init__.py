"""The real control loop and agent machine in virtual time."""
