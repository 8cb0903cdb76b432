#include "device_step.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "cuda/write_rows.h"
#include "number_arrays.h"

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

// Where kernels run: the device is the current one for as long as it lives.
class Place {
 public:
  explicit Place(at::Device device)
      : kernels(kernels_for(device)),
        write(cuda_writes::write_rows_of(device.is_cuda())),
        stream(stream_of(device)),
        current_(device) {}
  const Kernels& kernels;
  cuda_writes::WriteRows write;
  void* stream;

 private:
  c10::DeviceGuard current_;
};

// Rows of a [n, X] tensor, in the way in which they lie.
QueryRows heads_of(const at::Tensor& x) {
  return {static_cast<float*>(const_cast<void*>(x.const_data_ptr())), x.stride(0), static_cast<int>(x.size(0)),
          static_cast<int>(x.size(1))};
}

// Numbers from the first to the last one of x, rows of x.size(2) that are next to one another.
int64_t span_of(const at::Tensor& x) {
  int64_t last = 0;
  for (int64_t d = 0; d < x.dim(); ++d) last += (x.size(d) - 1) * x.stride(d);
  return x.numel() == 0 ? 0 : last + 1;
}

NumberArray array_of(const at::Tensor& x) {
  if (!x.defined()) return {};
  return {x.const_data_ptr(), number_type_of(x), span_of(x)};
}

// Scales and zeros [H or 1, rows, n_groups]; one may stand for all of a head's.
void set_scales(Matrix& to, const at::Tensor& scale, NumberType type, const at::Tensor& zero) {
  to.scale = {scale.const_data_ptr(), type, span_of(scale)};
  to.zero = array_of(zero);
  to.head_scales = scale.size(0) == 1 ? 0 : scale.stride(0);
  to.one_scale = scale.size(1) * scale.size(2) == 1;
  to.n_groups = static_cast<int>(scale.size(2));
}

// Codes [H, rows, words] of whole words or bytes.
void set_codes(Matrix& to, const at::Tensor& codes) {
  const int64_t bytes = codes.element_size();
  to.rows = {codes.const_data_ptr(), NumberType::f32, span_of(codes) * bytes};
  to.row_bytes = codes.size(2) * bytes;
  to.head_bytes = (codes.size(0) > 1 ? codes.stride(0) : codes.size(1) * codes.size(2)) * bytes;
  to.n_heads = static_cast<int>(codes.size(0));
}

}  // namespace

Matrix Step::matrix_of(const GroupCodes& given) {
  auto x = given;
  if (x.zero.defined() && x.zero.strides() != x.scale.strides()) {  // a matrix has one stride for both
    x.scale = x.scale.contiguous(), x.zero = x.zero.contiguous();
  }
  hold(x.codes), hold(x.scale), hold(x.zero);
  Matrix m;
  set_codes(m, x.codes);
  set_scales(m, x.scale, number_type_of(x.scale), x.format.symmetric ? at::Tensor() : x.zero);
  m.rows_are_channels = x.format.axis == GroupAxis::tokens;
  m.n_tokens = static_cast<int>(x.n_tokens), m.n_channels = static_cast<int>(x.head_dim);
  m.group_size = (m.rows_are_channels ? m.n_tokens : m.n_channels) / m.n_groups;
  m.bits = static_cast<int>(x.format.bits);
  m.kind = m.bits == 8 ? Kind::byte : Kind::level;
  m.centre = x.format.symmetric ? static_cast<float>((1 << (m.bits - 1)) - 1) : 0.f;
  for (size_t i = 0; i < m.levels.size(); ++i) m.levels[i] = static_cast<float>(i) - m.centre;
  return m;
}

Matrix Step::matrix_of(const GroupCodes& x, GroupOrder order, at::IntArrayRef sizes) {
  auto m = matrix_of(x);
  m.order = order;
  m.n_groups = static_cast<int>(x.codes.size(1)), m.group_size = static_cast<int>(x.head_dim);
  m.n_heads = static_cast<int>(sizes[0]), m.n_tokens = static_cast<int>(sizes[1]);
  m.n_channels = static_cast<int>(sizes[2]);
  return m;
}

