"""From records to tables, figures, sentences and one page, in three levels. Nothing here imports
JAX.

Numbers
study             reads the results of a folder; as a pandas table for notebooks
cells             what a table is made of, and how the results of the seeds become one cell
groups            which results may be ranked against each other, and what sets them apart
selection         which models, metrics and columns are shown, in which order, by which names
tables            the tables of a metric, one a group: the order of the rows, what is bold
headroom          the share of the headroom that a model uses
reference_rows    rows below the models: cropped, trained at E, methods without a model
overview          all groups of a study side by side
baseline          every model, or swap of a single one, against one of them: paired differences
compare           two sets of results: which runs match, what differs, as sheets
published         published numbers, scores beside them, agreement of the order; as sheets
stats             intervals, ranks, paired tests and their correction for many comparisons
labels            what a run is called in tables and figures

Print
sheet             a table as it prints: terminal, Markdown, LaTeX, CSV; notes and footnotes
sheets            tables of scores, of differences and of several groups as sheets
notes             notes below a table: protocol, training, doubts, how to read it
page              the published folder with its figures and HTML page (report.html.j2, report.js)
words             lists, counted nouns and numbers as text

Draw
figures           against length, position and depth; dots, bars and panels; training
plane             lines in one plane, or a panel for each of many encodings
style             colours, dashes and markers of encodings, and how figures are saved
"""
