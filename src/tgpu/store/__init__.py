"""What is remembered: durable facts behind one port."""
