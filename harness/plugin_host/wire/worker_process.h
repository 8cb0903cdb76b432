// The parent's end of a worker: a child process that holds one model and answers jobs over a socket.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/stopwatch.h"
#include "wire/line_buffer.h"
#include "wire/secret.h"

namespace kvc {

// What a worker says without a message, in memory that it shares with its parent.
struct WorkerPlace {
  int compressor = -1;  // whose code it is in, or -1: the model's or its own
  uint64_t steps = 0;   // how often that changed
};

// One message is one line of JSON. The child dies with its parent, and a crash of the child costs the parent nothing.
// It leads a process group, which ends with it, and reads nothing from the terminal. Each of its messages begins with a
// secret that it was given first, which code that merely finds the socket does not know: another ends the child.
class WorkerProcess {
 public:
  // Starts `<this program> worker` and sends it the set-up message. Throws Error when no process can be made.
  explicit WorkerProcess(const nlohmann::json& set_up);
  ~WorkerProcess();  // ends the child
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  int fd() const { return socket_; }         // readable when a message or the child's end is to be had
  void send(const nlohmann::json& message);  // a child that has died shows at receive()

  // From now on next() and send() end a child that is stuck; 0, as at first: never.
  void set_patience(double seconds) { patience_ = seconds; }
  // Ends a child that has been at one step, a call of a plugin or what lies between two, for longer than the patience
  // and than ten times the longest step so far. Whoever waits for the child asks this now and then.
  void end_if_stuck();
  bool was_stuck() const { return was_stuck_; }
  // Ends the child, which then "was <epitaph>": what it says is no message.
  void end(const std::string& epitaph);

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
  bool read_more();  // false at the child's end
  int reap();
  void read_epitaph();

  pid_t child_ = -1;
  int socket_ = -1;
  WorkerPlace* place_ = nullptr;
  uint64_t steps_seen_ = 0;
  Clock::time_point since_ = Clock::now();  // when they were first seen, or work was given
  double patience_ = 0, longest_step_ = 0;  // seconds
  bool was_stuck_ = false;
  LineBuffer lines_;
  std::string secret_;
  std::string epitaph_;
  std::vector<nlohmann::json> waiting_;  // that next() has not given yet
};

// The child's end: what it finds on its file descriptors. Its socket then has another number, drawn by chance.
class WorkerChannel {
 public:
  WorkerChannel();
  std::optional<nlohmann::json> receive();  // nullopt when the parent is gone
  bool has_message();                       // receive() will not wait
  void send(const nlohmann::json& message);
  void send_last_words(const std::string& why);  // the child "was ended: <why>"
  void enter(int compressor) {                   // from any thread
    std::atomic_ref(place_->compressor).store(compressor);
    std::atomic_ref(place_->steps).fetch_add(1);
  }

 private:
  void send_bytes(std::string_view bytes);

  WorkerPlace* place_;
  int socket_;
  std::array<char, kSecretBytes> secret_;
  LineBuffer lines_;
};

}  // namespace kvc
