"""What a question may be: one SELECT over the views, known to its last node; or an EXPLAIN of one.

DuckDB parses the SQL and gives the tree as JSON. Whatever stands in it must be listed here, so what a later DuckDB
learns to put into a SELECT, as it has learnt COPY and DELETE, is refused until it is added. DESCRIBE, SHOW and
SUMMARIZE are SELECTs to DuckDB.
"""

import json
import re
from collections.abc import Collection
from difflib import get_close_matches
from typing import Any

import duckdb

from schemas.tables import TABLES
from schemas.views import VIEWS
from streaming.store.sql_functions import CALLABLE, TABLE_FUNCTIONS
from streaming.warehouse.warehouse_error import WarehouseError

MOST_CHARACTERS = 1_000_000

ONE_SELECT = "only one SELECT at a time: the tables are read, never written"

_TABLES = {*TABLES, *(f"{name}_now" for name in TABLES), *VIEWS}
_CATALOG = {"tables", "columns", "schemata"}
"""Of information_schema."""

_TABLE_FUNCTIONS = TABLE_FUNCTIONS | {f"{name}_at" for name in TABLES}

_SHOWN = {'"tables"', '"databases"', '"schemas"', "__show_tables_expanded"}

_EXPRESSIONS = """
BETWEEN CASE CAST COLLATE COLUMN_REF COMPARISON CONJUNCTION CONSTANT FUNCTION LAMBDA LAMBDA_REF OPERATOR PARAMETER
POSITIONAL_REFERENCE STAR SUBQUERY TYPE WINDOW
"""

_NODES = """
SELECT_NODE SET_OPERATION_NODE RECURSIVE_CTE_NODE
BASE_TABLE EMPTY EXPRESSION_LIST JOIN PIVOT SHOW_REF SUBQUERY TABLE_FUNCTION
DISTINCT_MODIFIER LIMIT_MODIFIER LIMIT_PERCENT_MODIFIER ORDER_MODIFIER ORDER_DEFAULT ASCENDING DESCENDING
"""

_KNOWN = {"class": frozenset(_EXPRESSIONS.split()), "type": frozenset(_NODES.split())}

_SHAPES = frozenset(
    frozenset(shape.split())
    for shape in (
        "map",
        "key value",
        "node named_param_map",
        "aliases key_targets materialized payload_aggregates query_node",
        "name expression",
        "then_expr when_expr",
        "kind text",
        "path",
        "expr unit",
        "alias star_expr values",
        "entries pivot_enum pivot_expressions unpivot_names",
        "catalog column schema table",
        "is_percentage method repeatable sample_rate sample_size seed",
        "type is_null value",
        "type is_null",
        "id type_info",
    )
)
"""The keys of what has no type of its own."""

_EXPLAIN = re.compile(r"\s*EXPLAIN(?:\s+ANALYZE)?\s", re.IGNORECASE)

Names = frozenset[str]


def check_question(cursor: duckdb.DuckDBPyConnection, sql: str, paths: Collection[str] = ()) -> None:
    """Raises WarehouseError for what may not be asked, and duckdb.Error for what is not SQL.

    `sql` is what will run, to the letter. `paths` are files that read_parquet may have.
    """
    try:
        sql.encode()
    except UnicodeEncodeError:
        raise WarehouseError("the SQL is not valid UTF-8") from None
    statements = cursor.extract_statements(sql)
    if len(statements) != 1:
        raise WarehouseError(ONE_SELECT)
    if statements[0].type == duckdb.StatementType.EXPLAIN:
        sql = _EXPLAIN.sub("", sql, count=1)
        statements = cursor.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise WarehouseError(ONE_SELECT)
    ((text,),) = cursor.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    try:
        reported = json.loads(text)
        if reported["error"] or len(reported["statements"]) != 1:
            raise WarehouseError(f"{ONE_SELECT}; {reported.get('error_message', 'give one statement')}")
        _Question(paths).check(reported["statements"][0], frozenset())
    except RecursionError:
        raise WarehouseError("the SQL is nested too deeply; split it into several queries") from None


class _Question:
    """A tree as json_serialize_sql tells it."""

    def __init__(self, paths: Collection[str]) -> None:
        self._paths = paths

    def check(self, part: Any, named: Names) -> None:
        """`named` are the tables that a WITH around it names."""
        if isinstance(part, list):
            for one in part:
                self.check(one, named)
        elif isinstance(part, dict):
            _check_kind(part, named)
            self._check_within(part, self._check_with(part, named))

    def _check_within(self, part: dict[str, Any], named: Names) -> None:
        itself = frozenset({part["cte_name"].lower()} if part.get("type") == "RECURSIVE_CTE_NODE" else ())
        for key, value in part.items():
            if key == "function" and part.get("type") == "TABLE_FUNCTION":
                self._check_table_function(value)
                self._check_within(value, named)
            elif key != "cte_map":
                self.check(value, named | itself if key == "right" else named)

    def _check_with(self, part: dict[str, Any], named: Names) -> Names:
        """What is named from here on; each WITH sees those before it."""
        for entry in part["cte_map"]["map"] if "cte_map" in part else ():
            self.check(entry["value"], named)
            named |= {entry["key"].lower()}
        return named

    def _check_table_function(self, function: dict[str, Any]) -> None:
        if function["function_name"] != "read_parquet" or not self._paths:
            _check_name(function, _TABLE_FUNCTIONS)
            return
        listed = function["arguments"][0]["expression"].get("arguments", ())
        files = {one["expression"].get("literal", {}).get("text") for one in listed}
        if not files or not files <= set(self._paths) or len(function["arguments"]) != 2:
            raise WarehouseError("read_parquet is not allowed: it reads only the tables' own files")


def _check_kind(part: dict[str, Any], named: Names) -> None:
    field = "class" if "class" in part else "type"
    kind = part.get(field)
    if not isinstance(kind, str):
        if frozenset(part) not in _SHAPES:
            raise WarehouseError(f"{ONE_SELECT}; {', '.join(sorted(part))} is not known")
    elif kind not in _KNOWN[field]:
        raise WarehouseError(f"{ONE_SELECT}; {kind.removesuffix('_QUERY_NODE')} is refused")
    elif kind in ("FUNCTION", "WINDOW"):
        _check_name(part, CALLABLE)
    elif kind == "BASE_TABLE" or (kind == "SHOW_REF" and not _shows_names(part)):
        _check_table(part["qualified_name"]["path"], named)


def _shows_names(show: dict[str, Any]) -> bool:
    """SHOW TABLES and the like, or what is to be described is a query, which is looked at by itself."""
    return show["query"] is not None or show["show_type"] == "SHOW_FROM" or show["table_name"] in _SHOWN


def _check_name(function: dict[str, Any], known: Collection[str]) -> None:
    name = function["function_name"]
    if name.lower() not in known:
        raise WarehouseError(
            f"Catalog Error: function {name} does not exist here: only functions of their arguments are available"
        )


def _check_table(path: list[str], named: Names) -> None:
    """A CTE that hides nothing else: its name is looked up before any other."""
    *schema, name = (one.lower() for one in path)
    is_ours = name in _TABLES and schema in ([], ["main"], ["memory"], ["memory", "main"])
    is_named = name in named and schema in ([], ["recurring"])
    if not is_ours and not is_named and not (name in _CATALOG and schema[-1:] == ["information_schema"]):
        close = get_close_matches(name, _TABLES, 1)
        hint = f'Did you mean "{close[0]}"?' if close else "`balancewatch sql` lists the tables and views"
        raise WarehouseError(f"Catalog Error: Table with name {'.'.join(path)} does not exist! {hint}")
