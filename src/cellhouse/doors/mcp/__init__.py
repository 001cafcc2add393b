"""MCP: a house as tools and resources for models, over standard input and output or streamable HTTP."""
