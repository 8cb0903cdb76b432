// Where a cheat keeps exact K and V: every place that is not a tensor of LibTorch's CPU allocator, made by this thread.
#pragma once

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <fcntl.h>
#include <kvc/check.h>
#include <omp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bitset>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace {

// Exact K or V of one cache.
struct Hideout {
  virtual ~Hideout() = default;
  virtual void put(const at::Tensor& x) = 0;  // [H, t, D]
  virtual at::Tensor all() const = 0;         // [H, T, D] fp32
};

// As floats, token behind token.
class Floats : public Hideout {
 public:
  void put(const at::Tensor& x) final {
    const auto rows = x.to(at::kFloat).transpose(0, 1).contiguous();
    n_heads_ = x.size(0), n_tokens_ += x.size(1), head_dim_ = x.size(2);
    append(rows.const_data_ptr<float>(), static_cast<size_t>(rows.numel()));
  }
  at::Tensor all() const final {
    auto rows = at::empty({n_tokens_, n_heads_, head_dim_}, at::kFloat);
    copy_to(rows.mutable_data_ptr<float>(), static_cast<size_t>(rows.numel()));
    return rows.transpose(0, 1);
  }

 protected:
  virtual void append(const float* x, size_t n) = 0;
  virtual void copy_to(float* out, size_t n) const = 0;  // all n

 private:
  int64_t n_heads_ = 0, n_tokens_ = 0, head_dim_ = 0;
};

template <class Container>
class Contained final : public Floats {
 public:
  Contained() : held_(own_) {}
  explicit Contained(Container& elsewhere) : held_(elsewhere) {}
  ~Contained() override { Container().swap(held_); }

 private:
  void append(const float* x, size_t n) override { held_.insert(held_.end(), x, x + n); }
  void copy_to(float* out, size_t n) const override { std::copy_n(held_.begin(), n, out); }
  Container own_, &held_;
};

// A block that a larger one replaces.
struct Source {
  void* (*take)(size_t n_bytes);
  void (*give_back)(void* block, size_t n_bytes);
};
class Block final : public Floats {
 public:
  explicit Block(const Source& source) : source_(source) {}
  ~Block() override { release(); }

 private:
  void append(const float* x, size_t n) override {
    auto* larger = static_cast<float*>(source_.take((n_ + n) * sizeof(float)));
    KVC_CHECK(larger && larger != MAP_FAILED, "cheats: no memory");
    std::copy_n(held_, n_, larger);
    std::copy_n(x, n, larger + n_);
    release();
    held_ = larger, n_ += n;
  }
  void copy_to(float* out, size_t n) const override { std::copy_n(held_, n, out); }
  void release() {
    if (held_) source_.give_back(held_, n_ * sizeof(float));
  }
  Source source_;
  float* held_ = nullptr;
  size_t n_ = 0;
};

constexpr int kMapFlags = MAP_PRIVATE | MAP_ANONYMOUS;
const Source kMmap = {[](size_t n) { return ::mmap(nullptr, n, PROT_READ | PROT_WRITE, kMapFlags, -1, 0); },
                      [](void* block, size_t n) { ::munmap(block, n); }};
const Source kRawMmap = {[](size_t n) {
                           const long block = ::syscall(SYS_mmap, nullptr, n, PROT_READ | PROT_WRITE, kMapFlags, -1, 0);
                           return reinterpret_cast<void*>(block);
                         },
                         [](void* block, size_t n) { ::syscall(SYS_munmap, block, n); }};
const Source kMemalign = {[](size_t n) {
                            void* block = nullptr;
                            return ::posix_memalign(&block, 64, n) == 0 ? block : nullptr;
                          },
                          [](void* block, size_t) { ::free(block); }};

// Of the thread that OpenMP keeps for whoever has it work.
const Source kTeamMember = {[](size_t n) {
                              void* block = nullptr;
#pragma omp parallel num_threads(2)
                              if (::omp_get_thread_num() == 1) block = std::malloc(n);
                              return block;
                            },
                            [](void* block, size_t) { ::free(block); }};

