"""From records to tables, figures, sentences and one page. Nothing here imports JAX.

study         reads the results of a folder; as a pandas table for notebooks
cells         what a table is made of, and how the results of the seeds become one cell
groups        which results may be ranked against each other, and what sets them apart
choice        which models are shown, in which order, and by which names
tables        the tables of a metric, one a group, as numbers: the order of the rows, what is bold
without_model the rows of what methods without a model score
overview      all groups of a study side by side, as numbers; overview_formats prints it
baseline      every model, or swap of a single one, against one of them: paired differences, tests
differences   prints these, with their note
references    reads tables of published numbers
fitting       which results their tasks and encodings mean
published     scores beside these, and how far the order of the encodings agrees (agreement)
against       prints them, with their notes
provenance    by what code, versions and devices runs were carried out, where they differ
sentences     notes below a table; setting: those on training
outcome       what came out, in one paragraph
formats       prints a table: terminal, Markdown, CSV; bold cells, footnotes
terminal      fits a table into the width of a terminal
markdown      text and tables in GitHub's Markdown
latex         tables for papers
spreadsheet   tables as CSV
compare       two sets of results as numbers: which runs match, what differs
side_by_side  prints a comparison, with its sentences
gallery       which figures a study has, with their captions
figures       the figures of evaluation: against length, and against position
learning      the figures of training: against steps, and against the learning rate
multiples     the figure of several tasks: a panel for each
depth         heat maps of samples: length against depth
plane, panels lines in one plane, or a panel for each of many encodings
dots          a row of dots for each of many encodings
looks         which colour, dash and marker an encoding has
style         how figures are saved, and what a line of them is
captions      what stands below the figures of the page
page          the published folder, with its HTML page (report.html.j2, report.js)
stats         intervals over seeds, effective length, ranks
paired        paired tests over seeds and their correction for many comparisons
labels        what a run is called in tables and figures
words         lists, counted nouns and numbers as text
"""
