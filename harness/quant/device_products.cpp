#include "device_products.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "cuda/products.h"

namespace kvc::on_device {
namespace {

using namespace cuda_products;

const Kernels& kernels_for(at::Device device) {
  if (device.type() == at::kPrivateUse1) return cuda_emulated::product_kernels();
#ifdef KVC_HAVE_CUDA
  if (device.is_cuda()) return cuda::product_kernels();
#endif
  throw Error(concat("attend: q is on ", device, ", for which this build has no kernels"));
}

void* stream_of(at::Device device) {
  if (!device.is_cuda()) return nullptr;
  return c10::impl::VirtualGuardImpl(at::kCUDA).getStream(device).native_handle();
}

// Where kernels run: x's device is the current one for as long as it lives.
class Place {
 public:
  explicit Place(const at::Tensor& x)
      : kernels(kernels_for(x.device())), stream(stream_of(x.device())), current_(x.device()) {}
  const Kernels& kernels;
  void* stream;

 private:
  c10::DeviceGuard current_;
};

// Rows of a [n, X] tensor, in the way in which they lie.
Heads heads_of(const at::Tensor& x) {
  return {static_cast<float*>(const_cast<void*>(x.const_data_ptr())), x.stride(0), static_cast<int>(x.size(0)),
          static_cast<int>(x.size(1))};
}

Number type_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kHalf:
      return Number::f16;
    case at::kBFloat16:
      return Number::bf16;
    default:
      KVC_CHECK(x.scalar_type() == at::kFloat, "attend: numbers of type ", x.scalar_type(),
                ", allowed: fp16, bf16, fp32");
      return Number::f32;
  }
}

Array array_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {x.const_data_ptr(), type_of(x), x.numel()};
}

// Scales and zeros [H or 1, rows, n_groups]; one may stand for all of a head's.
void set_sides(Matrix& to, const Array& scale, const Array& zero, at::IntArrayRef sizes) {
  to.scale = scale, to.zero = zero;
  const int64_t of_head = sizes[1] * sizes[2];
  to.head_sides = sizes[0] == 1 ? 0 : of_head;
  to.one_side = of_head == 1;
  to.n_groups = static_cast<int>(sizes[2]);
}

// Codes [H, rows, words] of whole words or bytes, contiguous.
void set_codes(Matrix& to, const at::Tensor& codes) {
  to.rows = {codes.const_data_ptr(), Number::f32, codes.numel() * codes.element_size()};
  to.row_bytes = codes.size(2) * codes.element_size();
  to.head_bytes = codes.size(1) * to.row_bytes;
  to.n_heads = static_cast<int>(codes.size(0));
}

Matrix matrix_of(const GroupCodes& x) {
  Matrix m;
  set_codes(m, x.codes);
  set_sides(m, array_of(x.scale), array_of(x.format.symmetric ? at::Tensor() : x.zero), x.scale.sizes());
  m.rows_are_channels = x.format.axis == GroupAxis::tokens;
  m.n_tokens = static_cast<int>(x.n_tokens), m.n_channels = static_cast<int>(x.head_dim);
  m.group_size = (m.rows_are_channels ? m.n_tokens : m.n_channels) / m.n_groups;
  m.bits = static_cast<int>(x.format.bits);
  m.kind = m.bits == 8 ? Kind::byte : Kind::level;
  m.centre = x.format.symmetric ? static_cast<float>((1 << (m.bits - 1)) - 1) : 0.f;
  for (size_t i = 0; i < m.levels.size(); ++i) m.levels[i] = static_cast<float>(i) - m.centre;
  return m;
}

Matrix matrix_of(const GroupCodes& x, GroupOrder order, at::IntArrayRef sizes) {
  auto m = matrix_of(x);
  m.spread = order == GroupOrder::flat ? Spread::flat : order == GroupOrder::rows ? Spread::rows : Spread::strided;
  m.n_groups = static_cast<int>(x.codes.size(1)), m.group_size = static_cast<int>(x.head_dim);
  m.n_heads = static_cast<int>(sizes[0]), m.n_tokens = static_cast<int>(sizes[1]);
  m.n_channels = static_cast<int>(sizes[2]);
  return m;
}

Number type_of(const LevelCodes& x) {
  switch (x.scale_format) {
    case ScaleFormat::e8m0:
      return Number::e8m0;
    case ScaleFormat::e4m3:
      return Number::e4m3;
    default:
      return type_of(x.scale);
  }
}

Matrix matrix_of(const LevelCodes& x) {
  Matrix m;
  set_codes(m, x.codes);
  set_sides(m, {x.scale.const_data_ptr(), type_of(x), x.scale.numel()}, {}, x.scale.sizes());
  m.n_tokens = static_cast<int>(x.n_tokens()), m.n_channels = static_cast<int>(x.head_dim);
  m.group_size = m.n_channels / m.n_groups;
  m.bits = static_cast<int>(x.book.bits);
  m.kind = x.book.levels ? Kind::level : Kind::e4m3;
  KVC_CHECK(!x.book.levels || x.book.bits <= 4, "attend: levels of ", x.book.bits, " bits, allowed: 1 to 4");
  if (x.book.levels) std::copy_n(x.book.levels, size_t{1} << x.book.bits, m.levels.begin());
  return m;
}