Matrix Step::matrix_of(const LevelCodes& x) {
  hold(x.codes), hold(x.scale);
  Matrix m;
  set_codes(m, x.codes);
  set_scales(m, x.scale, scale_type_of(x), {});
  m.n_tokens = static_cast<int>(x.n_tokens()), m.n_channels = static_cast<int>(x.head_dim);
  m.group_size = m.n_channels / m.n_groups;
  m.bits = static_cast<int>(x.book.bits);
  m.kind = x.book.levels ? Kind::level : x.floats == Float8::e4m3 ? Kind::e4m3 : Kind::e5m2;
  KVC_CHECK(!x.book.levels || x.book.bits <= 4, "attend: levels of ", x.book.bits, " bits, allowed: 1 to 4");
  if (x.book.levels) std::copy_n(x.book.levels, size_t{1} << x.book.bits, m.levels.begin());
  return m;
}

Matrix Step::matrix_of(const at::Tensor& x) {
  hold(x);
  KVC_CHECK(x.dim() == 3 && x.stride(2) == 1, "attend: tokens ", x.sizes(), " with strides ", x.strides(),
            ", expected rows without gaps");
  Matrix m;
  const int64_t bytes = x.element_size();
  m.rows = {x.const_data_ptr(), NumberType::f32, span_of(x) * bytes};
  m.row_bytes = x.stride(1) * bytes, m.head_bytes = x.stride(0) * bytes;
  m.n_heads = static_cast<int>(x.size(0));
  m.n_tokens = static_cast<int>(x.size(1)), m.n_channels = static_cast<int>(x.size(2));
  const auto type = number_type_of(x);
  m.kind = type == NumberType::f16 ? Kind::f16 : type == NumberType::bf16 ? Kind::bf16 : Kind::f32;
  m.bits = static_cast<int>(8 * bytes);
  m.group_size = std::max(1, m.n_channels);
  return m;
}

Entries Step::entries_of(const Outliers& x, int64_t n_kv_heads, int64_t head_dim) {
  hold(x.values), hold(x.index);
  return {.values = array_of(x.values),
          .index = {x.index.const_data_ptr(), NumberType::f32, x.index.numel() * x.index.element_size()},
          .of_channels = x.axis == GroupAxis::tokens,
          .wide = x.index.scalar_type() == at::kUInt16,
          .per_vector = static_cast<int>(x.index.size(-1)),
          .n_vectors = static_cast<int>(x.index.numel() / x.index.size(-1)),
          .n_kv_heads = static_cast<int>(n_kv_heads),
          .head_dim = static_cast<int>(head_dim)};
}

namespace {

// Zeros into rows of fp32.
DeviceWrite zeros_of(const QueryRows& x) {
  constexpr int64_t kBytesOfABlock = 1 << 14, kMostBlocks = 256;
  const int64_t bytes = int64_t{x.n} * x.width * 4;
  DeviceWrite write{.to = {x.data, NumberType::f32, x.stride * 4, 0}};
  write.n_heads = x.n, write.n_tokens = 1, write.width = x.width * 4;
  write.n_blocks = static_cast<int>(std::clamp<int64_t>(bytes / kBytesOfABlock, 1, kMostBlocks));
  return write;
}

}  // namespace

void Step::begin(std::span<const at::Tensor> q, double scale, const at::Tensor& queries, const at::Tensor& out) {
  std::vector<DeviceWrite> writes;
  for (size_t b = 0; b < q.size(); ++b) {
    hold(q[b]);
    auto& write = writes.emplace_back(DeviceWrite{
        .what = DeviceWrite::What::numbers,
        .from = {const_cast<void*>(q[b].const_data_ptr()), number_type_of(q[b]), q[b].stride(0), q[b].stride(1)},
        .factor = static_cast<float>(scale)});
    const int n_heads = static_cast<int>(q[b].size(0)), width = static_cast<int>(q[b].size(2));
    write.to = {queries[static_cast<int64_t>(b)].mutable_data_ptr<float>(), NumberType::f32, width, 0};
    write.n_heads = n_heads, write.n_tokens = 1, write.width = width;
  }
  writes.push_back(zeros_of(heads_of(out.flatten(0, 1))));
  const Place place(device_);
  place.write(writes, place.stream);
}

