"""The languages that people already write jobs in, and what they mean here."""
