"""Writes the generated parts of README.md and docs/ and the site, and executes the notebook."""
