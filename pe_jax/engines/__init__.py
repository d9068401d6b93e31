"""Many runs: processes on this machine, how they stand, what they will take."""
