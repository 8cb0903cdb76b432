#include "roofline/roofline.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "kvc/check.h"
#include "roofline/tables.h"
#include "text/nearest.h"

namespace kvc {
namespace {

constexpr double kIssuedAClock = 4;  // of a multiprocessor: a warp of each of its four schedulers

// Lines of fields between tabs, by the names in the first; behind #: remarks.
using Row = std::map<std::string, std::string>;
std::vector<Row> rows_of(std::string_view table) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (size_t begin = 0; begin < table.size();) {
    const auto line = table.substr(begin, table.find('\n', begin) - begin);
    begin += line.size() + 1;
    if (line.empty() || line.starts_with('#')) continue;
    std::vector<std::string> fields;
    for (size_t at = 0; at <= line.size();) {
      fields.emplace_back(line.substr(at, line.find('\t', at) - at));
      at += fields.back().size() + 1;
    }
    if (names.empty()) {
      names = fields;
      continue;
    }
    KVC_CHECK(fields.size() == names.size(), "harness/cuda: a line of ", fields.size(), " fields, expected ",
              names.size(), ": ", line);
    auto& row = rows.emplace_back();
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = fields[i];
  }
  return rows;
}

std::vector<Gpu> gpus() {
  std::vector<Gpu> all;
  for (const auto& row : rows_of(gpus_tsv())) {
    all.push_back({row.at("gpu"), std::stol(row.at("multiprocessors")), std::stod(row.at("ghz")),
                   std::stod(row.at("gb_a_second")), row.at("architecture")});
  }
  return all;
}

// Instructions a multiply-add and a product; 0: that loop has none.
struct Cost {
  double multiply_add = 0, product = 0;
};

std::map<std::string, Cost> costs_for(const std::string& architecture) {
  std::map<std::string, Cost> costs;
  for (const auto& row : rows_of(kernels_tsv())) {
    if (row.at("architecture") != architecture) continue;
    const auto number = [&](const char* name) { return std::stod(row.at(name)); };
    const double instructions = number("instructions"), ffma = number("ffma"), hmma = number("hmma");
    costs[row.at("symbol")] = {ffma > 0 ? instructions / ffma : 0, hmma > 0 ? instructions / hmma : 0};
  }
  return costs;
}

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const auto& gpu : gpus()) names.push_back(gpu.name);
  return names;
}

Gpu gpu_named(const std::string& name) {
  for (const auto& gpu : gpus()) {
    if (gpu.name == name) return gpu;
  }
  throw Error(unknown_name("GPU", name, gpu_names()));
}

std::optional<double> instructions_of(const std::vector<KernelCounts>& kernels, const std::string& architecture) {
  const auto costs = costs_for(architecture);
  double sum = 0;
  for (const auto& kernel : kernels) {
    if (kernel.multiply_adds == 0 && kernel.products == 0) continue;
    const auto found = costs.find(kernel.symbol);
    if (found == costs.end()) return std::nullopt;
    // A loop on tensor cores has its multiply-adds counted with its products.
    const auto& cost = found->second;
    if (kernel.products > 0 ? cost.product == 0 : cost.multiply_add == 0) return std::nullopt;
    sum += kernel.products > 0 ? kernel.products * cost.product : kernel.multiply_adds * cost.multiply_add;
  }
  return sum;
}

double LeastTime::least() const { return std::max(by_bytes, by_issuing.value_or(0)); }

LeastTime least_time(const Gpu& gpu, double bytes, std::optional<double> instructions) {
  LeastTime time;
  time.by_bytes = bytes / (gpu.gb_a_second * 1e9);
  if (instructions) {
    time.by_issuing = *instructions / (kIssuedAClock * static_cast<double>(gpu.multiprocessors) * gpu.ghz * 1e9);
  }
  return time;
}

}  // namespace kvc
