"""The picture as arrays: what the kernel reads. Kept up to date by the picture alone."""
