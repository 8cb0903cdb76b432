#include "plugin_loader/calibration.h"

#include "checkpoint/safetensors.h"
#include "kvc/check.h"
#include "text/files.h"
#include "text/json_reader.h"

namespace kvc {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "kvc calibration 1";

// What the compressor's options say of those that a calibration is made for.
json calibrated_values(const Calibrated& method, const json& resolved) {
  json values = json::object();
  for (const auto& name : method.calibrated_options()) values[name] = resolved.at(name);
  return values;
}

}  // namespace

void write_calibration(const std::filesystem::path& path, const Calibration& calibration) {
  write_safetensors(path, calibration.tensors,
                    {{"format", kFormat},
                     {"plugin", calibration.plugin},
                     {"options", calibration.options.dump()},
                     {"model", calibration.model_identity},
                     {"texts", json(calibration.texts).dump()},
                     {"n_pieces", std::to_string(calibration.n_pieces)},
                     {"n_tokens", std::to_string(calibration.n_tokens)},
                     {"gradients", calibration.has_gradients ? "yes" : "no"}});
}

Calibration read_calibration(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  const auto text = [&](const char* key) {
    const auto found = file.metadata().find(key);
    KVC_CHECK(found != file.metadata().end(), file.path(), ": no '", key,
              "' in its metadata; expected a file written by kvc calibrate");
    return found->second;
  };
  KVC_CHECK(text("format") == kFormat, file.path(), ": format '", text("format"), "', expected '", kFormat,
            "', a file written by kvc calibrate");
  Calibration calibration;
  calibration.plugin = text("plugin");
  calibration.options = parse_json(text("options"), file.path() + ": options");
  calibration.model_identity = text("model");
  for (const auto& name : file.names()) calibration.tensors[name] = file.tensor(name);
  return calibration;
}

std::string model_identity(const json& hashes) {
  json weights = json::object();
  for (const auto& [name, hash] : hashes.items()) {
    if (name.ends_with(".safetensors") || name.ends_with(".index.json") || name.ends_with(".gguf") ||
        name == "config.json")
      weights[name] = hash;
  }
  return sha256_hex(weights.dump());
}

std::unique_ptr<Compressor> make_calibrated(const PluginLibrary& library, const json& options, const ModelShape& model,
                                            const std::string& identity, json* resolved) {
  json values;
  auto compressor = library.make(options, &values);
  if (resolved) *resolved = values;
  auto* method = dynamic_cast<Calibrated*>(compressor.get());
  if (!method || method->calibration_file().empty()) return compressor;
  const auto path = method->calibration_file();
  const auto calibration = read_calibration(path);
  const std::string name = library.descriptor().name;
  KVC_CHECK(calibration.plugin == name, path, ": a calibration of '", calibration.plugin, "', expected '", name, "'");
  const auto wanted = calibrated_values(*method, values);
  for (const auto& [option, value] : wanted.items()) {
    KVC_CHECK(calibration.options.contains(option) && calibration.options.at(option) == value, path, ": made with ",
              option, " ", calibration.options.value(option, json()).dump(), ", here it is ", value.dump(),
              "; calibrate again with it");
  }
  KVC_CHECK(identity.empty() || calibration.model_identity == identity, path,
            ": made for another model (weights and config ", calibration.model_identity.substr(0, 12),
            "..., this model's are ", identity.substr(0, 12), "...)");
  try {
    method->load(model, calibration.tensors);
  } catch (const Error& e) {
    throw Error(concat(path, ": ", e.what()));
  }
  return compressor;
}

}  // namespace kvc
