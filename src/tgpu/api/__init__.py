"""The HTTP API: records what users ask for, shows what is; never schedules."""
