"""Speaks to a server; light enough for a command line."""
