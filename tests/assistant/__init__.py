"""The tools of `balancewatch mcp`, asked by the client of the same package."""
