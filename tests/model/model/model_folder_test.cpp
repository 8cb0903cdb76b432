// Folders that are not what is read: the error names what is there and what to do.
#include "text/model_folder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "checkpoint/model_config.h"
#include "checkpoint/safetensors.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "tokenizer/tokenizer.h"

namespace {

using kvc::test::message_of;
using kvc::test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLfsText = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n";

std::string checkpoint_error(const TempFolder& dir) {
  return message_of([&] { kvc::Checkpoint checkpoint(dir.path()); });
}

struct OtherWeights {
  const char* name;
  std::vector<const char*> files;
  std::vector<const char*> words;
};

class WithoutSafetensors : public testing::TestWithParam<OtherWeights> {};

TEST_P(WithoutSafetensors, SaysWhatIsThereAndHowToConvertIt) {
  const TempFolder dir;
  for (const char* file : GetParam().files) dir.write(file, "x");
  const auto message = checkpoint_error(dir);
  EXPECT_THAT(message, AllOf(HasSubstr(dir.path().string()), HasSubstr("neither model.safetensors nor")));
  for (const char* word : GetParam().words) EXPECT_THAT(message, HasSubstr(word));
}
INSTANTIATE_TEST_SUITE_P(
    Folders, WithoutSafetensors,
    testing::Values(OtherWeights{"Bin",
                                 {"config.json", "optimizer.pt", "pytorch_model.bin", "training_args.bin"},
                                 {"'pytorch_model.bin' is a pickle", "python3 -c", "save_pretrained("}},
                    OtherWeights{"BinShards",
                                 {"pytorch_model-00001-of-00002.bin", "pytorch_model.bin.index.json"},
                                 {"'pytorch_model-00001-of-00002.bin' is a pickle"}},
                    OtherWeights{"Pt", {"model.pt"}, {"'model.pt' is a pickle"}},
                    OtherWeights{"Pth", {"consolidated.00.pth"}, {"'consolidated.00.pth' is a pickle"}},
                    OtherWeights{"Gguf", {"x.Q4.gguf"}, {"'x.Q4.gguf'", "gguf_file='x.Q4.gguf'"}},
                    OtherWeights{"Adapter", {"adapter_model.safetensors"}, {"is an adapter, merge it"}},
                    OtherWeights{"OtherName", {"weights.safetensors"}, {"'weights.safetensors' is not called so"}}),
    [](const auto& info) { return info.param.name; });

TEST(Checkpoint, DoesNotTakeATrainersFilesForWeights) {
  const TempFolder dir;
  dir.write("optimizer.pt", "x");
  dir.write("training_args.bin", "x");
  EXPECT_THAT(checkpoint_error(dir), Not(HasSubstr("pickle")));
}

TEST(Checkpoint, NamesTheShardThatIsNotThere) {
  const TempFolder dir;
  kvc::write_safetensors(dir / "one.safetensors", {{"a", at::ones({1})}});
  dir.write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  EXPECT_THAT(checkpoint_error(dir), AllOf(HasSubstr("'b' in 'two.safetensors'"), HasSubstr("not in the folder")));
}

TEST(Checkpoint, FollowsTheLinksOfADownloadCache) {
  const TempFolder dir;
  std::filesystem::create_directories(dir / "blobs");
  std::filesystem::create_directories(dir / "snapshots");
  kvc::write_safetensors(dir / "blobs/1f", {{"a", at::full({1}, 3.0f)}});
  dir.write("snapshots/model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors"}})");
  std::filesystem::create_symlink("../blobs/1f", dir / "snapshots/one.safetensors");
  EXPECT_EQ(kvc::Checkpoint(dir / "snapshots").tensor("a", {1}).item<float>(), 3.0f);
  std::filesystem::remove(dir / "blobs/1f");  // the link leads nowhere now
  EXPECT_THAT(message_of([&] { kvc::Checkpoint checkpoint(dir / "snapshots"); }),
              AllOf(HasSubstr("one.safetensors"), HasSubstr("No such file")));
}

TEST(Checkpoint, KnowsAGitLfsPointer) {
  const TempFolder dir;
  dir.write("model.safetensors", kLfsText);
  EXPECT_THAT(checkpoint_error(dir),
              AllOf(HasSubstr("model.safetensors: a Git LFS pointer"), HasSubstr("git lfs pull")));
  dir.write("tokenizer.json", kLfsText);
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }), HasSubstr("tokenizer.json: a Git LFS pointer"));
}

// Opening a pipe that nobody writes to would wait for ever.
TEST(ModelFolder, DoesNotWaitForAPipe) {
  const TempFolder dir;
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    ASSERT_EQ(mkfifo((dir / name).c_str(), 0600), 0);
  }
  EXPECT_THAT(checkpoint_error(dir), HasSubstr("not a regular file"));
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }), HasSubstr("not a regular file"));
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }), HasSubstr("not a regular file"));
}

TEST(ModelFolder, IsNotReadIntoMemoryWhateverItsSize) {
  const TempFolder dir;
  dir.write("config.json", "");
  std::filesystem::resize_file(dir / "config.json", uintmax_t{1} << 40);  // holds no block
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }), HasSubstr("1099511627776 bytes, at most"));
}

TEST(ModelFolder, SaysWhichFileItLacks) {
  const TempFolder dir;
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }), HasSubstr(": no config.json; expected"));
  EXPECT_THAT(message_of([&] { kvc::Tokenizer::load(dir.path()); }),
              HasSubstr(": no tokenizer; expected tokenizer.json"));
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir / "none"); }), HasSubstr("none': no such folder"));
  dir.write("x.gguf", "GGUF");
  EXPECT_THAT(message_of([&] { kvc::load_model_config(dir.path()); }), HasSubstr("'x.gguf', of another format"));
  EXPECT_THAT(message_of([&] { kvc::Checkpoint checkpoint(dir / "x.gguf"); }), HasSubstr("x.gguf"));
}

TEST(ModelFolder, WithANameThatNoSystemTakesIsAnError) {
  const std::string name(5000, 'x');
  EXPECT_THAT(message_of([&] { kvc::load_model_config(name); }), HasSubstr("File name too long"));
  EXPECT_THAT(message_of([&] { kvc::Checkpoint checkpoint(name); }), HasSubstr("File name too long"));
}

}  // namespace
