// Safetensors: what is refused, with which words; what is written comes back; no header crashes the reader.
#include "checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;

std::string with_length(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

struct BadFile {
  const char* name;
  std::string bytes;
  std::vector<std::string> words;  // that the message must hold
};

std::vector<BadFile> bad_files() {
  const auto one = [](const std::string& tensor) { return with_length("{\"w\":" + tensor + "}", "12345678"); };
  const auto two = [](const std::string& a, const std::string& b) {
    return with_length("{\"a\":" + entry("F32", "[1]", a) + ",\"b\":" + entry("F32", "[1]", b) + "}", "12345678");
  };
  return {
      {"Empty", "", {"0 bytes", "at least 8"}},
      {"SevenBytes", "1234567", {"7 bytes", "at least 8"}},
      {"HeaderBeyondFile", with_length("{}", "").substr(0, 9), {"header length 2", "9 bytes"}},
      {"HeaderTooLong", std::string(8, '\xff'), {"18446744073709551615", "100000000"}},
      {"NotJson", with_length("{\"w\":}", ""), {"header", "byte 6"}},
      {"NotUtf8", with_length("{\"\xff\":1}", ""), {"header", "UTF-8"}},
      {"NotAnObject", with_length("[1]", ""), {"[1]", "expected an object"}},
      {"DuplicateTensor", with_length("{\"w\":{},\"w\":{}}", ""), {"duplicate key 'w'"}},
      {"TooDeep", with_length(std::string(1000, '['), ""), {"deeper than 64"}},
      {"TensorNotAnObject", one("3"), {"tensor 'w'", "3", "expected an object"}},
      {"UnknownDtype", one(entry("F7", "[2]", "[0,8]")), {"tensor 'w'", "dtype 'F7'", "BF16"}},
      {"UnknownField",
       one(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
       {"tensor 'w'", "field 'x'", "shape"}},
      {"MissingShape", one(R"({"dtype":"F32","data_offsets":[0,8]})"), {"tensor 'w'", "'shape' is missing"}},
      {"NegativeSize", one(entry("F32", "[-2]", "[0,8]")), {"tensor 'w'", "shape", "-2"}},
      {"FractionalSize", one(entry("F32", "[2.0]", "[0,8]")), {"tensor 'w'", "shape", "2.0"}},
      {"ShapeOverflow", one(entry("F32", "[4294967296,4294967296]", "[0,8]")), {"tensor 'w'", "2^63"}},
      {"TooManyDims", one(entry("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]")), {"tensor 'w'", "9 dimensions"}},
      {"OneOffset", one(entry("F32", "[2]", "[0]")), {"tensor 'w'", "data_offsets", "[begin, end]"}},
      {"OffsetsBeyondData", one(entry("F32", "[3]", "[0,12]")), {"tensor 'w'", "[0,12]", "<= 8"}},
      {"OffsetsReversed", one(entry("F32", "[2]", "[8,0]")), {"tensor 'w'", "[8,0]", "begin <= end"}},
      {"SizeDisagrees", one(entry("F16", "[2]", "[0,8]")), {"tensor 'w'", "need 4", "hold 8"}},
      {"Overlap", two("[0,4]", "[0,4]"), {"tensor 'b'", "overlaps"}},
      {"Gap",
       with_length("{\"a\":" + entry("U8", "[1]", "[0,1]") + ",\"b\":" + entry("U8", "[1]", "[2,3]") + "}", "123"),
       {"tensor 'b'", "gap"}},
      {"TrailingData", one(entry("F32", "[1]", "[0,4]")), {"cover 4", "holds 8"}},
      {"MetadataNotText", with_length(R"({"__metadata__":{"format":1}})", ""), {"__metadata__", "format", "string"}},
  };
}

class Safetensors : public testing::TestWithParam<BadFile> {};

TEST_P(Safetensors, RefusesNamingTheThing) {
  const TempFolder dir;
  dir.write("bad.safetensors", GetParam().bytes);
  const auto message = message_of([&] { kvc::SafetensorsFile file(dir / "bad.safetensors"); });
  EXPECT_THAT(message, testing::HasSubstr("bad.safetensors"));
  for (const auto& word : GetParam().words) EXPECT_THAT(message, testing::HasSubstr(word));
}
INSTANTIATE_TEST_SUITE_P(BadFiles, Safetensors, testing::ValuesIn(bad_files()),
                         [](const auto& info) { return info.param.name; });

TEST(SafetensorsFile, ReadsWhatWasWritten) {
  const TempFolder dir;
  std::map<std::string, at::Tensor> written;
  for (const auto dtype : {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kLong, at::kInt, at::kShort,
                           at::kChar, at::kByte, at::kBool}) {
    written[at::toString(dtype)] = at::randn({3, 5}).mul(10).to(dtype).t();  // not contiguous
  }
  written["empty"] = at::empty({0, 4});
  written["scalar"] = at::scalar_tensor(7.0);
  kvc::write_safetensors(dir / "x.safetensors", written);
  const kvc::SafetensorsFile file(dir / "x.safetensors");
  EXPECT_EQ(file.names().size(), written.size());
  for (const auto& [name, tensor] : written) {
    EXPECT_EQ(file.dtype(name), tensor.scalar_type());
    EXPECT_TRUE(at::equal(file.tensor(name), tensor)) << name;
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1) << "a temporary file was left";
}

TEST(SafetensorsFile, NamesTheTensorThatIsNotThere) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "x.safetensors", {{"a", at::ones({1})}});
  const kvc::SafetensorsFile file(dir / "x.safetensors");
  EXPECT_THAT(message_of([&] { file.tensor("b"); }), testing::HasSubstr("no tensor 'b'"));
}

