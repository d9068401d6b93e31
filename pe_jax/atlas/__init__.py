"""The atlas: what encodings do to attention, within the training length and beyond, in figures, a
table of properties and one HTML page.

    subject    what is drawn: the encodings of a spec, with their initial or trained parameters
    probe      attention evaluated with and without them
    groups     where position enters, by the hooks
    kinds      what they read of the positions, and whether a shift changes anything
    facts      the properties, all computed
    by_distance  numbers against distance: means, windows, classes of distances, rotations
    watch      the attention of a trained model on its own text
    maps, curves, trained, overview   the figures
    page, write   the HTML page, and the folder with all files
"""
