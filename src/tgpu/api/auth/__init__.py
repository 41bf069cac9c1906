"""Authentication of browsers: web sessions, one-time sign-in links and WebSocket tickets."""
