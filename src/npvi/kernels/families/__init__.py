"""One formula per file."""
