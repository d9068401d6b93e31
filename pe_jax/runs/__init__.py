"""One run: its config, what carries it out, what it starts from and what it records.

run        what it is: a config in sections (config, sections), checked
folder     where all of it lies on disk
execute    trains and scores what is missing, and writes the record; with several rates chooses one
scores     the scores of its models, kept line by line
start      the parameters that it starts from, of another model
trained    the trained model, for Python
progress   what shows it, for example a bar; trackers copy its history to other programs
environment  the code and the machine, and where compiled programs are kept; its cores (resources)
"""
