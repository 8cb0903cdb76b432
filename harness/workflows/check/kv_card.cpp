#include "check/kv_card.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "experiment/provenance.h"
#include "kvc/check.h"
#include "render/escape.h"
#include "text/nearest.h"

namespace kvc {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json estimate_json(const Estimate& estimate) {
  Json json;
  json["mean"] = estimate.value;
  json["interval_95"] = estimate.interval ? Json{estimate.interval->low, estimate.interval->high} : Json();
  return json;
}

Json kl_json(const PresetResult& preset) {
  auto json = estimate_json(preset.all.kl);
  const auto& tails = preset.tails;
  if (tails.n_tokens == 0) return json;
  json["median"] = or_null(tails.median);
  json["p90"] = or_null(tails.p90);
  json["p99"] = or_null(tails.p99);
  json["p99_9"] = or_null(tails.p999);
  json["max"] = tails.largest;
  json["max_at"] = {
      {"task", tails.task}, {"window", tails.sample}, {"position", tails.position}, {"token", tails.token}};
  return json;
}

Json text_json(const PresetResult& preset) {
  Json json;
  json["tokens"] = preset.all.n_tokens;
  json["windows"] = preset.all.n_windows;
  json["kl_nats"] = kl_json(preset);
  json["top1_agreement"] = estimate_json(preset.all.top1);
  json["top1_flips"] = preset.tails.n_tokens > 0 ? Json(preset.tails.n_flips) : Json();
  json["acceptance"] = preset.tails.n_tokens > 0 ? Json(preset.tails.acceptance) : Json();
  return json;
}

Json lengths_json(const ModelFindings& found, const PresetResult& preset) {
  auto lengths = Json::array();
  size_t i = 0;
  for (const auto& task : found.tasks) {
    if (task.n_tokens == 0) continue;
    const auto& of = preset.by_length.at(i++);
    Json json{{"tokens", task.n_tokens}, {"compressed", of.n_blocks > 0}};
    if (of.n_blocks > 0) json["kl_nats"] = estimate_json(of.kl);
    lengths.push_back(std::move(json));
  }
  return lengths;
}

Json preset_json(const ModelFindings& found, const PresetResult& preset) {
  Json json{{"name", preset.name}};
  if (!preset.refused.empty()) {
    json["refused"] = preset.refused;
    return json;
  }
  json["plugin"] = preset.plugin;
  json["options"] = Json::parse(preset.options_json, nullptr, false);
  json["is_baseline"] = preset.is_baseline;
  json["verdict"] = preset.is_baseline ? Json() : Json(to_string(preset.verdict));
  json["decided_by"] = preset.reasons;
  json["tokens_to_decide"] = std::isfinite(preset.n_tokens_needed) && preset.n_tokens_needed > 0
                                 ? nlohmann::json(std::llround(preset.n_tokens_needed))
                                 : nlohmann::json();
  json["kv_bytes"] = preset.bytes;
  json["kv_bytes_16_bits"] = preset.bytes_16bit;
  json["bits_per_value"] = 16 * preset.bytes / preset.bytes_16bit;
  json["text"] = preset.all.n_tokens > 0 ? text_json(preset) : Json();
  json["by_length"] = lengths_json(found, preset);
  const auto& passkey = preset.passkey_all;
  json["passkey"] = {{"n", passkey.n}, {"right", passkey.n_right}, {"right_full_precision", passkey.n_right_full}};
  if (preset.n_failed > 0) json["failed"] = {{"samples", preset.n_failed}, {"first_error", preset.failure}};
  return json;
}

Json model_json(const ModelFindings& found) {
  Json json{{"name", found.model_name}};
  if (!found.error.empty()) {
    json["error"] = found.error;
    return json;
  }
  json["sha256"] = found.hashes;
  json["n_layers"] = found.config.n_layers;
  json["n_kv_heads"] = found.config.n_kv_heads;
  json["head_dim"] = found.config.head_dim;
  json["kv_size_at_tokens"] = found.n_size_tokens;
  json["checked_up_to_tokens"] = found.context;
  json["prefill_chunk"] = found.prefill.chunk > 0 ? Json(found.prefill.chunk) : Json();
  json["largest_key_channel"] = found.keys.largest_ratio;
  json["compressors"] = Json::array();
  for (const auto& preset : found.presets) json["compressors"].push_back(preset_json(found, preset));
  return json;
}

bool is_rated(const PresetResult& preset) { return !preset.is_baseline && preset.refused.empty(); }

struct Message {
  std::string text, color;
};

// Of all presets of all models; what is undecided does not count as unchanged.
Message badge_message(const std::vector<ModelFindings>& models) {
  std::vector<const PresetResult*> rated;
  for (const auto& found : models) {
    for (const auto& preset : found.presets) {
      if (is_rated(preset)) rated.push_back(&preset);
    }
  }
  const auto is_unchanged = [](const auto* preset) { return preset->verdict == Levels(); };
  const auto breaks = [](const auto* preset) { return preset->verdict.least == Level::breaks; };
  const auto n_unchanged = std::ranges::count_if(rated, is_unchanged);
  const bool all = n_unchanged == std::ssize(rated) && !rated.empty();
  const char* color = all ? "#2e7d32" : std::ranges::any_of(rated, breaks) ? "#b3261e" : "#8a6100";
  if (rated.size() == 1) return {concat(rated[0]->name, ": ", to_string(rated[0]->verdict)), color};
  return {concat(n_unchanged, " of ", rated.size(), " unchanged"), color};
}

// What a preset lost, in the limit's unit; nothing where that was not measured.
std::optional<double> loss_of(const PresetResult& preset, const std::string& measure) {
  if (measure == "passkey") {
    const auto& asked = preset.passkey_all;
    if (asked.n == 0) return std::nullopt;
    return 100 * static_cast<double>(asked.n_right_full - asked.n_right) / static_cast<double>(asked.n);
  }
  if (preset.all.n_tokens == 0) return std::nullopt;
  return measure == "kl" ? preset.all.kl.value : 100 * (1 - preset.all.top1.value);
}

const char* unit_of(const std::string& measure) {
  return measure == "kl" ? "nats" : measure == "flips" ? "% of tokens" : "points";
}

}  // namespace

