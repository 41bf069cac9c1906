"""The endpoints, one file per subject."""
