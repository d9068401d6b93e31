"""From records to tables, figures, sentences and one page. Nothing here imports JAX.

study         reads the results of a folder; as a pandas table for notebooks
cells         what a table is made of, and how the results of the seeds become one cell
groups        which results may be ranked against each other, and what sets them apart
tables        the tables of a metric, one a group, as numbers: the order of the rows, what is bold
baseline      every model against one of them: paired differences and tests
differences   prints these, with their note
sentences     notes below a table, the summary and captions of the page
formats       prints a table: terminal, Markdown, LaTeX, CSV; bold cells, footnotes
compare       two sets of results as numbers: which runs match, what differs
side_by_side  prints a comparison, with its sentences
figures, dots the figures: curves in one plane, or a row of dots for each of many encodings
style         how figures look and are saved
page          the published folder, with its HTML page (report.html.j2)
improvement   the figure of the probabilities that one model is better than another
stats         intervals over seeds, effective length, ranks, probabilities of improvement
paired        paired tests over seeds and their correction for many comparisons
labels        what a run is called in tables and figures
words         lists, counted nouns and numbers as text
"""
