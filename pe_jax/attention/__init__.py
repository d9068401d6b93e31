"""Attention of one sequence under any encodings: dense, and blockwise in linear memory."""
