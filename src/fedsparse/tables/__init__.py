"""Tables of sites: read, described, agreed upon, encoded.

Each site describes its table (`describe`), the descriptions alone decide on one encoding (`agree`),
each site encodes its rows (`Encoding`). On one machine `load_tables` does all of it.
"""

from fedsparse.tables.agreeing import agree
from fedsparse.tables.describing import SiteDescription, describe
from fedsparse.tables.encoding import EncodedColumn, Encoding
from fedsparse.tables.inputs import Roles, read_table
from fedsparse.tables.inspecting import Inspection, inspect_tables
from fedsparse.tables.loading import Loaded, load_tables
from fedsparse.tables.numbered import NumberedEncoding
from fedsparse.tables.sentences import Finding
from fedsparse.tables.shards import LibsvmShards, TableShards

__all__ = [
    "EncodedColumn",
    "Encoding",
    "Finding",
    "Inspection",
    "LibsvmShards",
    "Loaded",
    "NumberedEncoding",
    "Roles",
    "SiteDescription",
    "TableShards",
    "agree",
    "describe",
    "inspect_tables",
    "load_tables",
    "read_table",
]