void Step::begin_scores(const at::Tensor& scores) {
  hold(scores);
  if (scores.size(1) > 0) unwritten_.push_back(heads_of(scores));
}

void Step::set_to_zero(std::span<const QueryRows> scores) const {
  if (scores.empty()) return;
  std::vector<DeviceWrite> writes;
  for (const auto& x : scores) writes.push_back(zeros_of(x));
  const Place place(device_);
  place.write(writes, place.stream);
}

void Step::set_scores_to_zero() { set_to_zero(std::exchange(unwritten_, {})); }

namespace {

// Those of one key and wave together, in their order.
template <class Recorded, class Part>
void launch(std::vector<Recorded>& list, void (*kernel)(std::span<const Part>, void*), void* stream) {
  const auto order = [](const Recorded& x) { return std::pair(x.wave, x.key); };
  std::stable_sort(list.begin(), list.end(), [&](const auto& a, const auto& b) { return order(a) < order(b); });
  std::vector<Part> parts;
  for (size_t i = 0; i < list.size(); ++i) {
    parts.push_back(list[i].part);
    if (i + 1 < list.size() && order(list[i]) == order(list[i + 1])) continue;
    kernel(parts, stream);
    parts.clear();
  }
  list.clear();
}

}  // namespace

template <class Key, class Part>
void Step::add_score(List<Key, Part>& list, const Key& key, const Part& part) {
  const float *begin = part.scores.data, *end = begin + part.scores.width;
  int wave = 0;
  for (const auto& other : list) {
    const float* from = other.part.scores.data;
    if (other.key == key && from < end && begin < from + other.part.scores.width) wave = std::max(wave, other.wave + 1);
  }
  list.push_back({.key = key, .part = part, .wave = wave});
}

void Step::score(const Matrix& k, const at::Tensor& q, const at::Tensor& scores, bool fits) {
  if (k.n_tokens == 0) return;
  hold(q), hold(scores);
  add_score(scores_, loop_of(k, static_cast<int>(q.size(0))), Score{k, heads_of(q), heads_of(scores)});
  scores_.back().fits = fits && in_half_;
}

void Step::score(const Entries& k, const at::Tensor& q, const at::Tensor& scores) {
  hold(q), hold(scores);
  const EntriesKey key{k.of_channels, static_cast<int>(q.size(0)), k.head_dim};
  add_score(score_entries_, key, ScoreEntries{k, heads_of(q), heads_of(scores)});
}

void Step::softmax(const at::Tensor& scores, std::span<const int64_t> n_hidden, double softcap,
                   const at::Tensor& sinks) {
  hold(scores), hold(sinks);
  const auto* sink = sinks.defined() ? sinks.const_data_ptr<float>() : nullptr;
  const auto all = heads_of(scores);
  const bool alike = std::all_of(n_hidden.begin(), n_hidden.end(), [&](int64_t n) { return n == n_hidden.front(); });
  const int n_parts = alike ? 1 : static_cast<int>(n_hidden.size()), n_heads = all.n / n_parts;
  for (int i = 0; i < n_parts; ++i) {
    softmax_.push_back({.scores = {all.data + i * n_heads * all.stride, all.stride, n_heads, all.width},
                        .n_hidden = static_cast<int>(n_hidden[static_cast<size_t>(i)]),
                        .softcap = static_cast<float>(softcap),
                        .sinks = sink ? sink + i * n_heads : nullptr});
  }
}

