"""tgpu's own form of job files: YAML keys under the names people use, to the fields of the API."""
