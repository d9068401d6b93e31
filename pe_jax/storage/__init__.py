"""Files that are whole or absent: atomic writes, locks, hashes, checkpoints, histories, records."""
