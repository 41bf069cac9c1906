"""HTTP plumbing of the server beside the API's endpoints."""
