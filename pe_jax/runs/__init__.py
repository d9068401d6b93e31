"""One run: its config, what carries it out, what it starts from and what it records.

run, sections, config  a config as sections, checked (checks)
execute                carries a run out; with several rates it chooses one
carry_out, begin       at one rate: trains and scores what is missing, writes the record
follow                 what the other processes do, where several carry a run out
again                  evaluates a finished run in another way
scores                 what is known of a run's scores, and computes the rest
changed                text that is another than that of finished runs
folder, layout         which folder is a run's, and what lies where in it
longer, start          training that goes on: from a run of fewer steps, from other parameters,
                       those of a run (warm_start) or of a pretrained model (from_pretrained)
validation, measured   validation text while training, and what training has measured
trained                the trained model, for Python
view, progress         what shows a run: the contract, and a bar
trackers               other programs that a run is copied to
environment, programs  the machine, and compiled programs that are kept
"""