int Step::target_of(const at::Tensor& out) {
  int target = 0;
  for (const auto& x : targets_) {
    if (x.out.const_data_ptr() == out.const_data_ptr()) return target;
    ++target;
  }
  targets_.push_back({.out = out});
  return target;
}

void Step::accumulate_v(const Matrix& v, const at::Tensor& weights, const at::Tensor& out, bool fits) {
  if (v.n_tokens == 0) return;
  hold(weights);
  v_sums_.push_back({.key = loop_of(v, static_cast<int>(weights.size(0))),
                     .part = {v, heads_of(weights), nullptr},
                     .target = target_of(out),
                     .fits = fits && in_half_});
}

void Step::accumulate_v(const Entries& v, const at::Tensor& weights, const at::Tensor& out) {
  hold(weights);
  v_entry_sums_.push_back({.key = {v.of_channels, static_cast<int>(weights.size(0)), v.head_dim},
                           .part = {v, heads_of(weights), nullptr},
                           .target = target_of(out)});
}

// [parts, heads, channels] of each target, one behind the other, in the order in which they were recorded.
at::Tensor Step::place_sums() {
  const auto for_each = [&](auto f) {  // f(record, how many parts it has)
    for (auto& x : v_sums_) f(x, n_splits(x.part.v.n_tokens));
    for (auto& x : v_entry_sums_) f(x, n_parts(x.part.v));
  };
  for_each([&](const auto& x, int n) { targets_[static_cast<size_t>(x.target)].n_parts += n; });
  int64_t n_floats = 0;
  for (auto& target : targets_) {
    target.workspace = n_floats;
    n_floats += target.n_parts * target.out.numel();
  }
  auto workspace = at::empty({n_floats}, at::TensorOptions(at::kFloat).device(device_));
  auto* sums = static_cast<float*>(workspace.mutable_data_ptr());
  std::vector<int64_t> next;
  for (const auto& target : targets_) next.push_back(target.workspace);
  for_each([&](auto& x, int n) {
    const auto target = static_cast<size_t>(x.target);
    x.part.parts = sums + next[target];
    next[target] += n * targets_[target].out.numel();
  });
  return workspace;
}

void Step::run() {
  // Of sequences whose softmax comes now, only what attend_codes leaves is needed.
  const auto has_softmax = [&](const QueryRows& x) {
    return std::any_of(softmax_.begin(), softmax_.end(), [&](const auto& s) { return s.scores.data == x.data; });
  };
  if (!std::all_of(unwritten_.begin(), unwritten_.end(), has_softmax)) set_scores_to_zero();
  if (scores_.empty() && score_entries_.empty() && softmax_.empty() && targets_.empty()) return;
  const Place place(device_);
  const auto segments = take_segments();
  if (!unwritten_.empty()) {
    std::vector<QueryRows> left;
    for (const auto& softmax : softmax_) left.push_back(softmax.scores);
    unwritten_.clear();
    set_to_zero(left);
  }
  launch(scores_, place.kernels.score, place.stream);
  launch(score_entries_, place.kernels.score_entries, place.stream);
  const auto attention = attend(segments, place.stream);
  if (!softmax_.empty()) place.kernels.softmax(softmax_, place.stream);
  softmax_.clear();
  if (!v_sums_.empty() || !v_entry_sums_.empty()) {
    const auto workspace = place_sums();
    launch(v_sums_, place.kernels.accumulate_v, place.stream);
    launch(v_entry_sums_, place.kernels.accumulate_entries, place.stream);
    std::vector<Sum> all;
    for (const auto& target : targets_) {
      if (target.n_parts == 0) continue;
      all.push_back({static_cast<const float*>(workspace.const_data_ptr()) + target.workspace,
                     static_cast<float*>(target.out.mutable_data_ptr()), target.n_parts,
                     static_cast<int>(target.out.numel())});
    }
    place.kernels.sum(all, place.stream);
  }
  join(attention, place.stream);
  targets_.clear();
  for (const auto& f : std::exchange(then_, {})) f();
  held_.clear();
}

}  // namespace kvc::on_device
