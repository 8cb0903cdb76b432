// What is said to `kvc host`, from which hosts are forked: a word each way, with descriptors for a new host.
#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

namespace kvc {

inline constexpr int kStarterFd = 3;

struct StarterWord {
  enum class What : int32_t { start, end } what;
  int32_t value;  // of a start's answer and of an end: the process; of an end's answer: its status
};

// fds: none or three. -> whether it was sent
inline bool send_word(int socket, const StarterWord& word, const std::array<int, 3>* fds = nullptr) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof *fds)] = {};
  iovec part{const_cast<StarterWord*>(&word), sizeof word};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  if (fds) {
    message.msg_control = control, message.msg_controllen = sizeof control;
    auto* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET, header->cmsg_type = SCM_RIGHTS, header->cmsg_len = CMSG_LEN(sizeof *fds);
    std::memcpy(CMSG_DATA(header), fds->data(), sizeof *fds);
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == sizeof word;
}

// fds: where those that come with it go. -> nothing at the other side's end
inline std::optional<StarterWord> receive_word(int socket, std::array<int, 3>* fds = nullptr) {
  StarterWord word{};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof *fds)] = {};
  iovec part{&word, sizeof word};
  msghdr message{};
  message.msg_iov = &part, message.msg_iovlen = 1;
  message.msg_control = control, message.msg_controllen = sizeof control;
  ssize_t n;
  do {
    n = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n != sizeof word) return std::nullopt;
  const auto* header = CMSG_FIRSTHDR(&message);
  if (fds && header && header->cmsg_type == SCM_RIGHTS) std::memcpy(fds->data(), CMSG_DATA(header), sizeof *fds);
  return word;
}

}  // namespace kvc
