"""Upkeep of the Delta tables while others write and read them: old rows and unused files go, small files are joined."""
