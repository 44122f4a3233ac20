"""The tables as read-only tools for assistants, by the Model Context Protocol (MCP)."""
