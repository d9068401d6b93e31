"""What writes the generated parts of README.md and docs/, and executes the notebook."""
