// Text files as other programs leave them: packed, with byte order marks, in other encodings, or no text at all.
#include "text/text_file.h"

#include <bzlib.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

std::string gzip(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<unsigned>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<unsigned>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string bzip2(const std::string& text) {
  std::string packed(text.size() + text.size() / 50 + 1000, '\0');
  auto n = static_cast<unsigned>(packed.size());
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(packed.data(), &n, const_cast<char*>(text.data()),
                                     static_cast<unsigned>(text.size()), 9, 0, 0),
            BZ_OK);
  packed.resize(n);
  return packed;
}

class TextFile : public testing::Test {
 protected:
  std::string read(const std::string& bytes, const std::string& name = "t",
                   TextEncoding encoding = TextEncoding::kUtf8) {
    folder_.write(name, bytes);
    std::string text;
    const auto message = test::message_of([&] { text = read_text(folder_ / name, encoding); });
    return message == "no error" ? text : folder_.relative(message);
  }
  test::TempFolder folder_;
};

TEST_F(TextFile, PackedTextIsReadByItsBytesWhateverItsName) {
  for (const std::string name : {"t.gz", "t.txt"}) EXPECT_EQ(read(gzip("caf\xC3\xA9\n"), name), "caf\xC3\xA9\n");
  for (const std::string name : {"t.bz2", "t.txt"}) EXPECT_EQ(read(bzip2("caf\xC3\xA9\n"), name), "caf\xC3\xA9\n");
  EXPECT_EQ(read(gzip("")), "");
  EXPECT_EQ(read(bzip2("")), "");
  EXPECT_EQ(read(""), "");
}

TEST_F(TextFile, PackedMembersThatFollowEachOtherAreOneText) {
  EXPECT_EQ(read(gzip("one\n") + gzip("two\n") + gzip("")), "one\ntwo\n");
  EXPECT_EQ(read(bzip2("one\n") + bzip2("") + bzip2("two\n")), "one\ntwo\n");
}

TEST_F(TextFile, ManyBuffersAreReadInOrder) {
  std::string text;
  for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919) + "\n";
  EXPECT_TRUE(read(text) == text);
  EXPECT_TRUE(read(gzip(text)) == text);
  EXPECT_TRUE(read(bzip2(text.substr(0, 400'000)) + bzip2(text.substr(400'000))) == text);
}

TEST_F(TextFile, DamagedPackedFilesAreOneLine) {
  const auto packed = gzip(std::string(5000, 'x') + "end");
  EXPECT_EQ(read(packed.substr(0, packed.size() - 5)), "t: error: no whole gzip file: unexpected end of file");
  EXPECT_EQ(read(packed.substr(0, 3)), "t: error: no whole gzip file: unexpected end of file");
  auto wrong = packed;
  wrong[packed.size() - 6] ^= 1;
  EXPECT_EQ(read(wrong), "t: error: no whole gzip file: incorrect data check");
  EXPECT_EQ(read("text", "t.gz"), "t.gz: error: no whole gzip file: it does not begin like one");
  const auto other = bzip2("some text");
  EXPECT_EQ(read(other.substr(0, other.size() - 3)), "t: error: no whole bzip2 file");
  EXPECT_EQ(read(other + "more"), "t: error: no whole bzip2 file");
  EXPECT_EQ(read("text", "t.bz2"), "t.bz2: error: no whole bzip2 file");
}

TEST_F(TextFile, ABombIsRefusedBeforeItTakesTheMemory) {
  const std::string part(kMostUnpackedBytes / 16, ' ');
  const auto times_17 = [](const std::string& packed) {
    std::string all;
    for (int i = 0; i < 17; ++i) all += packed;
    return all;
  };
  const std::string refused =
      "t: error: it unpacks to more than 268435456 bytes; unpack it, and name the unpacked file";
  EXPECT_EQ(read(times_17(gzip(part))), refused);
  EXPECT_EQ(read(times_17(bzip2(part))), refused);
}

TEST_F(TextFile, TheByteOrderMarkOfUtf8IsNoText) {
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_EQ(read(mark + "a" + mark), "a" + mark);  // within a text it is one of its characters
  EXPECT_EQ(read(mark), "");
  EXPECT_EQ(read(gzip(mark + "a")), "a");
  EXPECT_EQ(read(mark + "a\xE9"), "t:1:2: error: not well-formed UTF-8");
  EXPECT_EQ(read(mark + "a", "t", TextEncoding::kLatin1),
            "t:1:1: error: the file begins with the byte order mark of UTF-8, and the encoding is said to be latin1");
  folder_.write("y.yaml", mark + "a: 1\n");
  EXPECT_EQ(load_yaml(folder_ / "y.yaml").map().required("a").where(), (folder_ / "y.yaml").string() + ":1:4");
}

TEST_F(TextFile, WhatIsNoTextIsNamedWithWhatMakesTextOfIt) {
  using std::string_literals::operator""s;
  const std::pair<std::string, std::string> cases[] = {
      {"\xFF\xFE\x61\0"s,
       "the file is text in UTF-16 (byte order mark FF FE), expected text in UTF-8: iconv -f UTF-16"},
      {"\xFE\xFF\0a"s, "the file is text in UTF-16 (byte order mark FE FF)"},
      {"\xFF\xFE\0\0a\0\0\0"s, "the file is text in UTF-32"},
      {"{\0\"\0"s, "the file is text in UTF-16 without a byte order mark"},
      {"PAR1\x15\x04\x15"s,
       "the file is Parquet, expected text in UTF-8: python3 -c \"import pandas as p; p.read_parquet("},
      {"ARROW1\0\0\xFF\xFF"s, "the file is Arrow (Feather)"},
      {"\xFF\xFF\xFF\xFF\x98\x01\0\0"s, "the file is an Arrow stream"},
      {"PK\x03\x04\x14\0"s, "the file is a zip archive, expected text in UTF-8: unzip "},
      {"PK\x03\x04\x14\0......xl/workbook.xml"s, "the file is an Excel workbook"},
      {"\x28\xB5\x2F\xFD\x04"s, "the file is packed by zstd, expected text in UTF-8: zstd -d "},
      {"\xFD\x37zXZ\0\0"s, "the file is packed by xz"},
      {"version https://git-lfs.github.com/spec/v1\n", ": a Git LFS pointer and not the file itself"},
      {gzip("PK\x03\x04"), "the file is a zip archive"},
      {gzip(std::string(257, 'a') + "ustar" + std::string(100, 'a')), "the file is a tar archive"},
  };
  for (const auto& [bytes, said] : cases) {
    const auto message = read(bytes);
    EXPECT_NE(message.find(said), std::string::npos) << message;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
  for (const std::string text : {"PAR1 is a word", "PK", "BZh9 bus", "ARROW1,2", "a"}) EXPECT_EQ(read(text), text);
}

TEST_F(TextFile, Latin1IsReadWhereItIsSaid) {
  EXPECT_EQ(read("caf\xE9\n", "t", TextEncoding::kLatin1), "caf\xC3\xA9\n");
  EXPECT_EQ(read(gzip("\xA0"), "t", TextEncoding::kLatin1), "\xC2\xA0");
  EXPECT_EQ(read("ok\ncaf\xE9\n"), "t:2:4: error: not well-formed UTF-8");
}

}  // namespace
}  // namespace kvc
