#include <cstdio>

#include "method.h"

namespace kvc::conformance {
namespace {

const ModelShape kModel{.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64};

KeyValue decoded(const nlohmann::json& options, const Input& tokens, int64_t n_prompt) {
  return Method("gear", options).cache(kModel, tokens, n_prompt)->dequantize();
}

// L is an orthogonal projection of what the backbone (and S) leave, so no error can grow; seeds and ranks at will.
TEST(Gear, LowRankNeverAddsError) {
  const auto tokens = ordinary_input(kModel, 192);
  for (const std::string backbone : {"token_group", "kcvt", "kivi"}) {
    for (const double sparsity : {0.0, 0.05}) {
      double last_k = INFINITY, last_v = INFINITY;
      for (const int64_t rank : {0, 1, 4, 16, 64}) {
        const auto kv = decoded({{"backbone", backbone},
                                 {"bits", 2},
                                 {"rank", rank},
                                 {"loops", 8},
                                 {"sparsity", sparsity},
                                 {"precision", "exact"}},
                                tokens, 192);
        const double k = relative_error(kv.k, tokens.k), v = relative_error(kv.v, tokens.v);
        EXPECT_LT(k, last_k) << backbone << " rank " << rank;
        EXPECT_LT(v, last_v) << backbone << " rank " << rank;
        last_k = k, last_v = v;
      }
      if (sparsity == 0) {
        EXPECT_LT(std::max(last_k, last_v), 1e-5) << backbone << " at full rank";
      }
    }
  }
}

// Pythagoras, and A^T (X - L) = 0 seen from outside: the correction is orthogonal to what it leaves, head by head.
TEST(Gear, CorrectionIsOrthogonalToWhatItLeaves) {
  const auto tokens = ordinary_input(kModel, 128);
  const nlohmann::json options = {{"bits", 2}, {"sparsity", 0.0}, {"precision", "exact"}};
  auto without = options;
  without["rank"] = 0;
  const auto backbone = decoded(without, tokens, 128).k, corrected = decoded(options, tokens, 128).k;
  const auto low_rank = (corrected - backbone).to(at::kDouble), left = (tokens.k - corrected).to(at::kDouble);
  const auto squared = [](const at::Tensor& x) { return x.square().sum().item<double>(); };
  EXPECT_NEAR(squared(tokens.k - backbone), squared(low_rank) + squared(left), 1e-4 * squared(left));
  EXPECT_LT(at::matmul(low_rank.transpose(1, 2), left).abs().max().item<double>(), 1e-4 * squared(low_rank));
  const auto singular = std::get<1>(at::linalg_svd(low_rank, false));  // [H, 64]
  EXPECT_LT(singular.narrow(1, 4, 60).max().item<double>(), 1e-5 * singular.max().item<double>());
}

// GEAR figure 4b: the first tokens of the prompt are as the backbone leaves them, the last have a low-rank part of
// their own, decoded tokens are not concerned.
TEST(Gear, CorrectFractionCorrectsTheLastOfThePrompt) {
  const auto tokens = ordinary_input(kModel, 260);
  nlohmann::json options = {{"bits", 2}, {"sparsity", 0.02}};
  const auto whole = decoded(options, tokens, 200);
  options["correct_fraction"] = 0.25;  // 50 of 200
  const auto part = decoded(options, tokens, 200);
  options["correct_fraction"] = 0;
  const auto nothing = decoded(options, tokens, 200);
  options["rank"] = 0;
  const auto no_rank = decoded(options, tokens, 200);
  const auto same = [](const at::Tensor& a, const at::Tensor& b, int64_t first, int64_t n) {
    return at::equal(a.narrow(1, first, n), b.narrow(1, first, n));
  };
  EXPECT_TRUE(same(part.k, nothing.k, 0, 150) && same(part.v, nothing.v, 0, 150));
  EXPECT_FALSE(same(part.k, nothing.k, 150, 1));
  EXPECT_FALSE(same(part.v, nothing.v, 199, 1));
  const auto error = [&](const KeyValue& kv) {
    return relative_error(kv.v.narrow(1, 150, 50), tokens.v.narrow(1, 150, 50));
  };
  EXPECT_LT(error(part), error(nothing));
  EXPECT_LT(error(part), error(whole));  // the same rank for a quarter of the tokens
  EXPECT_TRUE(same(nothing.k, no_rank.k, 0, 200) && same(nothing.v, no_rank.v, 0, 200));
  EXPECT_TRUE(same(whole.k, part.k, 240, 20) && same(whole.v, part.v, 240, 20));
}

// Figure 2a: each technique alone is worse than their sum.
TEST(Gear, SingleTechniquesAreWorseThanTheirSum) {
  const auto tokens = ordinary_input(kModel, 256);
  const auto error = [&](const char* backbone, int64_t rank, double sparsity) {
    return relative_error(
        decoded({{"backbone", backbone}, {"bits", 2}, {"rank", rank}, {"sparsity", sparsity}}, tokens, 256).v,
        tokens.v);
  };
  const double together = error("kcvt", 4, 0.02);
  EXPECT_LT(together, error("kcvt", 0, 0));
  EXPECT_LT(together, error("none", 4, 0));
  EXPECT_LT(together, error("none", 0, 0.02));
}

TEST(Gear, LowRankAloneNearsTheBestOfItsRank) {
  const auto tokens = ordinary_input(kModel, 256);
  const auto kv = decoded({{"backbone", "none"}, {"rank", 4}, {"sparsity", 0.0}, {"loops", 60}, {"precision", "exact"}},
                          tokens, 256);
  const auto singular = std::get<1>(at::linalg_svd(tokens.v.to(at::kDouble), false));  // [H, 64]
  const double best = (singular.narrow(1, 4, 60).norm() / singular.norm()).item<double>();
  EXPECT_GE(relative_error(kv.v, tokens.v), best * (1 - 1e-6));
  EXPECT_LE(relative_error(kv.v, tokens.v), best * 1.005);
}

TEST(Gear, OutliersAloneAreTheEndsOfEachVector) {
  const auto tokens = ordinary_input(kModel, 50);
  const auto kv = decoded(
      {{"backbone", "none"}, {"rank", 0}, {"decode_rank", 0}, {"sparsity", 0.2}, {"precision", "exact"}}, tokens, 50);
  const auto sorted = std::get<0>(tokens.k.sort(1));  // along tokens: 5 a side
  const auto kept = (tokens.k <= sorted.narrow(1, 4, 1)).logical_or(tokens.k >= sorted.narrow(1, 45, 1));
  EXPECT_TRUE(at::equal(kv.k, at::where(kept, tokens.k, at::zeros_like(tokens.k))));
  EXPECT_EQ(kv.k.count_nonzero().item<int64_t>(), 2 * 64 * 10);
}

TEST(Gear, Decodes300StepsAsFloat64Does) {
  for (const std::string backbone : {"token_group", "kcvt", "kivi", "none"}) {
    SCOPED_TRACE(backbone);
    expect_decoding_holds(Method("gear", {{"backbone", backbone}, {"bits", 2}, {"correct_fraction", 0.4}}), kModel, 75,
                          300);
  }
}

// GEAR's table 9, in percent as printed: GSM8k, AQuA, BBH (900, 1304, 1021 prompt tokens) for LLaMA3-8B, LLaMA2-13B,
// Mistral-7B. LLaMA3-8B's rows are charged rho = 2.5, unexplained there: rank 5 in the closed form.
struct Table9Row {
  const char* plugin;
  nlohmann::json options;
  const char* cells[9];
  const char* average;
};
const Table9Row kTable9[] = {
    {"token_group",
     {{"bits", 4}, {"group_size", 64}},
     {"35.2", "33.0", "34.4", "35.2", "33.0", "34.4", "35.2", "33.0", "34.4"},
     "34.2"},
    {"kcvt", {{"bits", 4}}, {"26.7", "27.2", "27.2", "27.5", "26.7", "27.2", "27.5", "26.7", "27.2"}, "27.1"},
    {"kivi",
     {{"bits", 4}, {"group_size", 64}, {"recent", 64}},
     {"35.2", "33.0", "34.4", "35.2", "33.0", "34.4", "35.2", "33.0", "34.4"},
     "34.2"},
    {"gear",
     {{"bits", 4}, {"sparsity", 0.0}},
     {"29.7", "28.9", "29.4", "29.3", "28.4", "29.0", "29.3", "28.5", "29.0"},
     "29.0"},
    {"gear", {{"bits", 4}}, {"31.7", "30.9", "31.4", "31.3", "30.4", "31.0", "31.3", "30.5", "31.0"}, "31.0"},
    {"token_group",
     {{"bits", 2}, {"group_size", 64}},
     {"22.7", "20.5", "21.9", "22.7", "20.5", "21.9", "22.7", "20.5", "21.9"},
     "21.7"},
    {"kivi",
     {{"bits", 2}, {"group_size", 64}, {"recent", 64}},
     {"22.7", "20.5", "21.9", "22.7", "20.5", "21.9", "22.7", "20.5", "21.9"},
     "21.7"},
    {"gear",
     {{"bits", 2}, {"backbone", "kivi"}, {"sparsity", 0.0}},
     {"25.0", "22.7", "24.1", "24.5", "22.2", "23.7", "24.5", "22.2", "23.7"},
     "23.6"},
    {"gear",
     {{"bits", 2}, {"backbone", "kivi"}},
     {"29.0", "26.7", "28.1", "28.5", "26.2", "27.7", "28.5", "26.2", "27.7"},
     "27.6"},
};

TEST(Gear, PaperBytesAreTable9) {
  const ModelShape models[] = {{32, 32, 8, 128}, {40, 40, 40, 128}, {32, 32, 8, 128}};
  const int64_t lengths[] = {900, 1304, 1021};
  const auto printed = [](double percent) {
    char text[16];
    std::snprintf(text, sizeof text, "%.1f", percent);
    return std::string(text);
  };
  int n_same = 0, n_cells = 0;
  std::vector<std::string> misprints;
  for (const auto& row : kTable9) {
    double sum = 0;
    for (int cell = 0; cell < 9; ++cell, ++n_cells) {
      const auto& model = models[cell / 3];
      const int64_t n = lengths[cell % 3];
      auto options = row.options;
      if (row.plugin == std::string("gear") && cell < 3) options["rank"] = 5;
      const double bytes =
          Method(row.plugin, options).compressor().paper_bytes(model, n, 256);  // by the prompt, for all
      const double percent = 100 * bytes / (4.0 * static_cast<double>((n + 256) * model.n_kv_heads * model.head_dim));
      const auto text = printed(percent);
      sum += percent;
      if (text == row.cells[cell]) {
        ++n_same;
      } else {
        misprints.push_back(
            concat(row.plugin, " ", row.options.dump(), " cell ", cell, ": ", text, ", printed ", row.cells[cell]));
      }
    }
    EXPECT_EQ(printed(sum / 9), row.average) << row.plugin << " " << row.options.dump();
  }
  for (const auto& line : misprints) std::printf("%s\n", line.c_str());
  std::printf("%d of %d cells as printed\n", n_same, n_cells);
  // The two known misprints: KCVT on LLaMA3-8B prints 26.7, 27.2 where all else says 27.5, 26.7.
  ASSERT_EQ(misprints.size(), 2u);
  EXPECT_EQ(misprints[0], "kcvt {\"bits\":4} cell 0: 27.5, printed 26.7");
  EXPECT_EQ(misprints[1], "kcvt {\"bits\":4} cell 1: 26.7, printed 27.2");
}

}  // namespace
}  // namespace kvc::conformance
