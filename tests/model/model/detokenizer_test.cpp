// Text that comes out id by id: the same as all at once, whole characters only, nothing early and nothing late.
#include "tokenizer/detokenizer.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support/places.h"
#include "support/processor_seconds.h"
#include "support/temp_folder.h"
#include "text/files.h"
#include "text/utf8.h"

namespace {

namespace fs = std::filesystem;
using Ids = std::vector<int64_t>;

std::vector<fs::path> folders() {
  std::vector<fs::path> found{KVC_SOURCE_DIR "/models/demo"};
  for (const char* name : {"demo_like", "spm", "added", "gpt2", "pieces"})
    found.push_back(kvc::test::kModelData / name);
  return found;
}

std::vector<std::string> pieces_of(const kvc::Tokenizer& tokenizer, const Ids& ids, bool skip = true) {
  kvc::Detokenizer detokenizer(tokenizer, skip);
  std::vector<std::string> pieces;
  for (const auto id : ids) pieces.push_back(detokenizer.add(id));
  pieces.push_back(detokenizer.finish());
  return pieces;
}

Ids ids_of(const kvc::Tokenizer& tokenizer, const std::vector<std::string>& tokens) {
  Ids ids;
  for (const auto& token : tokens) ids.push_back(tokenizer.token_id(token).value());
  return ids;
}

// Random ids, biased towards the first ones, where bytes and signs are. What is out after n ids must be a beginning of
// what decode makes of these n, and of all.
void check_random_ids(const fs::path& folder, int n_sequences) {
  const auto tokenizer = kvc::Tokenizer::load(folder);
  std::mt19937 random(11);
  for (int i = 0; i < n_sequences; ++i) {
    const auto n_ids = random() % 40;
    const bool skip = random() % 2 == 0;
    const auto range = random() % 3 == 0 ? tokenizer.vocab_size() + 3 : 300;
    Ids ids;
    while (ids.size() < n_ids) ids.push_back(static_cast<int64_t>(random() % static_cast<uint64_t>(range)));
    const auto all = tokenizer.decode(ids, skip);
    const auto pieces = pieces_of(tokenizer, ids, skip);
    std::string text;
    for (size_t n = 0; n < pieces.size(); ++n) {
      ASSERT_TRUE(kvc::is_utf8(pieces[n])) << folder << ": " << testing::PrintToString(ids);
      text += pieces[n];
      const auto here = tokenizer.decode(std::span(ids).first(std::min(n + 1, ids.size())), skip);
      ASSERT_TRUE(here.starts_with(text)) << folder << ": '" << text << "' of '" << here << "', id " << n;
      ASSERT_TRUE(all.starts_with(text)) << folder << ": '" << text << "' of '" << all << "', id " << n;
    }
    ASSERT_EQ(text, all);
  }
}

TEST(Detokenizer, GivesWhatDecodeGivesInWholeCharacters) {
  for (const auto& folder : folders()) check_random_ids(folder, 1000);
}

TEST(Detokenizer, GivesWhatDecodeGivesForRealTokenizers) {
  const char* data = std::getenv("KVC_DATA");
  if (!data || !fs::exists(fs::path(data) / "tokenizers")) GTEST_SKIP() << "KVC_DATA/tokenizers is absent";
  for (const auto& entry : fs::directory_iterator(fs::path(data) / "tokenizers")) {
    if (fs::exists(entry.path() / "tokenizer.json")) check_random_ids(entry.path(), 3000);
  }
  const kvc::test::TempFolder pieces;
  fs::copy_file(fs::path(data) / "tokenizers" / "llama2" / "tokenizer.model", pieces / "tokenizer.model");
  check_random_ids(pieces.path(), 3000);
}

TEST(Detokenizer, HoldsACharacterBackUntilItIsWhole) {
  const auto tokenizer =
      kvc::Tokenizer::load(kvc::test::kModelData / "demo_like");  // byte-level: the euro sign is E2 82 AC
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"a", "â", "Ĥ", "¬", "b"})), (Pieces{"a", "", "", "€", "b", ""}));
  EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"â", "Ĥ", "a"})), (Pieces{"", "", "\ufffda", ""}));
  EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"â", "Ĥ"})), (Pieces{"", "", "\ufffd"}));
  EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"Ĥ", "ÿ"})), (Pieces{"\ufffd", "\ufffd", ""}));
}

// tokenizers: a run of byte tokens that is not UTF-8 as a whole is all U+FFFD; sentencepiece: only the broken bytes.
TEST(Detokenizer, DecodesByteTokensByTheRuleOfTheFile) {
  using Pieces = std::vector<std::string>;
  const std::vector<std::string> whole{"<0xE2>", "<0x82>", "<0xAC>", "a"},
      broken{"<0xE2>", "<0x82>", "<0xAC>", "<0xFF>", "<0x41>"};
  const auto json = kvc::Tokenizer::load(kvc::test::kModelData / "spm");
  EXPECT_EQ(pieces_of(json, ids_of(json, whole)), (Pieces{"", "", "", "€a", ""}));
  EXPECT_EQ(pieces_of(json, ids_of(json, broken)), (Pieces{"", "", "", "\ufffd\ufffd\ufffd\ufffd", "\ufffd", ""}));
  const auto pieces = kvc::Tokenizer::load(kvc::test::kModelData / "pieces");
  EXPECT_EQ(pieces_of(pieces, ids_of(pieces, whole)), (Pieces{"", "", "€", "a", ""}));
  EXPECT_EQ(pieces_of(pieces, ids_of(pieces, broken)), (Pieces{"", "", "€", "\ufffd", "A", ""}));
  EXPECT_EQ(pieces_of(pieces, ids_of(pieces, {"<0xE2>", "<0x82>"})), (Pieces{"", "", "\ufffd\ufffd"}));
}

TEST(Detokenizer, DropsTheSpaceThatEncodingPutThereOnce) {
  using Pieces = std::vector<std::string>;
  for (const char* name : {"spm", "pieces"}) {
    const auto tokenizer = kvc::Tokenizer::load(kvc::test::kModelData / name);
    EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"<s>", "▁", "▁the", "▁the"})),
              (Pieces{"", "", " the", " the", ""}))
        << name;
    EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"▁the", "▁"})), (Pieces{"the", " ", ""})) << name;
    EXPECT_EQ(pieces_of(tokenizer, ids_of(tokenizer, {"<s>", "▁the"}), false), (Pieces{"<s>", " the", ""})) << name;
  }
}

TEST(Detokenizer, TakesAsLongForTheLastIdAsForTheFirst) {
  for (const char* name : {"demo_like", "spm", "pieces"}) {
    const auto tokenizer = kvc::Tokenizer::load(kvc::test::kModelData / name);
    kvc::Detokenizer detokenizer(tokenizer, true);
    const double seconds = kvc::test::processor_seconds([&] {
      for (int64_t i = 0; i < 500'000; ++i) detokenizer.add(3 + i % 250);  // in "spm" and "pieces", runs of byte tokens
      detokenizer.finish();
    });
    EXPECT_LT(seconds, 10.0) << name;
  }
}

}  // namespace
