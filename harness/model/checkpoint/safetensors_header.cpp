#include "checkpoint/safetensors_header.h"

#include <algorithm>

#include "kvc/check.h"
#include "text/json_reader.h"
#include "text/nearest.h"
#include "text/utf8.h"

namespace kvc {
namespace {

struct DtypeRow {
  const char* name;
  at::ScalarType dtype;
};
constexpr DtypeRow kDtypes[] = {{"F64", at::kDouble}, {"F32", at::kFloat}, {"F16", at::kHalf},  {"BF16", at::kBFloat16},
                                {"I64", at::kLong},   {"I32", at::kInt},   {"I16", at::kShort}, {"I8", at::kChar},
                                {"U8", at::kByte},    {"BOOL", at::kBool}};

std::string dtype_names() {
  std::vector<std::string> names;
  for (const auto& row : kDtypes) names.emplace_back(row.name);
  return join(names);
}

at::ScalarType parse_dtype(const JsonObject& entry) {
  const auto name = entry.text("dtype");
  for (const auto& row : kDtypes) {
    if (name == row.name) return row.dtype;
  }
  throw Error(concat(entry.where(), ": dtype ", in_quotes(name), ", supported: ", dtype_names()));
}

int64_t non_negative(const nlohmann::json& value, const std::string& where) {
  KVC_CHECK(value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{INT64_MAX}, where, ": ", brief(value),
            ", expected an integer from 0 to ", INT64_MAX);
  return value.get<int64_t>();
}

// Bytes of a tensor of this shape; throws where a product does not fit into 63 bits, the strides of an empty one among
// them.
int64_t checked_bytes(const StoredTensor& tensor, const std::string& where) {
  int64_t n_bytes = static_cast<int64_t>(at::elementSize(tensor.dtype));
  bool is_empty = false;
  for (const int64_t size : tensor.shape) {
    KVC_CHECK(!__builtin_mul_overflow(n_bytes, std::max(size, int64_t{1}), &n_bytes), where,
              ": shape has more bytes than 2^63");
    is_empty = is_empty || size == 0;
  }
  return is_empty ? 0 : n_bytes;
}

StoredTensor parse_entry(const JsonObject& entry, int64_t data_bytes) {
  for (const auto& [field, value] : entry.json().items()) {
    KVC_CHECK(field == "dtype" || field == "shape" || field == "data_offsets", entry.where(), ": ",
              unknown_name("field", field, {"dtype", "shape", "data_offsets"}));
  }
  StoredTensor tensor;
  tensor.dtype = parse_dtype(entry);
  const auto& shape = entry.array("shape");
  KVC_CHECK(static_cast<int64_t>(shape.size()) <= kMaxDims, entry.where(), ": shape has ", shape.size(),
            " dimensions, at most ", kMaxDims);
  for (const auto& size : shape) tensor.shape.push_back(non_negative(size, entry.where("shape")));
  const auto& offsets = entry.array("data_offsets");
  KVC_CHECK(offsets.size() == 2, entry.where(), ": data_offsets is ", brief(offsets), ", expected [begin, end]");
  tensor.begin = non_negative(offsets[0], entry.where("data_offsets"));
  tensor.end = non_negative(offsets[1], entry.where("data_offsets"));
  KVC_CHECK(tensor.begin <= tensor.end && tensor.end <= data_bytes, entry.where(), ": data_offsets is ", brief(offsets),
            ", expected begin <= end <= ", data_bytes, ", the bytes of data in the file");
  const int64_t n_bytes = checked_bytes(tensor, entry.where());
  KVC_CHECK(n_bytes == tensor.end - tensor.begin, entry.where(), ": dtype and shape need ", n_bytes,
            " bytes, data_offsets hold ", tensor.end - tensor.begin);
  return tensor;
}

void check_covers(const std::map<std::string, StoredTensor>& tensors, int64_t data_bytes, const std::string& file) {
  std::vector<std::pair<const std::string*, const StoredTensor*>> in_order;
  for (const auto& [name, tensor] : tensors) in_order.emplace_back(&name, &tensor);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  int64_t covered = 0;
  for (const auto& [name, tensor] : in_order) {
    KVC_CHECK(tensor->begin == covered, file, ": tensor ", in_quotes(*name), ": data_offsets begin at ", tensor->begin,
              tensor->begin < covered ? ", which overlaps the tensor before it" : ", which leaves a gap", " (expected ",
              covered, ")");
    covered = tensor->end;
  }
  KVC_CHECK(covered == data_bytes, file, ": tensors cover ", covered, " bytes of data, the file holds ", data_bytes);
}

}  // namespace

std::map<std::string, StoredTensor> parse_safetensors_header(std::string_view json, int64_t data_bytes,
                                                             const std::string& file,
                                                             std::map<std::string, std::string>* metadata) {
  const auto header = parse_json(json, file + ": header");
  const JsonObject entries(header, file + ": header");
  KVC_CHECK(static_cast<int64_t>(header.size()) <= kMaxTensors, file, ": header names ", header.size(),
            " tensors, at most ", kMaxTensors);
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") {
      const JsonObject texts(value, file + ": __metadata__");
      for (const auto& [key, text] : value.items()) {
        const auto read = texts.text(key);
        if (metadata) metadata->emplace(key, read);
      }
      continue;
    }
    tensors.emplace(name, parse_entry(JsonObject(value, file + ": tensor " + in_quotes(name)), data_bytes));
  }
  check_covers(tensors, data_bytes, file);
  return tensors;
}

std::string safetensors_dtype_name(at::ScalarType dtype) {
  for (const auto& row : kDtypes) {
    if (row.dtype == dtype) return row.name;
  }
  throw Error(concat("safetensors: no name for type ", at::toString(dtype), ", supported: ", dtype_names()));
}

}  // namespace kvc
