#include "task/chat_template.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "task/format_version.h"
#include "text/nearest.h"
#include "text/utf8.h"
#include "text/yaml_read.h"

namespace kvc {
namespace {

const std::vector<std::string> kUserVariables = {"user", "user_stripped", "user_stripped_at_end"};
const std::vector<std::string> kSystemVariables = {"system", "system_stripped"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

int64_t count(const Template& parts, const std::vector<std::string>& variables) {
  return std::count_if(parts.begin(), parts.end(),
                       [&](const auto& part) { return part.is_variable && contains(variables, part.text); });
}

// A form names the user's text once, and the system's once or never; it begins with the template's first token.
Template read_form(const YamlValue& value, const std::string& bos, bool with_system) {
  auto parts = parse_template(value.string());
  auto known = kUserVariables;
  if (with_system) known.insert(known.end(), kSystemVariables.begin(), kSystemVariables.end());
  for (const auto& part : parts) {
    if (part.is_variable && !contains(known, part.text)) value.fail(unknown_name("variable", part.text, known));
  }
  const int64_t n_user = count(parts, kUserVariables), n_system = count(parts, kSystemVariables);
  if (n_user != 1) value.fail(value.name(), " names the user's text ", n_user, " times, expected once");
  if (with_system && n_system != 1)
    value.fail(value.name(), " names the system's text ", n_system, " times, expected once");
  if (!value.string().starts_with(bos))
    value.fail(value.name(), " is ", value.found(), ", expected ", bos, " at its start");
  return parts;
}

std::vector<std::string> read_texts(YamlMap& map, const std::string& key) {
  const auto value = map.optional(key);
  std::vector<std::string> texts;
  if (!value) return texts;
  for (const auto& item : value->sequence()) {
    texts.push_back(item.string());
    if (texts.back().empty()) item.fail(item.name(), " is empty, expected text to look for");
  }
  return texts;
}

ChatTemplate::Marks read_marks(const YamlValue& value) {
  auto map = value.map();
  ChatTemplate::Marks marks{read_texts(map, "has"), read_texts(map, "lacks")};
  map.reject_unknown();
  if (marks.has.empty()) value.fail(value.name(), " has nothing to look for: every model's template would be this one");
  return marks;
}

// How a model's template differs from a format: fewer is nearer. Nothing where it has none of the format's marks.
struct Distance {
  double share_missing;
  std::vector<std::string> missing, foreign;  // of `has` those that are not there, of `lacks` those that are

  bool operator<(const Distance& other) const {
    return std::pair(share_missing, foreign.size()) < std::pair(other.share_missing, other.foreign.size());
  }
};

std::optional<Distance> distance_to(const ChatTemplate::Marks& marks, std::string_view model_template) {
  Distance distance{};
  for (const auto& text : marks.has) {
    if (model_template.find(text) == std::string_view::npos) distance.missing.push_back(in_quotes(text));
  }
  for (const auto& text : marks.lacks) {
    if (model_template.find(text) != std::string_view::npos) distance.foreign.push_back(in_quotes(text));
  }
  if (distance.missing.size() == marks.has.size()) return std::nullopt;
  distance.share_missing = static_cast<double>(distance.missing.size()) / static_cast<double>(marks.has.size());
  return distance;
}

bool matches(const ChatTemplate& chat, std::string_view model_template) {
  return std::any_of(chat.recognize.begin(), chat.recognize.end(), [&](const auto& marks) {
    const auto distance = distance_to(marks, model_template);
    return distance && distance->missing.empty() && distance->foreign.empty();
  });
}

// "; nearest is chatml, but for 'You are a' that is there: ...", or nothing.
std::string nearest_format(const std::vector<ChatTemplate>& known, std::string_view model_template) {
  std::optional<Distance> least;
  std::string name;
  for (const auto& chat : known) {
    for (const auto& marks : chat.recognize) {
      auto distance = distance_to(marks, model_template);
      if (distance && (!least || *distance < *least)) least = std::move(distance), name = chat.name;
    }
  }
  if (!least) return "";
  const auto but_for = [](const std::vector<std::string>& texts, const char* how) {
    return texts.empty() ? "" : concat(", but for ", join(texts), how);
  };
  return concat("; nearest is ", name, but_for(least->missing, " that it lacks"),
                but_for(least->foreign, " that it has"), ": `chat_template: ", name,
                "` in the experiment takes it, `chat_template: none` takes no format");
}

std::vector<std::string> names_of(const std::vector<ChatTemplate>& known) {
  std::vector<std::string> names;
  for (const auto& chat : known) names.push_back(chat.name);
  return names;
}

std::string variable_text(const std::string& name, std::string_view system, std::string_view user) {
  const auto text = name.starts_with("system") ? system : user;
  if (name.ends_with("_stripped")) return strip(text);
  if (name.ends_with("_stripped_at_end")) return strip_end(text);
  return std::string(text);
}

}  // namespace

ChatTemplate load_chat_template(const std::filesystem::path& yaml_file) {
  auto map = load_yaml(yaml_file).map();
  map.required_integer("version", kFormatVersion, kFormatVersion);
  ChatTemplate chat;
  chat.name = yaml_file.stem().string();
  chat.summary = map.required_string("summary");
  chat.bos = map.optional_string("bos", "");
  chat.tokens = read_texts(map, "tokens");
  if (!chat.bos.empty()) chat.tokens.insert(chat.tokens.begin(), chat.bos);
  if (const auto recognize = map.optional("recognize")) {
    for (const auto& item : recognize->sequence()) chat.recognize.push_back(read_marks(item));
  }
  chat.user = read_form(map.required("user"), chat.bos, false);
  if (const auto form = map.optional("system_and_user")) chat.system_and_user = read_form(*form, chat.bos, true);
  map.reject_unknown();
  return chat;
}

std::vector<ChatTemplate> load_chat_templates(const std::filesystem::path& dir) {
  KVC_CHECK(std::filesystem::is_directory(dir), "there is no folder of chat templates '", dir.string(), "'");
  std::vector<ChatTemplate> all;
  for (const auto& file : std::filesystem::directory_iterator(dir)) {
    if (file.is_regular_file() && file.path().extension() == ".yaml") all.push_back(load_chat_template(file.path()));
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return all;
}

const ChatTemplate& find_chat_template(const std::vector<ChatTemplate>& known, const std::string& name) {
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& chat) { return chat.name == name; });
  if (found == known.end()) throw Error(unknown_name("chat template", name, names_of(known)));
  return *found;
}

const ChatTemplate& recognize_chat_template(const std::vector<ChatTemplate>& known, std::string_view model_template) {
  std::vector<std::string> matching;
  for (const auto& chat : known) {
    if (matches(chat, model_template)) matching.push_back(chat.name);
  }
  KVC_CHECK(!matching.empty(), "the model's chat template ", in_quotes(model_template), " is none of the known ones",
            nearest_format(known, model_template), "; known: ", join(names_of(known)));
  KVC_CHECK(matching.size() == 1, "the model's chat template ", in_quotes(model_template), " could be any of ",
            join(matching), "; set it to one of them");
  return find_chat_template(known, matching.front());
}

std::string render_chat(const ChatTemplate& chat, std::string_view system, std::string_view user) {
  KVC_CHECK(system.empty() || !chat.system_and_user.empty(), "chat template '", chat.name,
            "' has no place for a system message, and there is one: ", in_quotes(system));
  std::string text;
  for (const auto& part : system.empty() ? chat.user : chat.system_and_user) {
    text += part.is_variable ? variable_text(part.text, system, user) : part.text;
  }
  return text;
}

}  // namespace kvc
