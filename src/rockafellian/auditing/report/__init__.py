"""What an audit found, as files and as a page."""
