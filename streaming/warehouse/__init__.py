"""The Delta tables as we write them: appends that read nothing of a table, its files' statistics, where files are."""
