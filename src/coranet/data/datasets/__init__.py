"""Where scans come from, one dataset a file."""
