"""The service under faults: killed at any point, on a full disk. Its history must be that of an undisturbed run."""
