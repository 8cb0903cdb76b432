// What is wrong with a file, all of it at once.
#pragma once

#include <exception>
#include <string>
#include <vector>

#include "kvc/check.h"

namespace kvc {

// what(): the first one, and how many more there are.
class SeveralErrors : public Error {
 public:
  explicit SeveralErrors(std::vector<std::string> messages);
  const std::vector<std::string>& messages() const { return messages_; }

 private:
  std::vector<std::string> messages_;
};

// What an error says, a line for each thing that is wrong.
std::vector<std::string> lines_of(const std::exception& error);

// Collects what actions throw. What is wrong with the machine (EnvironmentError) is thrown at once.
class ErrorList {
 public:
  template <class Action>
  bool attempt(Action action) {
    try {
      action();
      return true;
    } catch (const EnvironmentError&) {
      throw;
    } catch (const Error& e) {
      add(e);
      return false;
    }
  }
  bool empty() const { return messages_.empty(); }
  void throw_all();  // in the order of their lines in the file; nothing where there are none

 private:
  void add(const Error& error);
  std::vector<std::string> messages_;
};

}  // namespace kvc
