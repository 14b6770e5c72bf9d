"""What the stages know about text: pure functions and tables, without requests, chunks or settings."""
