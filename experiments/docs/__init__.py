"""What writes the generated parts of README.md and NOTES.md, and executes the notebook."""