TEST(SafetensorsFile, NoticesThatTheFileShrankAfterOpening) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "x.safetensors", {{"a", at::ones({1000})}});
  const kvc::SafetensorsFile file(dir / "x.safetensors");
  std::filesystem::resize_file(dir / "x.safetensors", 200);
  EXPECT_THAT(message_of([&] { file.tensor("a"); }), testing::HasSubstr("ends at byte 200"));
}

TEST(Checkpoint, ReadsShardsThatTheIndexNames) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "one.safetensors", {{"a", at::full({2, 2}, 1.0f)}});
  kvc::write_safetensors(dir / "two.safetensors", {{"b", at::full({2}, 2.0f)}});
  dir.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const kvc::Checkpoint checkpoint(dir.path());
  EXPECT_EQ(checkpoint.tensor("b", {2})[1].item<float>(), 2.0f);
  EXPECT_THAT(message_of([&] { checkpoint.tensor("a", {4}); }),
              testing::AllOf(testing::HasSubstr("'a'"), testing::HasSubstr("[2, 2]"), testing::HasSubstr("[4]")));
}

TEST(Checkpoint, RefusesShardsOutsideOfTheFolder) {
  for (const char* shard : {"../one.safetensors", "/etc/passwd", "sub/one.safetensors", "..", ""}) {
    const TempFolder dir;
    dir.write("model.safetensors.index.json", kvc::concat(R"({"weight_map":{"a":")", shard, "\"}}"));
    EXPECT_THAT(message_of([&] { kvc::Checkpoint checkpoint(dir.path()); }),
                testing::HasSubstr("the name of a file in the index's folder"))
        << shard;
  }
}

TEST(Checkpoint, NamesTheTensorThatItsShardLacks) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "one.safetensors", {{"a", at::ones({1})}});
  dir.write("model.safetensors.index.json", R"({"weight_map":{"b":"one.safetensors"}})");
  EXPECT_THAT(message_of([&] { kvc::Checkpoint checkpoint(dir.path()); }),
              testing::HasSubstr("'b' is not in one.safetensors"));
}

// Each mutated header is either read or refused with an Error; accepted tensors lie within the data.
TEST(SafetensorsHeader, SurvivesMutation) {
  const std::string header = "{\"__metadata__\":{\"format\":\"pt\"},\"a\":" + entry("F32", "[2,3]", "[0,24]") +
                             ",\"b\":" + entry("BF16", "[4]", "[24,32]") + "}";
  const std::string signs = "{}[]\",:0123456789-.eEFBU\\ \x00\xff\x80";
  std::mt19937 random(1);
  int n_accepted = 0;
  for (int round = 0; round < 200'000; ++round) {
    auto mutated = header;
    for (int n = 1 + static_cast<int>(random() % 3); n > 0 && !mutated.empty(); --n) {
      const size_t at = random() % mutated.size();
      const char sign = signs[random() % signs.size()];
      switch (random() % 4) {
        case 0:
          mutated[at] = sign;
          break;
        case 1:
          mutated.erase(at, 1 + random() % 8);
          break;
        case 2:
          mutated.insert(at, 1, sign);
          break;
        default:
          mutated.insert(at, mutated.substr(random() % mutated.size(), random() % 16));
      }
    }
    try {
      for (const auto& [name, tensor] : kvc::parse_safetensors_header(mutated, 32, "fuzz")) {
        ASSERT_TRUE(0 <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= 32) << mutated;
      }
      ++n_accepted;
    } catch (const kvc::Error&) {
    }
  }
  EXPECT_GT(n_accepted, 0);
}

}  // namespace
