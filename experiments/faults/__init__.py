"""The fault suite: runs and sweeps are killed and their files damaged. The same command must then
produce the rows of an undisturbed run, or name what was lost.

__main__   the command of scripts/faults, and the table
toy        the small runs that faults are applied to, and the outcome of a fault
files      damage to every file of a run
processes  runs and sweeps whose processes are killed
disk       commands on a disk that becomes full
"""
