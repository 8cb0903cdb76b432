// Commands whose end is known: what they leave behind when nothing disturbs them, to hold disturbed ones against.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>

#include "program/stored.h"

namespace kvc::test {

// One command, begun on a database that may hold something.
struct Work {
  std::string name;
  std::vector<std::string> arguments;
  std::filesystem::path before;  // the database that it begins with; "": none
  std::filesystem::path output;  // a file that it makes; "": none
};

// Where commands run and what they leave. A test's own, so that the user's cache of hashes stays out of it.
class Workplace {
 public:
  Workplace();

  // run, rescore, import, search and others, on the embedded model; begun at the database r.sqlite of this folder.
  const std::vector<Work>& works() const { return works_; }
  const Work& work(const std::string& name) const;

  void begin(const Work& work);  // the database as it was before
  // The database and the output; the same whether the work was disturbed or not.
  std::string left(const Work& work);
  // Finished samples with all that was measured of them: a sample that is computed again has other times.
  std::set<std::string> finished();

  struct Undisturbed {
    std::string left;
    double seconds;
  };
  const Undisturbed& undisturbed(const Work& work);

  const TempFolder folder;
  const std::filesystem::path database = folder / "r.sqlite";

 private:
  void remove_database();
  std::vector<Work> works_;
  std::map<std::string, Undisturbed> undisturbed_;
};

// How much is tried, by KVC_TEST_FAULTS: a few seconds' worth without it, minutes' with `slow`, an hour's with `all`.
enum class Amount { few, slow, all };
Amount amount();

Workplace& place();

// What is wrong with how a command ended; "" where nothing is: a signal, or no line that says why it failed.
std::string unfit_end(const Finished& ended);

}  // namespace kvc::test
