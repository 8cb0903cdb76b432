#include "gguf/gguf_file.h"

#include <gtest/gtest.h>

#include <bit>

#include "gguf_writer.h"
#include "kvc/check.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace {

using namespace kvc::test;
using kvc::GgufFile;

class GgufFileTest : public ::testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes, const std::string& name = "m.gguf") {
    return dir_.write(name, bytes);
  }
  // The one line that refuses these bytes, or "no error".
  std::string refusal(const std::string& bytes, const std::string& name = "m.gguf") {
    const auto path = write(bytes, name);
    const auto message = kvc::test::message_of([&] { const GgufFile file(path); });
    if (message == "no error") return message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_NE(message.find(dir_.string()), std::string::npos) << message;
    return message;
  }
  std::string refusal(const GgufWriter& writer) { return refusal(writer.file()); }

  TempFolder dir_;
};

// Two matrices and a vector of what a decoder has.
GgufWriter small_file() {
  GgufWriter writer;
  writer.set("general.architecture", text("llama"));
  writer.set("llama.block_count", u32(1));
  writer.set("tokenizer.ggml.tokens", texts({"a", "b", "\xE2\x96\x81"}));
  writer.tensors = {{"token_embd.weight", {3, 32}, 3, std::string(60, '\1')},
                    {"blk.0.attn_q.weight", {2, 32}, 8, std::string(68, '\2')},
                    {"output_norm.weight", {4}, 0, std::string(16, '\0')}};
  return writer;
}

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST_F(GgufFileTest, ReadsEveryTypeOfValue) {
  auto writer = small_file();
  writer.set("u8", u8(255));
  writer.set("i8", i8(-128));
  writer.set("u16", u16(65535));
  writer.set("i16", i16(-32768));
  writer.set("u32", u32(0xFFFFFFFF));
  writer.set("i32", i32(-7));
  writer.set("u64", u64(uint64_t{1} << 40));
  writer.set("i64", i64(-(int64_t{1} << 40)));
  writer.set("f32", f32(1e-5f));
  writer.set("f64", f64(0.1));
  writer.set("yes", boolean(true));
  writer.set("u8s", array(0, {u8(1), u8(200)}));
  writer.set("bools", array(7, {boolean(true), boolean(false)}));
  writer.set("f64s", array(12, {f64(0.5)}));
  writer.set("none", array(8, {}));
  writer.set("nested", array(9, {i32s({1, 2}), texts({"x"})}));
  const GgufFile file(write(writer.file()));
  EXPECT_EQ(file.integer("u8"), 255);
  EXPECT_EQ(file.integer("i8"), -128);
  EXPECT_EQ(file.integer("u16"), 65535);
  EXPECT_EQ(file.integer("i16"), -32768);
  EXPECT_EQ(file.integer("u32"), 4294967295);
  EXPECT_EQ(file.integer("i32"), -7);
  EXPECT_EQ(file.integer("u64"), int64_t{1} << 40);
  EXPECT_EQ(file.integer("i64"), -(int64_t{1} << 40));
  EXPECT_EQ(file.number("f32"), 1e-5f);
  EXPECT_EQ(file.number("f64"), 0.1);
  EXPECT_TRUE(file.boolean("yes"));
  EXPECT_EQ(file.integers("u8s"), (std::vector<int64_t>{1, 200}));
  EXPECT_EQ(file.integers("bools"), (std::vector<int64_t>{1, 0}));
  EXPECT_EQ(file.numbers("f64s"), std::vector<double>{0.5});
  EXPECT_TRUE(file.texts("none").empty());
  EXPECT_TRUE(file.has("nested"));
  EXPECT_EQ(file.texts("tokenizer.ggml.tokens"), (std::vector<std::string>{"a", "b", "\xE2\x96\x81"}));
}

TEST_F(GgufFileTest, SaysWhichKeyIsMissingOrOfAnotherType) {
  const GgufFile file(write(small_file().file()));
  EXPECT_SAYS(message_of([&] { file.integer("llama.x"); }), "key 'llama.x' is missing, expected an integer");
  EXPECT_SAYS(message_of([&] { file.text("llama.block_count"); }), "is of another type, expected a string");
  EXPECT_SAYS(message_of([&] { file.tensor("blk.0.x"); }), "no tensor 'blk.0.x'");
}

