"""Small tables and the files they are written to."""

import gzip

import polars as pl

WRITERS = {
    ".csv": lambda frame, path: frame.write_csv(path),
    ".tsv": lambda frame, path: frame.write_csv(path, separator="\t"),
    ".csv.gz": lambda frame, path: path.write_bytes(gzip.compress(frame.write_csv().encode())),
    ".parquet": lambda frame, path: frame.write_parquet(path),
    ".arrow": lambda frame, path: frame.write_ipc(path),
    ".feather": lambda frame, path: frame.write_ipc(path),
    ".ipc": lambda frame, path: frame.write_ipc(path),
    ".arrows": lambda frame, path: frame.write_ipc_stream(path),
}

PATIENTS = pl.DataFrame(
    {
        "hospital": ["Bari"] * 6 + ["Cork"] * 6,
        "age": [61, 47, 50, 33, 71, 58, 44, 39, 80, 65, 52, 29],
        "dose": [0.5, 1.5, 2.0, 0.25, 1.0, 3.5, 2.5, 0.75, 1.25, 2.25, 0.1, 1.75],
        "ward": [{"e": "ear", "y": "eye", "s": "skin"}[letter] for letter in "eyesyeyeyyee"],
        "relapse": ["yes" if letter == "y" else "no" for letter in "nynnyynynyny"],
    }
)
"""Two hospitals without a fault."""


def written(folder, content, name="bari.csv"):
    """A file with text, bytes or a table in it."""
    path = folder / name
    if isinstance(content, pl.DataFrame):
        WRITERS["." + name.partition(".")[2]](content, path)
    else:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def changed(column, row, value):
    """The patients with one cell changed."""
    values = PATIENTS[column].to_list()
    values[row] = value
    return PATIENTS.with_columns(pl.Series(column, values, strict=False))
