"""One run: its config, its folder, its execution and its record.

run        a config in sections (config), checked, with the id of what one seed learns (identity)
folder     paths and files
execute    text, seed groups (seed_groups, losses), scores, result
rates      a run at each of several learning rates; the best is evaluated
scores     the scores of its models, kept line by line
init_from  initialisation from a checkpoint
completion  what a pretrained model says of a config
text       the text of a run, and its windows
users      the checks of users' own code
trained    the trained model, for Python
progress   messages and bars
environment  the code and the machine, and where compiled programs are kept; its cores (resources)
"""
