#include "rotated_codes.h"

#include <ATen/ATen.h>
#include <kvc/quant/pack_bits.h>
#include <kvc/quant/projection.h>
#include <kvc/quant/rotation.h>
#include <kvc/value_checks.h>

#include <cmath>
#include <numbers>

#include "rows.h"

namespace turboquant {
namespace {

constexpr int64_t kBlockTokens = 64;  // a step copies at most one block
const double kFactor = std::sqrt(std::numbers::pi / 2);

// x [.., d] times m [d, d], or times its transpose
at::Tensor times(const at::Tensor& x, const at::Tensor& m, bool transposed) {
  return kvc::rows_times(x, transposed ? m.t().contiguous() : m);
}

void write_norms(const at::Tensor& x, float* norms) {
  const int64_t d = x.size(2);
  const float* in = x.const_data_ptr<float>();
  for (int64_t row = 0; row < x.numel() / d; ++row, in += d) {
    double sum = 0;
    for (int64_t j = 0; j < d; ++j) sum += static_cast<double>(in[j]) * in[j];
    norms[row] = static_cast<float>(std::sqrt(sum));
  }
}

// [H, t] fp32
at::Tensor lengths_of(const at::Tensor& x) {
  auto lengths = at::empty({x.size(0), x.size(1)}, x.options());
  if (x.is_cpu()) {
    write_norms(x, lengths.data_ptr<float>());
  } else {
    lengths.copy_(x.to(at::kDouble).norm(2, 2));
  }
  return lengths;
}

// As they are held.
at::Tensor stored(const at::Tensor& norms, kvc::Precision precision) {
  const auto held = norms.to(kvc::storage_type(precision));
  kvc::check_values(held.isfinite(), [norms] {
    return kvc::concat("turboquant: the norm of a token is ", norms.max().item<double>(), ", beyond fp16 (65504)");
  });
  return held;
}

// u8 codes [H, t, D] of rotated rows, divided by their norms; a row of norm 0 has the codes of 0.
at::Tensor codes_of(const at::Tensor& rotated, const at::Tensor& norms, const std::vector<float>& middles) {
  if (!rotated.is_cpu()) {
    const auto bounds = at::tensor(middles).to(rotated.device());
    const auto z = (rotated / norms.to(at::kFloat).unsqueeze(2)).masked_fill_(norms.eq(0).unsqueeze(2), 0);
    return at::bucketize(z, bounds, /*out_int32=*/true, /*right=*/true).to(at::kByte);
  }
  const int64_t d = rotated.size(2);
  auto codes = at::empty(rotated.sizes(), at::kByte);
  const auto wide = norms.to(at::kFloat);
  const float *in = rotated.const_data_ptr<float>(), *norm = wide.const_data_ptr<float>();
  auto* out = codes.data_ptr<uint8_t>();
  for (int64_t row = 0; row < wide.numel(); ++row) {
    codes_of_row(in + row * d, d, norm[row], middles.data(), static_cast<int64_t>(middles.size()), out + row * d);
  }
  return codes;
}

double sketch_factor(int64_t d) { return kFactor / static_cast<double>(d); }

void append_to(at::Tensor& held, const at::Tensor& more) {
  if (more.defined()) held = at::cat({held, more}, 1);
}

}  // namespace

at::Tensor rotate(const at::Tensor& x, const Tables& tables) { return times(x, tables.rotation, false); }
at::Tensor rotate_back(const at::Tensor& x, const Tables& tables) { return times(x, tables.rotation, true); }

kvc::LevelCodes RotatedCodes::rotated(const Block& block) const {
  const int64_t d = tables_.rotation.size(0);
  return {.codes = block.codes,
          .scale = block.norms.unsqueeze(2),
          .book = {tables_.levels.data(), tables_.bits},
          .factor = 1. / static_cast<double>(d),
          .head_dim = d};
}

void RotatedCodes::push_back(const at::Tensor& tokens) {
  const auto x = tokens.to(at::kFloat).contiguous();
  Block block;
  const auto lengths = lengths_of(x);
  block.norms = stored(lengths, precision_);
  block.codes = kvc::pack_bits(codes_of(rotate(x, tables_), block.norms, tables_.middles), tables_.bits);
  if (tables_.keeps_length) {
    const auto coded = lengths_of(rotated(block).dequantize()) * std::sqrt(static_cast<double>(x.size(2)));
    block.norms = stored((lengths / coded * block.norms).masked_fill_(coded == 0, 0), precision_);
  }
  if (tables_.sketch.defined()) {
    const auto rest = x - rotate_back(rotated(block).dequantize(), tables_);
    block.residual_norms = stored(lengths_of(rest), precision_);
    block.signs = kvc::pack_signs(times(rest, tables_.sketch, false));
  }
  n_tokens_ += x.size(1);
  if (blocks_.empty() || blocks_.back().norms.size(1) >= kBlockTokens) {
    blocks_.push_back(std::move(block));
    return;
  }
  Block& open = blocks_.back();
  append_to(open.codes, block.codes), append_to(open.norms, block.norms);
  append_to(open.signs, block.signs), append_to(open.residual_norms, block.residual_norms);
}

void RotatedCodes::drop_front(int64_t n_tokens) {
  n_tokens_ -= n_tokens;
  auto first = blocks_.begin();
  for (; first != blocks_.end() && first->norms.size(1) <= n_tokens; ++first) n_tokens -= first->norms.size(1);
  const auto cut = [&](at::Tensor& x) {
    if (x.defined()) x = x.narrow(1, n_tokens, x.size(1) - n_tokens).clone();
  };
  if (n_tokens > 0) cut(first->codes), cut(first->norms), cut(first->signs), cut(first->residual_norms);
  blocks_.erase(blocks_.begin(), first);
}

at::Tensor RotatedCodes::dequantize() const {
  if (!tables_.sketch.defined()) return vectors({}, 0);
  return vectors(kvc::least_squares_of_signs(tables_.sketch).to(at::kFloat).contiguous(), 1);
}

at::Tensor RotatedCodes::attended() const { return vectors(tables_.sketch, sketch_factor(tables_.rotation.size(0))); }

at::Tensor RotatedCodes::vectors(const at::Tensor& back, double factor) const {
  const int64_t d = tables_.rotation.size(0);
  std::vector<at::Tensor> parts;  // each [H, t, D]
  for (const auto& block : blocks_) {
    auto x = rotate_back(rotated(block).dequantize(), tables_);
    if (block.signs.defined()) {
      const auto signs = kvc::unpack_signs(block.signs, d).contiguous();
      x += times(signs, back, true) * block.residual_norms.to(at::kFloat).mul(factor).unsqueeze(2);
    }
    parts.push_back(x);
  }
  return parts.empty() ? at::Tensor() : at::cat(parts, 1);
}

void RotatedCodes::score(kvc::CompressedAttention& attention) const {
  for_each_block([&](const kvc::LevelCodes& x, int64_t first) { attention.score(x, first); });
  if (!tables_.sketch.defined()) return;
  const auto query = rotate_back(attention.q(), tables_).div_(tables_.rotation.size(0));  // as it came
  attention.add_scores(sketched_scores(query), 0);
}

void RotatedCodes::accumulate_v(kvc::CompressedAttention& attention) const {
  for_each_block([&](const kvc::LevelCodes& x, int64_t first) { attention.accumulate_v(x, first); });
}

at::Tensor RotatedCodes::sketched_scores(const at::Tensor& q) const {
  const int64_t d = q.size(1);
  const auto sketched = times(q, tables_.sketch, false);
  std::vector<at::Tensor> scores;  // each [H, H_q / H, t]
  for (const auto& block : blocks_) {
    const auto sizes = block.residual_norms.to(at::kFloat).mul(sketch_factor(d)).unsqueeze(1);
    scores.push_back(kvc::dot_signs(sketched, block.signs).view({sizes.size(0), -1, sizes.size(2)}) * sizes);
  }
  return at::cat(scores, 2).flatten(0, 1);
}

void RotatedCodes::add_to(kvc::Footprint& bytes, kvc::CacheTensor tensor) const {
  for (const auto& block : blocks_) {
    bytes.add(tensor, kvc::ByteKind::codes, block.codes);
    bytes.add(tensor, kvc::ByteKind::norms, block.norms);
    bytes.add(tensor, kvc::ByteKind::sketch, block.signs);
    bytes.add(tensor, kvc::ByteKind::norms, block.residual_norms);
  }
}

}  // namespace turboquant
