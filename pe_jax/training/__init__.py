"""Training: the jitted step of all seeds, the loop around it, the mesh of devices, and processes
that share them.
"""
