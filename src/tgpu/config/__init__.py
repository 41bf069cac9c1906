"""Settings: one TOML file, each key also an environment variable."""