TEST_F(GgufFileTest, GivesTensorsTheirBytesAndHuggingFacesShape) {
  for (const uint64_t alignment : {8, 32, 64, 4096}) {
    for (const uint32_t version : {2, 3}) {
      auto writer = small_file();
      writer.version = version;
      writer.alignment = alignment;
      writer.set("general.alignment", u32(static_cast<uint32_t>(alignment)));
      const GgufFile file(write(writer.file()));
      const auto& q = file.tensor("blk.0.attn_q.weight");
      EXPECT_EQ(q.shape, (std::vector<int64_t>{2, 32}));
      EXPECT_EQ(type_name(q), "Q8_0");
      EXPECT_EQ(q.offset % static_cast<int64_t>(alignment), 0);
      std::string bytes(68, '\0');
      file.read(q, 0, q.n_bytes, bytes.data());
      EXPECT_EQ(bytes, std::string(68, '\2'));
      file.read(q, 34, 34, bytes.data());
      EXPECT_THROW(file.read(q, 35, 34, bytes.data()), kvc::Error);
    }
  }
}

TEST_F(GgufFileTest, CutAnywhereIsRefusedInOneLine) {
  auto bytes = small_file().file();
  bytes.resize(bytes.size() - 16);  // what fills up the last tensor may be missing
  for (size_t n = 0; n < bytes.size(); ++n) EXPECT_NE(refusal(bytes.substr(0, n)), "no error") << n;
  EXPECT_EQ(refusal(bytes), "no error");
}

TEST_F(GgufFileTest, CountsThatLieAllocateNothing) {
  for (const uint64_t count : {uint64_t{1} << 63, ~uint64_t{0}, uint64_t{1} << 40}) {
    auto writer = small_file();
    writer.n_tensors = count;
    EXPECT_SAYS(refusal(writer), "tensor_count: ");
    writer = small_file();
    writer.n_entries = count;
    EXPECT_NE(refusal(writer), "no error");
    for (const uint32_t type : {0, 3, 8, 9, 12}) {
      writer = small_file();
      writer.set("lies", {9, bytes_of(type) + bytes_of(count)});
      EXPECT_SAYS(refusal(writer), "values, the file, truncated or damaged, has room for") << type;
    }
    writer = small_file();
    writer.set("lies", {8, bytes_of(count)});
    EXPECT_SAYS(refusal(writer), "a string: ");
  }
}

TEST_F(GgufFileTest, OtherFilesAreNamed) {
  auto writer = small_file();
  writer.magic = "ggjt";
  EXPECT_SAYS(refusal(writer), "not a GGUF file: it begins with 'ggjt'");
  writer = small_file();
  writer.version = 1;
  EXPECT_SAYS(refusal(writer), "GGUF version 1, supported: 2, 3");
  writer.version = 0x03000000;
  EXPECT_SAYS(refusal(writer), "big-endian");
  EXPECT_SAYS(refusal("version https://git-lfs.github.com/spec/v1\n"), "Git LFS pointer");
  for (const auto& path : {dir_.path(), dir_.path() / "none.gguf", std::filesystem::path("/dev/zero")}) {
    EXPECT_THROW(GgufFile{path}, kvc::Error);
  }
}

TEST_F(GgufFileTest, ValuesThatNoWriterMakesAreRefused) {
  auto writer = small_file();
  writer.set("flag", {7, "\2"});
  EXPECT_SAYS(refusal(writer), "key 'flag': a bool of 2, allowed: 0, 1");
  writer = small_file();
  writer.set("odd", {13, "xxxx"});
  EXPECT_SAYS(refusal(writer), "key 'odd' has value type 13");
  writer = small_file();
  auto nested = i32s({1});
  for (int depth = 1; depth < 4; ++depth) nested = array(9, {nested});
  writer.set("deep", nested);
  EXPECT_EQ(refusal(writer), "no error");
  writer.set("deep", array(9, {nested}));
  EXPECT_SAYS(refusal(writer), "nested deeper than 4");
  writer = small_file();
  writer.metadata.push_back(writer.metadata.front());
  EXPECT_SAYS(refusal(writer), "key 'general.architecture' appears twice");
  writer = small_file();
  writer.metadata.push_back({"\xFF", u8(1)});
  EXPECT_SAYS(refusal(writer), "expected a name in UTF-8");
  writer = small_file();
  writer.set("big", array(10, {u64(~uint64_t{0})}));
  EXPECT_SAYS(refusal(writer), "an integer beyond 2^63");
}

