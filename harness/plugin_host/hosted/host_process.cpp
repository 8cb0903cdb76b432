#include "hosted/host_process.h"

#include <ATen/ATen.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "contract/stopwatch.h"
#include "hosted/contain.h"
#include "hosted/futex.h"
#include "hosted/host_starter.h"
#include "text/files.h"
#include "text/message.h"
#include "wire/child_end.h"

namespace kvc {
namespace {

using protocol::Control;

constexpr double kSecondsToLook = 0.05;    // between two looks whether the host still lives
constexpr size_t kKeptBytes = 64 << 20;    // of a message's tensors, whose memory the next one uses again
constexpr size_t kCountedBytes = 1 << 20;  // of the outputs, what is left when the kernel's count is taken
constexpr size_t kLongestText = 900;       // of an error

std::mutex all_mutex;
std::vector<std::weak_ptr<HostProcess>>& all_processes() {
  static auto& processes = *new std::vector<std::weak_ptr<HostProcess>>;  // not destroyed before the last of them
  return processes;
}
std::atomic<double> patience = 0;
std::atomic<int64_t> memory_limit = 0;
std::atomic<int64_t> n_deaths = 0, n_stuck = 0;
constexpr double kCallsToPatience = 10;  // of the longest call so far

// As much as there is: what is not written takes no memory.
size_t most_shared_bytes() {
  return static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

Control& control_of(const SharedMemory& memory) { return *reinterpret_cast<Control*>(memory.bytes().data()); }

// Of a file of /proc: the number after `name`, and of all its lines that begin so.
int64_t sum_in(const std::string& text, std::initializer_list<const char*> names) {
  int64_t sum = 0;
  for (const char* name : names) {
    for (size_t at = 0; (at = text.find(name, at)) != std::string::npos; at += std::strlen(name)) {
      if (at == 0 || text[at - 1] == '\n') sum += std::atoll(text.c_str() + at + std::strlen(name));
    }
  }
  return sum;
}

int64_t n_entries(const std::string& folder) {
  std::error_code error;
  const std::filesystem::directory_iterator entries(folder, error);
  return error ? 0 : std::distance(begin(entries), end(entries));
}

std::string read_proc(const std::string& file) {
  try {
    return read_file(file);
  } catch (const Error&) {
    return "";  // it has ended
  }
}

}  // namespace

at::Tensor HostAnswer::tensor(size_t i, at::ScalarType type, at::IntArrayRef sizes) const {
  KVC_CHECK(i < tensors.size() && tensors[i].defined(), "the compressor's process gave no tensor, expected ", type, " ",
            sizes);
  const auto& given = tensors[i];
  bool fits = given.scalar_type() == type && given.dim() == static_cast<int64_t>(sizes.size());
  for (size_t d = 0; fits && d < sizes.size(); ++d) {
    fits = sizes[d] < 0 || sizes[d] == given.size(static_cast<int64_t>(d));
  }
  KVC_CHECK(fits, "the compressor's process gave ", given.scalar_type(), " ", given.sizes(), ", expected ", type, " ",
            sizes, " (-1: any)");
  return given;
}

std::shared_ptr<HostProcess> HostProcess::start(const std::string& python) {
  const std::shared_ptr<HostProcess> process(new HostProcess(python));
  const std::lock_guard lock(all_mutex);
  std::erase_if(all_processes(), [](const auto& each) { return each.expired(); });
  all_processes().push_back(process);
  return process;
}

std::vector<std::shared_ptr<HostProcess>> HostProcess::all() {
  std::vector<std::shared_ptr<HostProcess>> alive;
  const std::lock_guard lock(all_mutex);
  for (const auto& each : all_processes()) {
    if (auto process = each.lock(); process && process->of_ == ::getpid() && !process->has_ended()) {
      alive.push_back(std::move(process));
    }
  }
  return alive;
}

void HostProcess::condemn(const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (epitaph_.empty()) epitaph_ = "the compressor's process " + why;
}

HostProcess::HostProcess(const std::string& python)
    : control_("kvc-control", protocol::kControlBytes),
      inputs_("kvc-inputs", most_shared_bytes()),
      outputs_("kvc-outputs", most_shared_bytes()),
      is_python_(!python.empty()) {
  auto& control = *new (control_.bytes().data()) Control{};
  control.version = protocol::kVersion;
  const int inputs = inputs_.open_read_only();
  const HostFds fds{control_.fd(), inputs, outputs_.fd()};
  pid_ = is_python_ ? start_python_host(python, fds) : start_host(fds);
  ::close(inputs);
  pid_fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
}

HostProcess::~HostProcess() {
  if (pid_ > 0 && of_ == ::getpid()) how_it_ended();
  if (pid_fd_ >= 0) ::close(pid_fd_);
}

// Ends it where it has not ended.
std::string HostProcess::how_it_ended() {
  const int status = is_python_ ? end_python_host(pid_) : end_host(pid_);
  pid_ = -1;
  const uint32_t refused = control_of(control_).refused;
  return refused > 0 ? concat("was ended, because it called ", system_call_name(static_cast<int>(refused - 1)),
                              ", which a compressor may not")
                     : concat(WIFSIGNALED(status) ? "was " : "", said_of_status(status));
}

void HostProcess::end(const std::string& why) {
  ++n_deaths;
  const auto how = pid_ > 0 ? how_it_ended() : "";
  epitaph_ = concat("the compressor's process ", why.empty() ? how : why);
  throw Error(epitaph_);
}

void HostProcess::wait_for(uint32_t number) {
  auto& control = control_of(control_);
  const auto start = Clock::now();
  while (true) {
    const uint32_t answered = control.answered;
    if (answered == number) {
      longest_call_ = std::max(longest_call_, seconds_since(start));
      return;
    }
    if (answered != number - 1) end(concat("answered call ", answered, " of ", number));
    pollfd polled{pid_fd_, POLLIN, 0};
    if (::poll(&polled, 1, 0) > 0 && control.answered != number) end("");
    const double seconds = seconds_since(start), most = patience;
    if (most > 0 && seconds > std::max(most, kCallsToPatience * longest_call_)) {
      ++n_stuck;
      end(concat("was stopped after ", std::round(10 * seconds) / 10, " s at one call"));
    }
    futex_wait(control.answered, answered, kSecondsToLook);
  }
}

HostAnswer HostProcess::call(const protocol::Request& request) { return begin(request).finish(); }

HostProcess::PendingCall HostProcess::begin(const protocol::Request& request) {
  PendingCall call(*this, static_cast<uint32_t>(request.operation));
  if (!epitaph_.empty()) throw Error(epitaph_);
  protocol::Message head{static_cast<uint32_t>(request.operation), 0, 0, 0, {}};
  std::copy(request.numbers.begin(), request.numbers.end(), head.numbers.begin());
  head.numbers[protocol::kInspecting] = request.inspecting;
  auto& control = control_of(control_);
  inputs_used_ = protocol::write_message(head, request.tensors, request.text, inputs_.bytes(),
                                         control_.bytes().data() + protocol::kRequestAt);
  n_caches_ += request.operation == protocol::Operation::make_cache;
  if (request.operation == protocol::Operation::append) {
    for (size_t i = 1; i < request.tensors.size(); ++i) {
      if (request.tensors[i].defined()) n_appended_bytes_ += 2 * request.tensors[i].numel();
    }
  }
  control.asked = ++n_asked_;
  futex_wake(control.asked);
  return call;
}

HostAnswer HostProcess::PendingCall::finish() {
  process_->wait_for(process_->n_asked_);
  return process_->read_answer(operation_);
}

HostAnswer HostProcess::read_answer(uint32_t operation) {
  HostAnswer answer;
  try {
    const auto received =
        protocol::read_message(control_.bytes().data() + protocol::kAnswerAt, outputs_.bytes().size());
    answer.head = received.head;
    answer.text = received.text;
    size_t n_bytes = 0;
    for (const auto& place : received.places) {
      const auto view = protocol::tensor_at(place, outputs_.bytes().data());
      answer.tensors.push_back(view.defined() ? view.clone() : view);
      if (view.defined()) n_bytes = std::max(n_bytes, place.offset + view.nbytes());
    }
    if (n_bytes > kKeptBytes) outputs_.give_back(kKeptBytes);
    if (inputs_used_ > kKeptBytes) inputs_.give_back(kKeptBytes);
  } catch (const Error& e) {
    end(concat("gave an answer that is not valid: ", e.what()));
  }
  using protocol::Status;
  const auto status = static_cast<Status>(answer.head.status);
  if (status == Status::done && answer.head.operation == operation) return answer;
  if (status == Status::out_of_memory) throw std::bad_alloc();
  if (status != Status::failed) {
    end(concat("gave an answer that is not valid: status ", answer.head.status, " of operation ", answer.head.operation,
               ", expected operation ", operation));
  }
  throw Error(one_line(answer.text.substr(0, kLongestText)));
}

KernelCount HostProcess::count() const {
  outputs_.give_back(kCountedBytes);
  const auto folder = concat("/proc/", pid_);
  const auto memory = read_proc(folder + "/smaps_rollup");
  KernelCount count;
  count.memory_bytes = 1024 * sum_in(memory, {"Private_Clean:", "Private_Dirty:", "Swap:"});
  const size_t shared = outputs_.n_bytes_taken() + control_.n_bytes_taken();
  count.memory_bytes += static_cast<int64_t>(shared);
  count.n_files = n_entries(folder + "/fd");
  std::error_code error;
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task", error)) {
    const auto children = read_proc(thread.path().string() + "/children");
    count.n_processes += std::count(children.begin(), children.end(), ' ');
  }
  return count;
}

void HostProcess::set_memory_limit(int64_t bytes) { kvc::memory_limit = bytes; }
int64_t HostProcess::memory_limit() { return kvc::memory_limit; }
void HostProcess::set_patience(double seconds) { patience = seconds; }
HostProcess::Deaths HostProcess::deaths() { return {n_deaths, n_stuck}; }

}  // namespace kvc
