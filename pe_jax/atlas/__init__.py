"""The atlas: what encodings do to attention, within the training length and beyond, in figures, a
table of properties and one HTML page.

    layer        the encodings of a spec in one layer, with their initial or trained parameters
    probe        attention with and without them, for each pair and against distance
    properties   where position enters, what is read of it, what an ideal encoding has
    weights      the attention weights of a trained model on its own text
    figures      lines, heat maps, an overview, with their captions
    page         the HTML page, and the folder with all files
"""
