"""From records to tables, figures and one page. Nothing here imports JAX.

Numbers
study             reads the results of a folder, and indexes them once: `Study.of`, a `Cell` a score
groups            comparable runs, and what sets them apart
labels            the name of a run in tables and figures
table             the table of a metric and a group: order, bold marks, reference rows
stats             intervals, paired tests and their correction for many comparisons
differences       from a baseline, and between two studies: one difference, one verdict
published         published numbers and scores beside them
selection         which models, metrics and columns are shown, in which order, by which names
frame             the scores as a pandas table, for notebooks

Print
sheet             a table as it prints: terminal, Markdown, LaTeX, CSV; notes and footnotes
sheets            tables of scores, the overview and differences as sheets
notes             the facts below a table, and a glossary of its terms
page              the report of a study: its folder and HTML page (report.html.j2, report.js)
words             lists, counted nouns and numbers as text

Draw
figures           against length, position and depth; training; several tasks
plane             lines in one plane with a legend, and panels
style             colours, dashes and markers of encodings, and how figures are saved
"""
