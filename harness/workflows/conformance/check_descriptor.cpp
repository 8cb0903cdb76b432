// What a plugin says of itself, and which models it takes.
#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "conformance/filled_cache.h"

namespace kvc::conformance {
namespace {

bool is_one_line(const char* text) {
  return text && *text && std::string_view(text).find('\n') == std::string_view::npos;
}

bool is_snake_case(const std::string& name) {
  return !name.empty() && name.front() >= 'a' && name.front() <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string::npos;
}

// Models of a kind that plugins forget: head_dims that no power of two divides, odd and single heads, no RoPE.
std::vector<ModelShape> unusual_models() {
  const auto model = [](int64_t n_heads, int64_t n_kv_heads, int64_t head_dim) {
    return ModelShape{.n_layers = 3, .n_heads = n_heads, .n_kv_heads = n_kv_heads, .head_dim = head_dim};
  };
  auto without_rope = model(4, 2, 64), without_rope_odd = model(3, 3, 13);
  without_rope.has_rope = without_rope_odd.has_rope = false;
  return {model(4, 4, 80), model(4, 2, 96),  model(2, 1, 24), model(5, 5, 32), model(7, 1, 64),
          model(1, 1, 8),  model(2, 2, 256), without_rope,    without_rope_odd};
}

}  // namespace

std::string to_string(const ModelShape& model) {
  return concat("heads ", model.n_heads, "/", model.n_kv_heads, ", head_dim ", model.head_dim,
                model.sliding_window > 0 ? concat(", window ", model.sliding_window) : "",
                model.has_rope ? "" : ", no RoPE",
                model.n_rotated_channels < model.head_dim ? concat(", ", model.n_rotated_channels, " rotated") : "",
                model.has_sinks ? ", sinks" : "", model.logit_softcap > 0 ? ", softcap" : "",
                model.layers.empty() ? "" : ", layers differ");
}

Outcome descriptor_is_complete(const Subject& subject) {
  Outcome outcome;
  const auto& d = subject.plugin.descriptor();
  expect(is_one_line(d.summary), "summary is not one line", outcome);
  expect(is_one_line(d.source), "source is not one line: paper and section, or \"none\"", outcome);
  expect(is_one_line(d.deviations), "deviations is not one line: how it differs from its source, or \"none\"", outcome);
  std::set<std::string> names;
  for (const auto& option : subject.plugin.describe_options()) {
    expect(is_snake_case(option.name), concat("option '", option.name, "' is not named in snake_case"), outcome);
    expect(names.insert(option.name).second, concat("option '", option.name, "' is visited twice"), outcome);
    expect(is_one_line(option.help.c_str()), concat("option '", option.name, "' has no line of help"), outcome);
  }
  nlohmann::json resolved, again;
  const double bits = subject.plugin.make(subject.options, &resolved)->bits();
  auto given = resolved;  // a file stands in what is recorded by its hash, and is given by its name
  for (const auto& option : subject.plugin.describe_options()) {
    if (option.type == "file" && subject.options.contains(option.name)) {
      given[option.name] = subject.options.at(option.name);
    }
  }
  subject.plugin.make(given, &again);
  expect(resolved == again, "the options in force are not taken as they were recorded: " + resolved.dump(), outcome);
  expect(std::isfinite(bits) && bits > 0 && bits <= 32, concat("bits() is ", bits, ", expected above 0, at most 32"),
         outcome);
  return outcome;
}

Outcome models_are_refused_or_served(const Subject& subject) {
  Outcome outcome;
  for (const auto& model : unusual_models()) {
    const Subject unusual{subject.plugin, subject.options, model};
    try {
      subject.plugin.make(subject.options)->check_model(model);
    } catch (const Error& e) {
      expect(is_one_line(e.what()), concat(to_string(model), ": refused without a line that says why"), outcome);
      outcome.notes.push_back(concat("refuses ", to_string(model), ": ", e.what()));
      continue;
    }
    try {
      const auto input = ordinary_input(model, 140, 5);
      const auto made = filled(unusual, input, 133);
      Outcome attention;
      compare_attention(*made.cache, input, model, 1, attention);
      for (const auto& line : attention.complaints) {
        outcome.complaints.push_back(concat(to_string(model), ": ", line));
      }
    } catch (const std::exception& e) {
      const std::string text = e.what();
      outcome.complaints.push_back(
          concat(to_string(model), ": check_model takes it, then: ", text.substr(0, text.find('\n'))));
    }
  }
  return outcome;
}

}  // namespace kvc::conformance
