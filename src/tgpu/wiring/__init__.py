"""Puts the parts together into processes."""
