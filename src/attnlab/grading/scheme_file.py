"""Read points and dates from a TOML or YAML file.

Every table may be left out::

    [points]                           # an exercise, or a lesson whose exercises share the points
    query_key_value = 40               # 0 leaves it out
    "query_key_value.attention" = 10   # this one has 10 of its own; the others share the 40

    [due]                              # a lesson or an exercise; a date alone means the end of that day
    query_key_value = 2027-02-05T18:00:00+01:00

    [late]
    per_day = 0.1                      # share of the points that each day begun costs
    days = 5                           # after so many days, nothing is given

    [extensions]                       # days more for a student, by the name in the table
    anna = 7

    [submitted]                        # when it was handed in, where the files' own times do not say
    "anna.ipynb" = 2027-02-05T17:00:00+01:00

    [forbidden]                        # names that an answer should not use: flagged, at no loss of points
    "query_key_value.attention" = ["scaled_dot_product_attention"]

Times without a zone are this machine's. Points are exact: seven sevenths are one.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from .course import all_tasks
from .scheme import Scheme

__all__ = ["SchemeError", "read_scheme"]


class SchemeError(ValueError):
    """The file of points and dates says something that cannot be meant; the message says what."""


def read_scheme(path: Path) -> Scheme:
    """Read a file in TOML (``.toml``) or YAML (``.yaml``, ``.yml``).

    Raises:
        SchemeError: if ``path`` cannot be read, or says something that cannot be meant.
    """
    try:
        return _scheme(_tables(path))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, SchemeError) as error:
        raise SchemeError(f"{path}: {error}") from error


def _tables(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    if path.suffix.lower() == ".toml":
        return tomllib.loads(text, parse_float=Decimal)
    if path.suffix.lower() not in (".yaml", ".yml"):
        raise SchemeError("a file in TOML (.toml) or YAML (.yaml) was expected")
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise SchemeError("YAML needs the package pyyaml; install it, or write TOML") from error
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise SchemeError(str(error)) from error
    if not isinstance(data, dict):
        raise SchemeError("tables were expected: points, due, late, ...")
    return data


def _scheme(data: Mapping[str, Any]) -> Scheme:
    known = ("points", "due", "late", "extensions", "submitted", "forbidden")
    for name, table in data.items():
        if name not in known:
            raise SchemeError(f"{name}: expected one of {', '.join(known)}")
        if not isinstance(table, dict):
            raise SchemeError(f"{name}: a table was expected, got {table!r}")
    late = data.get("late", {})
    for name in set(late) - {"per_day", "days"}:
        raise SchemeError(f"late.{name}: expected per_day or days")
    tables = {name: data.get(name, {}) for name in known}
    for name in ("points", "due", "forbidden"):
        _expect_known(name, tables[name])
    days = late.get("days")
    return Scheme(
        {key: _number(f"points.{key}", value) for key, value in tables["points"].items()},
        {key: _time(f"due.{key}", value, at_the_end=True) for key, value in tables["due"].items()},
        _number("late.per_day", late.get("per_day", 0)),
        None if days is None else _whole("late.days", days),
        {str(key): _whole(f"extensions.{key}", value) for key, value in tables["extensions"].items()},
        {str(key): _time(f"submitted.{key}", value) for key, value in tables["submitted"].items()},
        {key: _names(f"forbidden.{key}", value) for key, value in tables["forbidden"].items()},
    )


def _expect_known(table: str, entries: Mapping[str, Any]) -> None:
    tasks = all_tasks()
    known = {*tasks, *(task.lesson for task in tasks.values())}
    for key in entries:
        if key not in known:
            raise SchemeError(f"{table}.{key}: no exercise or lesson of the course is called so")


def _number(where: str, value: Any) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise SchemeError(f"{where}: a number was expected, got {value!r}")
    if not math.isfinite(value) or value < 0:
        raise SchemeError(f"{where}: a number of at least 0 was expected, got {value}")
    return Fraction(str(value))


def _whole(where: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise SchemeError(f"{where}: a whole number of days was expected, got {value!r}")
    return value


def _time(where: str, value: Any, *, at_the_end: bool = False) -> datetime:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise SchemeError(
                f"{where}: a time such as 2027-02-05T18:00 was expected, got {value!r}"
            ) from error
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time(23, 59, 59) if at_the_end else time(12))
    if not isinstance(value, datetime):
        raise SchemeError(f"{where}: a time was expected, got {value!r}")
    return value.astimezone() if value.tzinfo is None else value


def _names(where: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise SchemeError(f"{where}: a list of names was expected, got {value!r}")
    return tuple(value)
