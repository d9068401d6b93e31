"""The fault suite: runs and sweeps are killed, and their files damaged; then the same command must
come to the rows of an undisturbed one, or name what was lost.

__main__  the command of scripts/faults
toy       the small runs that faults are done to
files     damage to every file of a run
kills     one run killed at random moments
sweeps    sweeps whose processes are killed, by each engine
disk      commands on a disk that becomes full
outcome   what came of it, and the table
"""
