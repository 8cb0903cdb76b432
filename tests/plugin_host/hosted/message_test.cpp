// Requests and answers as bytes, also those of a process that is not trusted.
#include "hosted/message.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "hosted/shape_json.h"
#include "kvc/check.h"

namespace kvc::protocol {
namespace {

using Bytes = std::vector<std::byte>;

struct Written {
  Bytes memory = Bytes(1 << 16), message = Bytes(kMostBytes);
};

Written written(const std::vector<at::Tensor>& tensors, const std::string& text) {
  Written all;
  write_message({9, 0, 0, 0, {1, -2, 3}}, tensors, text, all.memory, all.message.data());
  return all;
}

TEST(Message, ComesBackAsItWasWritten) {
  const std::vector<at::Tensor> tensors{
      at::randn({2, 3, 5}).transpose(0, 2), {}, at::arange(7), at::zeros({0, 4}), at::randn({3}).to(at::kBFloat16),
      at::ones({2, 2}).to(at::kBool)};
  auto all = written(tensors, "{\"what\": \"\xc3\xa4\"}");
  const auto received = read_message(all.message.data(), all.memory.size());
  EXPECT_EQ(received.head.operation, 9u);
  EXPECT_EQ(received.head.numbers[1], -2);
  EXPECT_EQ(received.text, "{\"what\": \"\xc3\xa4\"}");
  ASSERT_EQ(received.places.size(), tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto back = tensor_at(received.places[i], all.memory.data());
    ASSERT_EQ(back.defined(), tensors[i].defined());
    if (back.defined()) EXPECT_TRUE(back.dtype() == tensors[i].dtype() && at::equal(back, tensors[i])) << i;
  }
}

TEST(Message, WithoutRoomIsRefused) {
  Written all;
  EXPECT_THROW(write_message({}, std::vector{at::zeros({1 << 15})}, "", all.memory, all.message.data()), Error);
  EXPECT_THROW(write_message({}, {}, std::string(kMostBytes, 'x'), all.memory, all.message.data()), Error);
}

void expect_refused(const Place& place, const char* because) {
  auto all = written({at::zeros({4})}, "");
  std::memcpy(all.message.data() + sizeof(Message), &place, sizeof place);
  try {
    read_message(all.message.data(), all.memory.size());
    ADD_FAILURE() << because;
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr(because));
  }
}

TEST(Answer, WithATensorThatIsNoneIsRefused) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  expect_refused({64, 0, 5, {1, 1, 1, 1}}, "5 dimensions");
  expect_refused({64, 10, 1, {4}}, "type number 10");
  expect_refused({64, 0, 2, {4, -1}}, "size -1");
  expect_refused({1 << 16, 0, 1, {1}}, "outside its memory");
  expect_refused({(1 << 16) - 64, 0, 1, {17}}, "outside its memory");
  expect_refused({4, 0, 1, {1}}, "outside its memory");
  expect_refused({~uint64_t{0} - 63, 0, 1, {4}}, "outside its memory");
  expect_refused({0, 3, 4, {kHuge, kHuge, kHuge, 2}}, "larger than its memory");
  expect_refused({0, 0, 4, {1 << 8, 1 << 8, 1 << 8, 1 << 8}}, "larger than its memory");
}

// Whatever bytes are changed: one line of an error, or tensors within the memory.
TEST(Answer, MutatedTwentyThousandTimesIsRefusedInOneLineOrHarmless) {
  std::mt19937 random(1);
  const auto good = written({at::randn({2, 8, 4}), at::arange(5), {}}, "[\"some text\"]");
  const size_t n_bytes = sizeof(Message) + 3 * sizeof(Place) + 13;
  int n_refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    auto all = good;
    for (size_t n = 1 + random() % 8; n > 0; --n) {
      auto* at = all.message.data() + random() % n_bytes;
      *at = random() % 2 ? static_cast<std::byte>(random()) : *at ^ static_cast<std::byte>(1 << random() % 8);
    }
    try {
      const auto received = read_message(all.message.data(), all.memory.size());
      for (const auto& place : received.places) {
        const auto x = tensor_at(place, all.memory.data());
        if (!x.defined() || x.numel() == 0) continue;
        const auto* begin = static_cast<const std::byte*>(x.const_data_ptr());
        ASSERT_TRUE(begin >= all.memory.data() && begin + x.nbytes() <= all.memory.data() + all.memory.size());
      }
    } catch (const Error& e) {
      ++n_refused;
      ASSERT_EQ(std::string(e.what()).find('\n'), std::string::npos) << e.what();
    }
  }
  EXPECT_GT(n_refused, 5000);
}

TEST(ShapeJson, HasEveryFieldOfAModelAndALayer) {
  const ModelShape model{.n_layers = 3,
                         .n_heads = 8,
                         .n_kv_heads = 2,
                         .head_dim = 96,
                         .sliding_window = 7,
                         .has_rope = false,
                         .attention_scale = 0.3,
                         .n_rotated_channels = 48,
                         .logit_softcap = 30,
                         .has_sinks = true,
                         .has_neighbours_in_gguf = true,
                         .layers = {{5, true}, {0, false}, {9, true}}};
  const auto back = nlohmann::json::parse(nlohmann::json(model).dump()).get<ModelShape>();
  EXPECT_EQ(nlohmann::json(back), nlohmann::json(model));
  EXPECT_EQ(back.layers, model.layers);
  EXPECT_EQ(back.attention_scale, 0.3);
  const auto layer = layer_info(model, 2, ~uint64_t{0} - 5, {});
  const auto layer_back = nlohmann::json::parse(nlohmann::json(layer).dump()).get<LayerInfo>();
  EXPECT_EQ(nlohmann::json(layer_back), nlohmann::json(layer));
  EXPECT_EQ(layer_back.sequence_key, ~uint64_t{0} - 5);
}

}  // namespace
}  // namespace kvc::protocol
