// Words in lines, none of them twice, to be written down again.
#include "data/drawn_text.h"
#include "data/makers.h"
#include "kvc/check.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

struct Lists {
  MakerSettings settings;
  std::vector<TaskFile> files;  // of words
  int64_t per_line = 1;
};

class ListMaker final : public QuestionMaker {
 public:
  ListMaker(const Lists& spec, const MakerPlace& place) : spec_(spec), words_(read_words(spec.files, place.data_dir)) {}

  Growth growth() const override { return {}; }

  Json make(int64_t n_units, int64_t index) const override {
    const auto per_line = static_cast<size_t>(spec_.per_line), n_lines = static_cast<size_t>(n_units);
    KVC_CHECK(n_lines * per_line <= words_.size(), spec_.files.front().where, ": error: ", n_lines, " lines of ",
              per_line, " words are asked for, and there are ", words_.size(), " different words");
    auto words = words_;
    random_of(spec_.settings.seed, static_cast<uint64_t>(index)).shuffle(words);
    std::string list;
    for (size_t i = 0; i < n_lines * per_line; ++i) {
      list += (i == 0 ? "" : i % per_line == 0 ? "\n" : " ") + words[i];
    }
    return {{"context", list}, {"answer", list}};
  }

 private:
  Lists spec_;
  std::vector<std::string> words_;
};

}  // namespace

ReadMaker read_lists(YamlMap& map, const MakerSettings& settings) {
  Lists spec{settings, read_task_files(map.required("words")), map.optional_integer("per_line", 1, 1000, 1)};
  const auto files = spec.files;
  return {[spec](const MakerPlace& place) { return std::make_unique<const ListMaker>(spec, place); }, files};
}

}  // namespace kvc
