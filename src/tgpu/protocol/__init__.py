"""Versioned messages between server and agent, and how they are framed."""
