"""Copies of the code that jobs run, made when they are submitted."""
