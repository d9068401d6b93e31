"""The atlas: what encodings do to attention, within the training length and beyond, in figures, a
table of properties and one HTML page.

    subject      what is drawn: the encodings of a spec, with their initial or trained parameters
    probe        attention evaluated with and without them
    facts        the properties, all computed: where position enters, what is read of it, ideals
    by_distance  numbers against distance: means, windows, classes of distances, rotations
    numbers      all that is drawn of one subject, computed
    figures      lines, heat maps, an overview
    watch        the attention of a trained model on its own text, computed and drawn
    write        the HTML page, and the folder with all files
"""
