"""What is decided: plan(picture, policy) -> Plan, pure."""
