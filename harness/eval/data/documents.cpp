// Questions about documents, among other documents, as files of JSON hold both.
#include <algorithm>
#include <map>
#include <set>

#include "data/drawn_text.h"
#include "data/makers.h"
#include "text/json.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::json;

// Where things are, each a path below the one that holds it: /a/b, with * for all of a list; "" is the holder itself.
struct DocumentPaths {
  std::string groups;             // of the file: documents of a group come before any others
  std::string items;              // of a group
  std::string documents;          // of an item; its questions need them all
  std::vector<std::string> text;  // of a document; joined by line feeds, what a * finds by nothing
  std::string questions;          // of an item
  std::string question, answers;  // of a question
  std::string unless;             // of a question: true where it has no answer; "": all have
};

struct Documents {
  MakerSettings settings;
  TaskFile file;
  DocumentPaths paths;
  Template document;  // {number}, {text}
  int64_t step = 1;
};

std::vector<const Json*> find_all(const Json& from, const std::string& path) {
  std::vector<const Json*> found{&from};
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('/', at + 1), path.size());
    const auto name = path.substr(at + 1, end - at - 1);
    std::vector<const Json*> next;
    for (const auto* value : found) {
      if (name == "*" && value->is_array()) {
        for (const auto& item : *value) next.push_back(&item);
      } else if (value->is_object() && value->contains(name)) {
        next.push_back(&value->at(name));
      } else if (value->is_array() && !name.empty() && name.find_first_not_of("0123456789") == std::string::npos &&
                 name.size() < 9 && std::stoul(name) < value->size()) {
        next.push_back(&value->at(std::stoul(name)));
      }
    }
    found = std::move(next);
    at = end;
  }
  return found;
}

struct DocumentQuestion {
  std::string text;
  std::vector<std::string> answers;
  std::vector<size_t> own, related;  // documents that it needs, and others of their group
};

class DocumentMaker final : public QuestionMaker {
 public:
  DocumentMaker(Documents spec, const MakerPlace& place)
      : spec_(std::move(spec)), file_(locate(spec_.file, place.data_dir).string()) {
    const auto json = read_json_text(file_);
    const auto groups = find_all(json, spec_.paths.groups);
    std::set<std::string> all;
    for (const auto* group : groups) each_document(*group, [&](const std::string& document) { all.insert(document); });
    documents_.assign(all.begin(), all.end());
    for (const auto* group : groups) add_questions(*group);
    KVC_CHECK(!questions_.empty(), file_, ":1:1: error: no question at ", spec_.paths.groups, spec_.paths.items,
              spec_.paths.questions);
  }

  int64_t n_questions() const override { return static_cast<int64_t>(questions_.size()); }
  Growth growth() const override { return {spec_.step, 1, spec_.step}; }

  Json make(int64_t n_units, int64_t index) const override {
    auto random = random_of(spec_.settings.seed, static_cast<uint64_t>(index));
    const auto& question = questions_[static_cast<size_t>(index)];
    auto shown = choose(question, static_cast<size_t>(n_units), random);
    auto order = spec_.settings.one_order ? Random(spec_.settings.seed) : random;
    order.shuffle(shown);
    std::vector<std::string> texts;
    for (const size_t i : shown) {
      texts.push_back(
          fill_template(spec_.document, {{"number", std::to_string(texts.size() + 1)}, {"text", documents_[i]}}));
    }
    return {{"context", join(texts, "\n\n")}, {"query", question.text}, {"answers", question.answers}};
  }

 private:
  template <class Visit>
  void each_document(const Json& holder, const Visit& visit) const {
    for (const auto* item : find_all(holder, spec_.paths.items)) each_own_document(*item, visit);
  }
  template <class Visit>
  void each_own_document(const Json& item, const Visit& visit) const {
    for (const auto* document : find_all(item, spec_.paths.documents)) {
      std::vector<std::string> parts;
      for (const auto& path : spec_.paths.text) {
        std::string part;
        for (const auto* text : find_all(*document, path)) part += text_of(*text);
        parts.push_back(part);
      }
      visit(join(parts, "\n"));
    }
  }

  const std::string& text_of(const Json& value) const {
    KVC_CHECK(value.is_string(), file_, ":1:1: error: ", value.type_name(), " where a text is expected: '",
              value.dump(-1, ' ', true).substr(0, 60), "'");
    return value.get_ref<const std::string&>();
  }

