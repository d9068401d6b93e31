"""From records to tables, figures, sentences and one page. Nothing here imports JAX."""
