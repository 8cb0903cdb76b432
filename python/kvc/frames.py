"""The program's tables as pandas frames whose numbers are numbers."""
import re

import pandas

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_WITH_INTERVAL = re.compile(rf"({_NUMBER})(?: \[({_NUMBER}), ({_NUMBER})\])?")


def split_heading(heading):
    """'KV size [%]' -> ('KV size', '%')"""
    found = re.fullmatch(r"(.*) \[(.*)\]", heading)
    return found.groups() if found else (heading, "")


def _with_numbers(frame, units):
    """Columns of '0.08 [0.02, 0.15]' become three: value, low and high."""
    columns = {}
    for name in frame.columns:
        column = frame[name]
        is_text = column.map(lambda value: isinstance(value, str) and value != "")
        found = [_WITH_INTERVAL.fullmatch(value) if text else None for value, text in zip(column, is_text)]
        if not is_text.any() or is_text.sum() != sum(match is not None for match in found):
            columns[name] = column
            continue

        def part(group):
            values = [match[group] if match else value if group == 1 else None for match, value in zip(found, column)]
            return pandas.to_numeric(pandas.Series(values, index=column.index, dtype=object), errors="coerce")

        columns[name] = part(1)
        if any(match and match[2] for match in found):
            for group, side in ((2, "low"), (3, "high")):
                columns[f"{name} {side}"] = part(group)
                if name in units:
                    units[f"{name} {side}"] = units[name]
    return pandas.DataFrame(columns)


def frame_of(table):
    """What --format json gives, of a plain table or of one whose cells have intervals."""
    rows, units = [], {}
    for row in table["rows"]:
        if not isinstance(row.get("cells"), dict):
            cells = {split_heading(heading)[0]: value for heading, value in row.items()}
            units.update({name: unit for name, unit in map(split_heading, row) if unit})
        else:
            cells = {"group": row["group"], "row": row["row"]} if row["group"] else {"row": row["row"]}
            for heading, cell in row["cells"].items():
                name, unit = split_heading(heading)
                cells[name] = cell["value"]
                cells.update({f"{name} {side}": cell[side] for side in ("low", "high") if side in cell})
                units.update({part: unit for part in (name, f"{name} low", f"{name} high") if unit and part in cells})
        rows.append(cells)
    frame = _with_numbers(pandas.DataFrame(rows), units)
    frame.attrs.update(title=table["title"], units=units, notes=table.get("warnings", []) + table["notes"])
    return frame
