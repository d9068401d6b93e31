"""The fault suite: runs and sweeps are killed, and their files damaged; then the same command must
come to the rows of an undisturbed one, or name what was lost.

__main__   the command of scripts/faults, and the table
toy        the small runs that faults are done to, and what came of a fault
files      damage to every file of a run
processes  runs and sweeps whose processes are killed
disk       commands on a disk that becomes full
"""