  size_t place_of(const std::string& document) const {
    return static_cast<size_t>(std::lower_bound(documents_.begin(), documents_.end(), document) - documents_.begin());
  }

  void add_questions(const Json& group) {
    std::vector<size_t> of_group;
    each_document(group, [&](const std::string& document) { of_group.push_back(place_of(document)); });
    for (const auto* item : find_all(group, spec_.paths.items)) {
      DocumentQuestion question;
      each_own_document(*item, [&](const std::string& document) { question.own.push_back(place_of(document)); });
      std::copy_if(of_group.begin(), of_group.end(), std::back_inserter(question.related), [&](size_t i) {
        return std::find(question.own.begin(), question.own.end(), i) == question.own.end();
      });
      for (const auto* asked : find_all(*item, spec_.paths.questions)) add_question(*asked, question);
    }
  }

  void add_question(const Json& asked, DocumentQuestion question) {
    if (!spec_.paths.unless.empty()) {
      const auto unless = find_all(asked, spec_.paths.unless);
      if (!unless.empty() && *unless[0] == Json(true)) return;
    }
    const auto text = find_all(asked, spec_.paths.question);
    KVC_CHECK(text.size() == 1, file_, ":1:1: error: a question has ", text.size(), " texts at ", spec_.paths.question,
              ", expected one");
    question.text = text_of(*text[0]);
    for (const auto* answer : find_all(asked, spec_.paths.answers)) question.answers.push_back(text_of(*answer));
    KVC_CHECK(!question.answers.empty(), file_, ":1:1: error: the question '", question.text.substr(0, 60),
              "' has no answer at ", spec_.paths.answers);
    questions_.push_back(std::move(question));
  }

  // The question's own, then of its group, then of all others; more than there are begin again.
  std::vector<size_t> choose(const DocumentQuestion& question, size_t n, Random& random) const {
    std::vector<size_t> chosen;
    if (n >= documents_.size()) {
      for (size_t i = 0; i < n; ++i) chosen.push_back(i % documents_.size());
      return chosen;
    }
    chosen = question.own;
    const size_t n_more = n > chosen.size() ? n - chosen.size() : 0;
    if (n_more <= question.related.size()) {
      for (const size_t i : random.sample(question.related.size(), n_more)) chosen.push_back(question.related[i]);
      return chosen;
    }
    chosen.insert(chosen.end(), question.related.begin(), question.related.end());
    const std::set<size_t> used(chosen.begin(), chosen.end());
    std::vector<size_t> others;
    for (size_t i = 0; i < documents_.size(); ++i) {
      if (!used.contains(i)) others.push_back(i);
    }
    const size_t n_others = std::min(others.size(), n - std::min(n, chosen.size()));
    for (const size_t i : random.sample(others.size(), n_others)) chosen.push_back(others[i]);
    return chosen;
  }

  Documents spec_;
  std::string file_;
  std::vector<std::string> documents_;  // each once, sorted
  std::vector<DocumentQuestion> questions_;
};

std::string read_path(YamlMap& map, const char* key, const std::string& otherwise) {
  const auto value = map.optional(key);
  if (!value) return otherwise;
  auto path = value->string();
  if (!path.empty() && path[0] != '/') value->fail(value->name(), " is ", value->found(), ", expected '' or /name");
  return path;
}

}  // namespace

ReadMaker read_documents(YamlMap& map, const MakerSettings& settings) {
  Documents spec;
  spec.settings = settings;
  spec.file = read_task_file(map, {"task", "data_dir"});
  spec.document = read_template_of(map.required("document"), {"number", "text"});
  spec.step = map.optional_integer("step", 1, 1'000'000, 1);
  auto& paths = spec.paths;
  auto of_paths = map.required("paths").map();
  paths = {read_path(of_paths, "groups", ""),    read_path(of_paths, "items", ""),
           read_path(of_paths, "documents", ""), of_paths.required("text").strings(),
           read_path(of_paths, "questions", ""), of_paths.required_string("question"),
           of_paths.required_string("answers"),  read_path(of_paths, "unless", "")};
  of_paths.reject_unknown();
  const auto file = spec.file;
  return {[spec](const MakerPlace& place) { return std::make_unique<const DocumentMaker>(spec, place); }, {file}};
}

}  // namespace kvc
