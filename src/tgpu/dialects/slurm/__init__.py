"""Slurm: its flags, its words and its ways of saying things."""
