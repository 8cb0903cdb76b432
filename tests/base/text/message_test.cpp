#include "text/message.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>

#include "text/utf8.h"

namespace kvc {
namespace {

TEST(Message, IsOneLineThatCanBeRead) {
  EXPECT_EQ(one_line("a\tb\x1b[31m\nstack trace"), "a b [31m");
  EXPECT_EQ(one_line(std::string(4000, 'x')), std::string(4000, 'x'));
  std::string letters = "x";
  for (int i = 0; i < 3000; ++i) letters += "é";
  const auto cut = one_line(letters);
  EXPECT_EQ(cut.size(), 3999u);
  EXPECT_TRUE(cut.ends_with("é ..."));
  EXPECT_TRUE(is_utf8(cut));
}

template <class Action>
std::string said(Action action) {
  try {
    action();
  } catch (const std::exception& error) {
    return said_by(error);
  }
  return "";
}

TEST(Message, OfALibraryIsInOurWords) {
  EXPECT_EQ(said([] { throw std::bad_alloc(); }), "out of memory");
  EXPECT_EQ(said([] { throw std::runtime_error("[] DefaultCPUAllocator: can't allocate memory: 8 bytes"); }),
            "out of memory");
  EXPECT_EQ(said([] { (void)nlohmann::json::parse("1e400"); }), "JSON: number overflow parsing '1e400'");
  EXPECT_EQ(said([] { (void)std::filesystem::file_size("/none"); }), "'/none': No such file or directory");
  EXPECT_EQ(said([] { throw std::runtime_error("as it is"); }), "as it is");
}

}  // namespace
}  // namespace kvc
