#include "sandbox/host_state.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/core/DefaultDtype.h>

#include <cfenv>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sandbox/cuda_library.h"

namespace kvc {
namespace {

constexpr unsigned kExceptionsThatWere = 0x3f;  // of MXCSR: every rounding sets one, and none matters

unsigned float_control() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~kExceptionsThatWere;
#else
  return 0;
#endif
}

void set_float_control([[maybe_unused]] unsigned control) {
#if defined(__x86_64__)
  _mm_setcsr(control);
#endif
}

// Of those that products and sums depend on. The program leaves them as LibTorch has them.
struct Setting {
  const char* name;
  bool is_precision;
  int usual;
  int (*get)(at::Context&);
  void (*set)(at::Context&, int);
};

// What holds for products holds what is set for a backend or for all, too.
template <at::Float32Backend backend>
Setting precision_of_products(const char* name) {
  const auto get = [](at::Context& c) { return static_cast<int>(c.float32Precision(backend, at::Float32Op::MATMUL)); };
  const auto set = [](at::Context& c, int value) {
    c.setFloat32Precision(backend, at::Float32Op::MATMUL, static_cast<at::Float32Precision>(value));
  };
  return {name, true, get(at::globalContext()), get, set};
}

std::vector<Setting> all_settings() {
  auto& context = at::globalContext();
  return {precision_of_products<at::Float32Backend::MKLDNN>("the precision of fp32 products"),
          {"whether LibTorch uses oneDNN", false, context.userEnabledMkldnn(),
           [](at::Context& c) { return static_cast<int>(c.userEnabledMkldnn()); },
           [](at::Context& c, int value) { c.setUserEnabledMkldnn(value != 0); }},
          {"whether LibTorch's algorithms are deterministic", false, context.deterministicAlgorithms(),
           [](at::Context& c) { return static_cast<int>(c.deterministicAlgorithms()); },
           [](at::Context& c, int value) { c.setDeterministicAlgorithms(value != 0, false); }}};
}

// As they are when the first HostState is made, those of CUDA when the first one is made with its library open.
std::vector<const Setting*> usual_settings() {
  static const auto settings = all_settings();
  std::vector<const Setting*> those;
  for (const auto& setting : settings) those.push_back(&setting);
  if (is_cuda_open()) {
    static const auto cuda = precision_of_products<at::Float32Backend::CUDA>("the precision of fp32 products on CUDA");
    those.push_back(&cuda);
  }
  return those;
}

bool same(const c10::AutogradState& a, const c10::AutogradState& b) {
  return a.get_grad_mode() == b.get_grad_mode() && a.get_inference_mode() == b.get_inference_mode() &&
         a.get_fw_grad_mode() == b.get_fw_grad_mode() &&
         a.get_multithreading_enabled() == b.get_multithreading_enabled();
}

}  // namespace

HostState::HostState(bool with_settings)
    : with_settings_(with_settings),
      rounding_(std::fegetround()),
      float_control_(float_control()),
      dtype_(c10::get_default_dtype_as_scalartype()),
      autograd_(c10::AutogradState::get_tls_state()),
      dispatch_keys_(c10::impl::tls_local_dispatch_key_set()) {
  if (!with_settings_) return;
  n_threads_ = at::get_num_threads();
  usual_settings();
}

std::string HostState::put_back() const {
  std::string changed;
  const auto note = [&](const char* what) { changed += (changed.empty() ? "" : ", ") + std::string(what); };
  if (std::fegetround() != rounding_) {
    note("the rounding mode");
    std::fesetround(rounding_);
  }
  if (float_control() != float_control_) {
    note("how floats are computed (MXCSR)");
    set_float_control(float_control_);
  }
  if (!same(c10::AutogradState::get_tls_state(), autograd_)) {
    note("LibTorch's gradient mode");
    c10::AutogradState::set_tls_state(autograd_);
  }
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  if (keys.included_ != dispatch_keys_.included_ || keys.excluded_ != dispatch_keys_.excluded_) {
    note("LibTorch's dispatch keys");
    c10::impl::_force_tls_local_dispatch_key_set(dispatch_keys_);
  }
  if (with_settings_) put_back_settings(note);
  return changed;
}

void HostState::put_back_settings(const std::function<void(const char*)>& note) const {
  if (at::get_num_threads() != n_threads_) {
    note("the number of threads");
    at::set_num_threads(n_threads_);
  }
  if (c10::get_default_dtype_as_scalartype() != dtype_) {
    note("LibTorch's default type");
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(dtype_));
  }
  auto& context = at::globalContext();
  const auto settings = usual_settings();
  for (const auto* setting : settings) {
    if (setting->get(context) == setting->usual) continue;
    note(setting->name);
    if (setting->is_precision) context.setFloat32MatmulPrecision("highest");  // LibTorch's older name for some of them
    for (const auto* each : settings) each->set(context, each->usual);
    return;
  }
}

}  // namespace kvc
