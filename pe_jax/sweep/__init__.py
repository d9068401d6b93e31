"""Many runs: a sweep, the engines that carry it out, how the runs stand, what they will take."""