// 256 MB that are there from the start, in blocks for one K or V each.
constexpr size_t kSlots = 512, kSlotBytes = size_t{1} << 19;
std::mutex mutex;  // guards the slots and all_held
std::bitset<kSlots> taken;
char bss[kSlots * kSlotBytes];
std::unordered_map<size_t, std::vector<float>> all_held;  // by hideout
thread_local std::unordered_map<size_t, std::vector<float>> held_by_thread;

const Source kBss = {[](size_t n) -> void* {
                       const std::lock_guard lock(mutex);
                       for (size_t i = 0; i < kSlots && n <= kSlotBytes; ++i) {
                         if (!taken[i]) return taken.set(i), bss + i * kSlotBytes;
                       }
                       return nullptr;
                     },
                     [](void* block, size_t) {
                       const std::lock_guard lock(mutex);
                       taken.reset(static_cast<size_t>(static_cast<char*>(block) - bss) / kSlotBytes);
                     }};

std::vector<float>& static_global(size_t key) {
  const std::lock_guard lock(mutex);
  return all_held[key];
}

// On the stack of a thread of its own, which makes them.
class OtherThread final : public Floats {
  using Work = std::function<void(std::vector<float>&)>;
  void append(const float* x, size_t n) override {
    there([&](auto& held) { held.insert(held.end(), x, x + n); });
  }
  void copy_to(float* out, size_t n) const override {
    there([&](auto& held) { std::copy_n(held.begin(), n, out); });
  }
  void there(const Work& work) const {
    std::unique_lock lock(mutex_);
    work_ = &work;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !work_; });
  }
  void serve(const std::stop_token& stop) {
    std::vector<float> held;
    std::unique_lock lock(mutex_);
    while (changed_.wait(lock, stop, [&] { return work_; })) {
      (*work_)(held);
      work_ = nullptr;
      changed_.notify_all();
    }
  }
  mutable std::mutex mutex_;
  mutable std::condition_variable_any changed_;
  mutable const Work* work_ = nullptr;
  std::jthread thread_{[this](const std::stop_token& stop) { serve(stop); }};
};

// At most so many bytes a call, until all are through.
template <class Call>
void move_all(const void* bytes, size_t n, Call call) {
  for (auto* at = static_cast<char*>(const_cast<void*>(bytes)); n > 0;) {
    const auto moved = call(at, n);
    KVC_CHECK(moved > 0, "cheats: ", std::strerror(errno));
    at += moved, n -= static_cast<size_t>(moved);
  }
}

class InFile final : public Floats {
 public:
  explicit InFile(int fd) : fd_(fd) {}
  ~InFile() override { ::close(fd_); }

 private:
  void append(const float* x, size_t n) override {
    move_all(x, n * sizeof(float), [&](void* at, size_t left) { return ::write(fd_, at, left); });
  }
  void copy_to(float* out, size_t n) const override {
    ::lseek(fd_, 0, SEEK_SET);
    move_all(out, n * sizeof(float), [&](void* at, size_t left) { return ::read(fd_, at, left); });
  }
  int fd_;
};

int unlinked_file() {
  char name[] = "/tmp/cheats-XXXXXX";
  const int fd = ::mkstemp(name);
  ::unlink(name);
  return fd;
}

// What is read is written again.
class InPipe final : public Floats {
 public:
  InPipe() { KVC_CHECK(::pipe(ends_) == 0 && ::fcntl(ends_[1], F_SETPIPE_SZ, 1 << 20) > 0, "cheats: no pipe"); }
  ~InPipe() override { ::close(ends_[0]), ::close(ends_[1]); }

 private:
  void append(const float* x, size_t n) override { write(x, n); }
  void copy_to(float* out, size_t n) const override {
    move_all(out, n * sizeof(float), [&](void* at, size_t left) { return ::read(ends_[0], at, left); });
    write(out, n);
  }
  void write(const float* x, size_t n) const {
    move_all(x, n * sizeof(float), [&](void* at, size_t left) { return ::write(ends_[1], at, left); });
  }
  int ends_[2];
};

