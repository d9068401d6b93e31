"""Text as a TFDS dataset (ArrayRecord), for this project and for any tool that reads TFDS.

    pe-jax prepare --source=files:PATH --name=NAME --data_dir=DIR

The splits, the documents and their order are those that --config.data.source=files:PATH has.
"""

from __future__ import annotations

import functools

from absl import flags

from pe_jax.commands import cli

OPTIONS = flags.FlagValues()
string = functools.partial(flags.DEFINE_string, flag_values=OPTIONS)
_SOURCE = string("source", None, "The text: files:PATH, or stdlib.")
_NAME = string("name", None, "Name of the dataset: lower_case.")
_DATA_DIR = string(
    "data_dir", "", "TFDS's data_dir; default: TFDS_DATA_DIR or ~/tensorflow_datasets."
)


def main() -> int:
    source, name = _SOURCE.value, _NAME.value
    if not source or not name:
        return cli.fail(
            "--source=files:PATH and --name=NAME are required: the text, and the dataset's name",
        )
    if source.startswith("tfds:"):
        return cli.fail(f"{source} is a TFDS dataset already: use it as data.source")
    from pe_jax import errors
    from pe_jax.data import prepare, tfds_text
    from pe_jax.data.load import load

    try:
        folder = tfds_text.data_dir(_DATA_DIR.value)
        corpus = load(source)
        path = prepare.prepare(corpus, name, folder)
    except (ValueError, OSError, errors.Refused) as error:
        return cli.fail(error)
    about = corpus.describe(corpus)
    sizes = ", ".join(
        f"{split} {documents:,} documents of {about.bytes[split]:,} bytes"
        for split, documents in about.documents.items()
    )
    print(
        f"{path}: {sizes} (split {corpus.split}; SHA-256 {about.hash[:12]})\n"
        f"here:      --config.data.source=tfds:{name} --config.data.data_dir={folder}\n"
        f"elsewhere: tfds.data_source({name!r}, data_dir={str(folder)!r})"
    )
    for doubt in about.doubts():
        print(f"note: {doubt}")
    return 0
