// A process that runs one compressor for this one: started, called over shared memory, watched, and counted from outside.
#pragma once

#include <ATen/core/Tensor.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "hosted/message.h"
#include "hosted/shared_memory.h"
#include "kvc/check.h"

namespace kvc {

// What a host answered; its tensors are copies that nothing else can change.
struct HostAnswer {
  protocol::Message head;
  std::vector<at::Tensor> tensors;
  std::string text;

  int64_t number(size_t i) const { return head.numbers.at(i); }
  double real(size_t i) const { return protocol::double_of(head.numbers.at(i)); }
  // Throws Error unless there is such a tensor of this type and these sizes; -1: any.
  at::Tensor tensor(size_t i, at::ScalarType type, at::IntArrayRef sizes) const;
};

// What the kernel counts of a process.
struct KernelCount {
  int64_t memory_bytes = 0;  // that are the process's alone, in memory or swapped out
  int64_t n_files = 0;
  int64_t n_processes = 0;  // that it has started
};

class HostProcess {
 public:
  // python: the interpreter that runs a compressor written in Python; "": kvc itself, for shared libraries.
  static std::shared_ptr<HostProcess> start(const std::string& python);
  ~HostProcess();  // ends it
  HostProcess(const HostProcess&) = delete;
  HostProcess& operator=(const HostProcess&) = delete;

  // From any thread, one call at a time. Throws Error with what the compressor threw; where the process has died, was
  // silent for longer than the patience, or gave an answer that is none: with that, from then on at every call.
  HostAnswer call(const protocol::Request& request);

  // A call whose answer is awaited later: that of another process in the meantime. No other call of this process until
  // finish(), or the end of it.
  class PendingCall {
   public:
    HostAnswer finish();

   private:
    friend class HostProcess;
    PendingCall(HostProcess& process, uint32_t operation)
        : process_(&process), lock_(process.mutex_), operation_(operation) {}
    HostProcess* process_;
    std::unique_lock<std::mutex> lock_;
    uint32_t operation_;
  };
  PendingCall begin(const protocol::Request& request);

  bool has_ended() const { return pid_ < 0; }
  // Its calls throw Error "the compressor's process <why>" from here on.
  void condemn(const std::string& why);
  // What it was given so far: bytes of K and V, at 16 bits, and caches to make.
  struct Given {
    int64_t bytes = 0, n_caches = 0;
  };
  Given given() const { return {n_appended_bytes_, n_caches_}; }
  bool is_contained = false;  // by the stage of computing

  // Those of this process, not of one that it is a fork of.
  static std::vector<std::shared_ptr<HostProcess>> all();

  KernelCount count() const;  // the memory that it shares with this process included, but for one message's

  // Seconds that a call may take, where no call so far took a tenth of that; 0, as at first: any number. For all hosts of
  // this process.
  static void set_patience(double seconds);
  // Bytes of private memory that a host which is started may take; 0, as at first: any number.
  static void set_memory_limit(int64_t bytes);
  static int64_t memory_limit();
  // Hosts of this process that have died, and those of them that were ended at a call that took too long.
  struct Deaths {
    int64_t n = 0, n_stuck = 0;
  };
  static Deaths deaths();

 private:
  explicit HostProcess(const std::string& python);
  HostAnswer read_answer(uint32_t operation);
  void wait_for(uint32_t number);
  [[noreturn]] void end(const std::string& why);
  std::string how_it_ended();

  std::mutex mutex_;
  SharedMemory control_, inputs_, outputs_;
  bool is_python_;
  pid_t pid_ = -1;
  int pid_fd_ = -1;
  uint32_t n_asked_ = 0;
  size_t inputs_used_ = 0;   // bytes, by the last request
  double longest_call_ = 0;  // seconds
  std::atomic<int64_t> n_appended_bytes_ = 0, n_caches_ = 0;
  const pid_t of_ = ::getpid();
  std::string epitaph_;  // why calls fail; "": they do not
};

}  // namespace kvc
