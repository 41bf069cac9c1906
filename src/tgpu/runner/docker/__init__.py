"""Runs attempts as containers, through the API of this node's engine: Docker's, or Podman's likeness."""
