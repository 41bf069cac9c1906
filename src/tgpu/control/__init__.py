"""The only place that knows both core and store: the loop, the picture, the committer, the hub."""
