"""The logit of a hidden key."""

NEG = -1e30  # finite, so that hooks may compute with it
