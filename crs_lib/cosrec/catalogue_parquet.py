"""The catalogue as Parquet: one row a product, reviews as a list of structs, details as JSON text."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from crs_lib.core.tables import write_aside

_ROWS = 1_000  # products in a row group: by number, so that the file does not depend on the parts


def _schema() -> Any:
    import pyarrow as pa

    review = [
        ("user", pa.string()),
        ("timestamp", pa.int64()),
        ("verified purchase", pa.bool_()),
        ("title", pa.string()),
        ("text", pa.string()),
        ("rating", pa.int8()),
        ("helpful", pa.int64()),
    ]
    ratings = pa.struct([(str(grade), pa.int64()) for grade in range(1, 6)])
    return pa.schema(
        [
            ("parent_asin", pa.string()),
            ("title", pa.string()),
            ("description", pa.list_(pa.string())),
            ("details", pa.string()),
            ("categories", pa.list_(pa.string())),
            ("store", pa.string()),
            ("price", pa.float64()),
            ("num_ratings", pa.int64()),
            ("avg_ratings", pa.float64()),
            ("valid_reviews", pa.list_(pa.struct(review))),
            ("valid_ratings", ratings),
            ("num_valid_ratings", pa.int64()),
            ("avg_valid_ratings", pa.float64()),
        ]
    )


def _batches(files: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    for path in files:
        with path.open(encoding="utf-8", newline="\n") as file:
            for line in file:
                row = json.loads(line)
                row["details"] = json.dumps(row["details"], ensure_ascii=False)
                row["avg_ratings"] = float(row["avg_ratings"])
                rows.append(row)
                if len(rows) == _ROWS:
                    yield rows
                    rows = []
    if rows:
        yield rows


def write_products(out: Path, files: Sequence[Path]) -> int:
    """Write the joined parts, in order, as one Parquet file that appears whole; returns the products."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema, count = _schema(), 0
    with write_aside(out, "wb") as file, pq.ParquetWriter(file, schema, compression="zstd") as table:
        for rows in _batches(files):
            table.write_table(pa.Table.from_pylist(rows, schema=schema))
            count += len(rows)
    return count
