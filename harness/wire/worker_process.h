// The parent's end of a worker: a child process that holds one model and answers jobs over a socket.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace kvc {

// One message is one line of JSON. The child dies with its parent, and a crash of the child costs the parent nothing.
class WorkerProcess {
 public:
  // Starts `<this program> worker` and sends it the set-up message. Throws Error when no process can be made.
  explicit WorkerProcess(const nlohmann::json& set_up);
  ~WorkerProcess();  // ends the child
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  int fd() const { return socket_; }         // readable when a message or the child's end is to be had
  void send(const nlohmann::json& message);  // a child that has died shows at receive()

  // The messages that have arrived; empty at the end of the child, whose epitaph is then set.
  std::vector<nlohmann::json> receive();
  bool ended() const { return !epitaph_.empty(); }
  const std::string& epitaph() const { return epitaph_; }  // "killed by signal 6 (Aborted)"

  // The next message, whenever it comes. keep_on, if any, is asked now and then; null where it says no. Throws Error
  // where the child has died: "<who> was killed by signal 6 (Aborted) inside the plugin".
  nlohmann::json next(const std::string& who, const std::function<bool()>& keep_on = {});

  // The compressor whose code the child was in last, or -1: the model's or the child's own.
  int last_entered() const;

 private:
  void read_epitaph();

  pid_t child_ = -1;
  int socket_ = -1;
  int* entered_ = nullptr;  // one int shared with the child
  std::string buffer_, epitaph_;
  std::vector<nlohmann::json> waiting_;  // that next() has not given yet
};

// The child's end: what it finds on its file descriptors.
class WorkerChannel {
 public:
  WorkerChannel();
  std::optional<nlohmann::json> receive();  // nullopt when the parent is gone
  bool has_message();                       // receive() will not wait
  void send(const nlohmann::json& message);
  void enter(int compressor) { std::atomic_ref(*entered_).store(compressor); }  // from any thread

 private:
  int* entered_;
  std::string buffer_;
};

}  // namespace kvc