Matrix matrix_of(const at::Tensor& x) {
  KVC_CHECK(x.dim() == 3 && x.stride(2) == 1, "attend: tokens ", x.sizes(), " with strides ", x.strides(),
            ", expected rows without gaps");
  Matrix m;
  const int64_t bytes = x.element_size(), last = x.stride(0) * (x.size(0) - 1) + x.stride(1) * (x.size(1) - 1);
  m.rows = {x.const_data_ptr(), Number::f32, (last + x.size(2)) * bytes};
  m.row_bytes = x.stride(1) * bytes, m.head_bytes = x.stride(0) * bytes;
  m.n_heads = static_cast<int>(x.size(0));
  m.n_tokens = static_cast<int>(x.size(1)), m.n_channels = static_cast<int>(x.size(2));
  const auto type = type_of(x);
  m.kind = type == Number::f16 ? Kind::f16 : type == Number::bf16 ? Kind::bf16 : Kind::f32;
  m.bits = static_cast<int>(8 * bytes);
  m.group_size = std::max(1, m.n_channels);
  return m;
}

Entries entries_of(const Outliers& x, int64_t n_kv_heads, int64_t head_dim) {
  return {.values = array_of(x.values),
          .index = {x.index.const_data_ptr(), Number::f32, x.index.numel() * x.index.element_size()},
          .wide = x.index.scalar_type() == at::kUInt16,
          .per_vector = static_cast<int>(x.index.size(-1)),
          .n_vectors = static_cast<int>(x.index.numel() / x.index.size(-1)),
          .n_kv_heads = static_cast<int>(n_kv_heads),
          .head_dim = static_cast<int>(head_dim)};
}

// What weighing n_tokens needs beside out, or nothing.
at::Tensor parts_for(const at::Tensor& out, int n_tokens, int least_splits) {
  const int n = n_splits(n_tokens);
  return n < least_splits ? at::Tensor() : at::empty({n, out.size(0), out.size(1)}, out.options());
}
float* floats_of(const at::Tensor& x) { return x.defined() ? static_cast<float*>(x.mutable_data_ptr()) : nullptr; }

void score(const at::Tensor& q, const Matrix& k, const at::Tensor& scores) {
  if (k.n_tokens == 0) return;
  const Place place(q);
  place.kernels.score(k, heads_of(q), heads_of(scores), place.stream);
}

void weigh(const at::Tensor& weights, const Matrix& v, at::Tensor& out) {
  if (v.n_tokens == 0) return;
  const auto parts = parts_for(out, v.n_tokens, 2);
  const Place place(out);
  place.kernels.weigh(v, heads_of(weights), heads_of(out), floats_of(parts), place.stream);
}

}  // namespace

void score(const at::Tensor& q, const GroupCodes& k, const at::Tensor& scores) { score(q, matrix_of(k), scores); }
void weigh(const at::Tensor& weights, const GroupCodes& v, at::Tensor& out) { weigh(weights, matrix_of(v), out); }
void score(const at::Tensor& q, const GroupCodes& k, GroupOrder order, at::IntArrayRef sizes,
           const at::Tensor& scores) {
  score(q, matrix_of(k, order, sizes), scores);
}
void weigh(const at::Tensor& weights, const GroupCodes& v, GroupOrder order, at::IntArrayRef sizes, at::Tensor& out) {
  weigh(weights, matrix_of(v, order, sizes), out);
}
void score(const at::Tensor& q, const LevelCodes& k, const at::Tensor& scores) { score(q, matrix_of(k), scores); }
void weigh(const at::Tensor& weights, const LevelCodes& v, at::Tensor& out) { weigh(weights, matrix_of(v), out); }
void score(const at::Tensor& q, const at::Tensor& k, const at::Tensor& scores) { score(q, matrix_of(k), scores); }
void weigh(const at::Tensor& weights, const at::Tensor& v, at::Tensor& out) { weigh(weights, matrix_of(v), out); }

void score(const at::Tensor& q, const Outliers& k, int64_t n_kv_heads, const at::Tensor& scores) {
  const Place place(q);
  const auto run =
      k.axis == GroupAxis::tokens ? place.kernels.score_channel_entries : place.kernels.score_token_entries;
  run(entries_of(k, n_kv_heads, q.size(1)), heads_of(q), heads_of(scores), place.stream);
}

void weigh(const at::Tensor& weights, const Outliers& v, int64_t n_kv_heads, at::Tensor& out) {
  const Place place(out);
  const auto entries = entries_of(v, n_kv_heads, out.size(1));
  if (v.axis == GroupAxis::tokens) {
    return place.kernels.weigh_channel_entries(entries, heads_of(weights), heads_of(out), place.stream);
  }
  const auto parts = parts_for(out, entries.n_vectors, 1);
  place.kernels.weigh_token_entries(entries, heads_of(weights), heads_of(out), floats_of(parts), place.stream);
}

void softmax(at::Tensor& scores, std::span<const int64_t> n_hidden) {
  KVC_CHECK(n_hidden.size() <= kMostKvHeads, "attend: ", n_hidden.size(), " KV heads on ", scores.device(),
            ", allowed: up to ", kMostKvHeads);
  const std::vector<int> hidden(n_hidden.begin(), n_hidden.end());
  const Place place(scores);
  place.kernels.softmax(heads_of(scores), hidden.data(), static_cast<int>(hidden.size()), place.stream);
}

}  // namespace kvc::on_device
