"""Writes text as a TFDS dataset (ArrayRecord), with its documents, their order and splits.

pe-jax prepare --source=files:PATH --name=NAME --data_dir=DIR
"""

from __future__ import annotations

from pe_jax.commands import cli

OPTIONS = cli.Options()
_SOURCE = OPTIONS.string("source", None, "The text: files:PATH, or stdlib.", required=True)
_NAME = OPTIONS.string("name", None, "Name of the dataset: lower_case.", required=True)
_DATA_DIR = OPTIONS.string(
    "data_dir", "", "TFDS's data_dir; default: TFDS_DATA_DIR or ~/tensorflow_datasets."
)


def main() -> int:
    from pe_jax.data import tfds_text
    from pe_jax.data.load import load

    folder = tfds_text.data_dir(_DATA_DIR.value)
    path = tfds_text.write(load(_SOURCE.value), _NAME.value, folder)
    use = f"--config.data.source=tfds:{_NAME.value} --config.data.data_dir={folder}"
    print(f"{path}: use it by {use}")
    return 0
