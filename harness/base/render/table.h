// A table of results as a value, and its renderings.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace kvc {

using TableCell = std::variant<std::monostate, int64_t, double, std::string>;  // monostate: no value

struct TableColumn {
  enum class Align { kLeft, kRight };
  std::string name;
  Align align = Align::kLeft;
  std::string unit = "";  // shown behind the name: "KV size [%]"
  int decimals = -1;      // of doubles in Markdown; -1: six significant digits
  enum class Rank { kUsual, kMain, kDetail };
  Rank rank =
      Rank::kUsual;  // where a terminal is narrow, main columns stay before usual ones; details never stand there
};

enum class TableTone { kGood, kBetween, kBad };

struct Table {
  std::string title;
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableCell>> rows;
  std::vector<std::string> notes;
  std::map<std::pair<size_t, size_t>, TableTone> tones =
      {};  // of cells (row, column), in colour on a terminal and on pages
};

std::string write_markdown(const Table& table);  // GitHub pipes, padded so that it also reads as plain text
std::string write_csv(const Table& table);       // RFC 4180, full precision, without title and notes
std::string write_json(const Table& table);      // {title, columns, rows: [{name: value}], notes}

std::string write_table(const Table& table, const std::string& format);  // csv or json; Markdown for any other

}  // namespace kvc
