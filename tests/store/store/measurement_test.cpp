// A measurement's fields are the columns of a sample, each stored under its own name.
#include <cmath>
#include <map>

#include "store/new_row.h"
#include "store_fixture.h"

namespace kvc {
namespace {

using MeasurementTest = OpenStoreTest;

// Columns of a sample that no worker measures: what it is of, and what it says.
const std::set<std::string> kSaid = {"cell_key",   "sample", "status",      "error",         "prompt_sha256",
                                     "generation", "gold",   "stop_reason", "token_ids_json"};

std::set<std::string> columns_of_sample(Database& db) {
  std::set<std::string> columns;
  auto select = db.prepare("SELECT name FROM pragma_table_info('sample')");
  while (select.step()) columns.insert(select.text(0));
  return columns;
}

// Numbers that differ from field to field.
struct Numbered {
  template <class Value>
  void operator()(const char* name, Value& value) {
    expected[name] = ++n;
    value = n;
  }
  std::map<std::string, int64_t> expected;
  int n = 0;
};

TEST_F(MeasurementTest, AllOfASampleThatIsNotSaidIsMeasured) {
  auto columns = kSaid;
  Measurement measurement;
  Measurement::visit(measurement, [&](const char* name, const auto&) {
    EXPECT_TRUE(columns.insert(name).second) << name << " is there twice";
  });
  EXPECT_EQ(columns, columns_of_sample(store_.database()));
}

TEST_F(MeasurementTest, EachFieldIsStoredUnderItsName) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  auto sample = make_sample("c", 0);
  Numbered numbered;
  Measurement::visit(sample, numbered);
  store_.put_sample(sample);
  for (const auto& [name, value] : numbered.expected) {
    EXPECT_EQ(store_.database().integer("SELECT " + name + " FROM sample"), value) << name;
  }
}

TEST_F(MeasurementTest, WhatIsNoNumberOrNotObservedIsNull) {
  store_.put_cell(make_cell("c", "low", "t/a"));
  auto sample = make_sample("c", 0);
  sample.paper_bytes = sample.k_error = sample.v_error = std::nan("");
  store_.put_sample(sample);
  EXPECT_EQ(store_.database().integer("SELECT (paper_bytes IS NULL) + (k_error IS NULL) + (v_error IS NULL)"
                                      " + (peak_bytes IS NULL) + (peak_other_bytes IS NULL) FROM sample"),
            5);
}

TEST_F(MeasurementTest, AColumnThatIsNotThereIsRefused) {
  const auto message = message_of([&] { NewRow("text").set("sha265", "h").set("body", "").insert(store_.database()); });
  EXPECT_NE(message.find("no column named sha265"), std::string::npos) << message;
}

TEST_F(MeasurementTest, AColumnThatAQueryDoesNotReturnIsRefused) {
  const auto select = store_.database().prepare("SELECT key, task FROM cell");
  EXPECT_EQ(select.column("task"), 1);
  EXPECT_EQ(message_of([&] { select.column("tsak"); }), "the SQL returns no column 'tsak'");
}

}  // namespace
}  // namespace kvc
