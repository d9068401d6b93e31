"""Training: the jitted step of all seeds, the loop around it, and the mesh of devices."""