nlohmann::ordered_json kv_card(const std::vector<ModelFindings>& models, const std::vector<std::string>& command) {
  Json json{{"kv_card", kVersion}, {"command", join(command, " ")}, {"made_with", provenance()}};
  for (const auto& found : models) {
    if (!found.error.empty()) continue;
    const auto& s = found.settings;
    json["bounds"] = {{"kl_nats", {{"unchanged", s.kl.unchanged}, {"breaks", s.kl.breaks}}},
                      {"top1_agreement", {{"unchanged", 1 - s.top1.unchanged}, {"breaks", 1 - s.top1.breaks}}},
                      {"passkey_lost", {{"unchanged", s.passkey.unchanged}, {"breaks", s.passkey.breaks}}}};
    break;
  }
  json["models"] = Json::array();
  for (const auto& found : models) json["models"].push_back(model_json(found));
  return json;
}

std::string badge_svg(const std::vector<ModelFindings>& models) {
  const auto [text, color] = badge_message(models);
  constexpr int kLabel = 66;  // pixels of "KV cache"
  const int width = kLabel + 14 + static_cast<int>(7 * text.size());
  const auto shown = escape_html(text);
  return concat(R"(<svg xmlns="http://www.w3.org/2000/svg" width=")", width,
                R"(" height="20" role="img" aria-label="KV )", "cache: ", shown, R"("><rect width=")", kLabel,
                R"(" height="20" fill="#444"/><rect x=")", kLabel, R"(" width=")", width - kLabel,
                R"(" height="20" fill=")", color,
                R"("/><g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11"><text x="7" y="14">)",
                R"(KV cache</text><text x=")", kLabel + 7, R"(" y="14">)", shown, "</text></g></svg>\n");
}

std::vector<LossLimit> read_loss_limits(const std::vector<std::string>& texts) {
  static const std::vector<std::string> known{"kl", "flips", "passkey"};
  std::vector<LossLimit> limits;
  for (const auto& text : texts) {
    const auto equals = text.find('=');
    const auto measure = text.substr(0, equals);
    KVC_CHECK(std::ranges::count(known, measure) > 0, "--fail-over: ", unknown_name("measure", measure, known));
    const auto number = equals == std::string::npos ? "" : text.substr(equals + 1);
    char* end = nullptr;
    const double most = std::strtod(number.c_str(), &end);
    KVC_CHECK(!number.empty() && *end == '\0' && most >= 0 && std::isfinite(most), "--fail-over ", text, ": '", number,
              "' is no limit, expected ", measure, "=NUMBER, 0 or more, in ", unit_of(measure));
    limits.push_back({measure, most});
  }
  return limits;
}

std::vector<std::string> over_limits(const std::vector<ModelFindings>& models, const std::vector<LossLimit>& limits) {
  std::vector<std::string> lines;
  for (const auto& found : models) {
    for (const auto& preset : found.presets) {
      if (!is_rated(preset)) continue;
      for (const auto& [measure, most] : limits) {
        const auto loss = loss_of(preset, measure);
        if (loss && *loss <= most) continue;
        char value[64] = "not measured";
        if (loss) std::snprintf(value, sizeof value, "%.4g %s", *loss, unit_of(measure));
        lines.push_back(concat(preset.name, " on ", found.model_name, ": ", measure, " ", value, "; allowed: ", most,
                               " ", unit_of(measure)));
      }
    }
  }
  return lines;
}

}  // namespace kvc
