"""The official MCP conformance suite against this service: `make conformance`."""