TEST_F(GgufFileTest, TensorsThatCannotBeAreRefused) {
  auto writer = small_file();
  writer.tensors[0].offset = 8;
  EXPECT_SAYS(refusal(writer), "offset 8, expected a multiple of 32");
  writer = small_file();
  writer.tensors[1].offset = 32;
  EXPECT_SAYS(refusal(writer), "overlaps");
  writer = small_file();
  writer.tensors[2].offset = uint64_t{1} << 63;
  EXPECT_SAYS(refusal(writer), "is past the end of the file");
  writer = small_file();
  writer.tensors[2].offset = 192;
  EXPECT_SAYS(refusal(writer), "is the download complete?");
  writer = small_file();
  writer.tensors[0].shape = {2, 33};
  EXPECT_SAYS(refusal(writer), "rows of 33 values, Q4_1 has blocks of 32");
  writer = small_file();
  writer.tensors[0].shape = {0, 32};
  EXPECT_SAYS(refusal(writer), "dimension 1 is 0");
  writer = small_file();
  writer.tensors[0].shape = {uint64_t{1} << 32, uint64_t{1} << 32};
  EXPECT_SAYS(refusal(writer), "at most 2^48 values");
  writer = small_file();
  writer.tensors[0].shape = {1, 1, 1, 1, 32};
  EXPECT_SAYS(refusal(writer), "5 dimensions, allowed: 1 to 4");
  writer = small_file();
  writer.tensors[1].name = writer.tensors[0].name;
  EXPECT_SAYS(refusal(writer), "tensor 'token_embd.weight' appears twice");
  writer = small_file();
  writer.tensors[1].name = std::string(65, 'x');
  EXPECT_SAYS(refusal(writer), "a tensor's name of 65 bytes, at most 64");
}

TEST_F(GgufFileTest, TypesThatAreNotReadAreCalledByTheirNames) {
  const std::pair<uint32_t, const char*> types[] = {
      {10, "Q2_K"}, {17, "IQ2_XS"}, {40, "NVFP4"}, {28, "F64"}, {99, "99"}};
  for (const auto& [type, name] : types) {
    auto writer = small_file();
    writer.tensors[0].type = type;
    EXPECT_SAYS(refusal(writer), std::string("tensor 'token_embd.weight' has type ") + name + ", supported: F32");
  }
}

TEST_F(GgufFileTest, AlignmentIsAMultipleOfEight) {
  for (const uint32_t alignment : {0u, 4u, 12u, 1u << 31}) {
    auto writer = small_file();
    writer.set("general.alignment", u32(alignment));
    EXPECT_SAYS(refusal(writer), "general.alignment is ") << alignment;
  }
  auto writer = small_file();
  writer.set("general.alignment", text("32"));
  EXPECT_SAYS(refusal(writer), "general.alignment is no integer");
}

class SplitGguf : public GgufFileTest {
 protected:
  static GgufWriter part(int number, int count) {
    GgufWriter writer;
    if (number == 0) writer.set("general.architecture", text("llama"));
    writer.set("split.no", u16(static_cast<uint16_t>(number)));
    writer.set("split.count", u16(static_cast<uint16_t>(count)));
    writer.set("split.tensors.count", i32(count));
    writer.tensors = {{"t" + std::to_string(number), {8}, 0, std::string(32, static_cast<char>('a' + number))}};
    return writer;
  }
  static std::string name(int number, int count) {
    return "m-0000" + std::to_string(number + 1) + "-of-0000" + std::to_string(count) + ".gguf";
  }
};

TEST_F(SplitGguf, AllFilesAreReadWhicheverIsNamed) {
  for (int i = 0; i < 3; ++i) write(part(i, 3).file(), name(i, 3));
  for (int named = 0; named < 3; ++named) {
    const GgufFile file(dir_.path() / name(named, 3));
    EXPECT_EQ(file.paths().size(), 3u);
    EXPECT_EQ(file.path(), (dir_.path() / name(0, 3)).string());
    EXPECT_EQ(file.text("general.architecture"), "llama");
    for (int i = 0; i < 3; ++i) {
      std::string bytes(32, '\0');
      file.read(file.tensor("t" + std::to_string(i)), 0, 32, bytes.data());
      EXPECT_EQ(bytes, std::string(32, static_cast<char>('a' + i)));
    }
  }
}

TEST_F(SplitGguf, WhatIsNotOneModelIsRefused) {
  write(part(0, 2).file(), name(0, 2));
  EXPECT_SAYS(refusal(part(0, 2).file(), name(0, 2)), "cannot open");  // the second is not there
  EXPECT_SAYS(refusal(part(0, 2).file(), name(1, 2)), "split.no is 0 and split.count 2, expected 1 and 2");
  EXPECT_SAYS(refusal(part(0, 2).file(), "renamed.gguf"), "expected a name as x-00001-of-00003.gguf");
  auto again = part(1, 2);
  again.tensors[0].name = "t0";
  EXPECT_SAYS(refusal(again.file(), name(1, 2)), "tensor 't0' is in an earlier file, too");
  auto more = part(0, 2);
  more.set("split.tensors.count", i32(3));
  write(more.file(), name(0, 2));
  EXPECT_SAYS(refusal(part(1, 2).file(), name(1, 2)), "split.tensors.count is 3, the files hold 2");
}

}  // namespace
