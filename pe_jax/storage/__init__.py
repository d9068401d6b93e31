"""What runs leave on disk: atomic writes, locks, hashes, checkpoints, histories, records."""