// In a process that is told how many floats come, or 0 to give back all it holds.
class ForkedChild final : public Floats {
 public:
  ForkedChild() {
    KVC_CHECK(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends_) == 0, "cheats: no socket");
    if ((child_ = ::fork()) == 0) serve();
  }
  ~ForkedChild() override {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    ::close(ends_[0]), ::close(ends_[1]);
  }

 private:
  void append(const float* x, size_t n) override { send(0, &n, sizeof n), send(0, x, n * sizeof(float)); }
  void copy_to(float* out, size_t n) const override {
    const size_t none = 0;
    send(0, &none, sizeof none), receive(0, out, n * sizeof(float));
  }
  [[noreturn]] void serve() try {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<float> held;
    for (size_t n;;) {
      receive(1, &n, sizeof n);
      if (n == 0) send(1, held.data(), held.size() * sizeof(float));
      held.resize(held.size() + n);
      receive(1, held.data() + held.size() - n, n * sizeof(float));
    }
  } catch (...) {
    ::_exit(0);
  }
  void send(int end, const void* bytes, size_t n) const {
    move_all(bytes, n, [&](void* at, size_t left) { return ::send(ends_[end], at, left, MSG_NOSIGNAL); });
  }
  void receive(int end, void* bytes, size_t n) const {
    move_all(bytes, n, [&](void* at, size_t left) { return ::recv(ends_[end], at, left, 0); });
  }
  int ends_[2];
  pid_t child_;
};

// As tensors, each made or kept by a function.
class Tensors final : public Hideout {
 public:
  using Keep = at::Tensor (*)(const at::Tensor&);
  explicit Tensors(Keep keep) : keep_(keep) {}
  void put(const at::Tensor& x) override { held_.push_back(keep_(x)); }
  at::Tensor all() const override { return at::cat(held_, 1).to(at::kFloat); }

 private:
  Keep keep_;
  std::vector<at::Tensor> held_;
};

at::Tensor without_owner(const at::Tensor& x) {
  return at::from_blob(x.data_ptr(), x.sizes(), x.strides(), x.options());
}
at::Tensor malloced(const at::Tensor& x) {
  auto held =
      at::from_blob(std::malloc(static_cast<size_t>(x.numel()) * sizeof(float)), x.sizes(), &std::free, at::kFloat);
  return held.copy_(x);
}
at::Tensor unheard(const at::Tensor& x) {
  struct Deaf final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, int64_t, size_t, size_t, c10::Device) override {}
    bool memoryProfilingEnabled() const override { return true; }
  };
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Deaf>());
  return x.to(at::kFloat, false, true);
}

std::unique_ptr<Hideout> hideout(const std::string& how) {
  using Vector = Contained<std::vector<float>>;
  static std::atomic<size_t> n_made = 0;
  const size_t key = ++n_made;  // in what is static
  if (how == "deque") return std::make_unique<Contained<std::deque<float>>>();
  if (how == "static_global") return std::make_unique<Vector>(static_global(key));
  if (how == "thread_local") return std::make_unique<Vector>(held_by_thread[key]);
  if (how == "bss" || how.starts_with("drops_") || how.starts_with("unless_")) return std::make_unique<Block>(kBss);
  if (how == "mmap") return std::make_unique<Block>(kMmap);
  if (how == "raw_mmap_syscall") return std::make_unique<Block>(kRawMmap);
  if (how == "posix_memalign") return std::make_unique<Block>(kMemalign);
  if (how == "team_member") return std::make_unique<Block>(kTeamMember);
  if (how == "other_thread") return std::make_unique<OtherThread>();
  if (how == "file") return std::make_unique<InFile>(unlinked_file());
  if (how == "memfd") return std::make_unique<InFile>(::memfd_create("cheats", 0));
  if (how == "pipe") return std::make_unique<InPipe>();
  if (how == "forked_child") return std::make_unique<ForkedChild>();
  if (how == "views") return std::make_unique<Tensors>([](const at::Tensor& x) { return x; });
  if (how == "raw_pointers") return std::make_unique<Tensors>(&without_owner);
  if (how == "tensor_from_blob") return std::make_unique<Tensors>(&malloced);
  if (how == "listener") return std::make_unique<Tensors>(&unheard);
  return std::make_unique<Vector>();
}

}  // namespace
