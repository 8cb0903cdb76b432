#include <sentencepiece_processor.h>

#include <unordered_map>

#include "gguf/protobuf_fields.h"
#include "kvc/check.h"
#include "text/model_folder.h"
#include "text/utf8.h"
#include "tokenizer/special_tokens.h"

namespace kvc {
namespace {

// What decoding needs of the model file; field numbers of sentencepiece_model.proto (ModelProto, TrainerSpec,
// NormalizerSpec) and its defaults.
struct Settings {
  bool adds_space = true, removes_spaces = true, has_space_suffix = false, denormalizes = false;
  std::string unknown_text = " \u2047 ";
};

Settings read_settings(std::string_view file, const std::string& where) {
  constexpr uint64_t kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
  constexpr uint64_t kSpaceSuffix = 24, kUnknownText = 44, kRules = 2, kAddsSpace = 3, kRemovesSpaces = 4;
  Settings settings;
  for (const auto& part : protobuf_fields(file, where)) {
    if (part.number != kTrainer && part.number != kNormalizer && part.number != kDenormalizer) continue;
    for (const auto& field : protobuf_fields(part.bytes, where)) {
      if (part.number == kTrainer) {
        if (field.number == kSpaceSuffix) settings.has_space_suffix = field.value != 0;
        if (field.number == kUnknownText) settings.unknown_text = field.bytes;
      } else if (part.number == kNormalizer) {
        if (field.number == kAddsSpace) settings.adds_space = field.value != 0;
        if (field.number == kRemovesSpaces) settings.removes_spaces = field.value != 0;
      } else {
        settings.denormalizes = settings.denormalizes || (field.number == kRules && !field.bytes.empty());
      }
    }
  }
  KVC_CHECK(is_utf8(settings.unknown_text), where, ": unk_surface is ", in_quotes(settings.unknown_text),
            ", expected UTF-8");
  KVC_CHECK(!settings.has_space_suffix, where, ": treat_whitespace_as_suffix is set, supported: not set");
  KVC_CHECK(!settings.denormalizes, where, ": has denormalization rules, supported: none");
  return settings;
}

class SentencePieceModel : public TextModel {
 public:
  explicit SentencePieceModel(const std::string& file, const std::string& unknown_text, const std::string& where) {
    const auto reason = load_(file);
    KVC_CHECK(reason.empty(), where, ": not a sentencepiece model: ", in_quotes(reason));
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      const auto& piece = processor_.IdToPiece(id);
      KVC_CHECK(is_utf8(piece), where, ": piece ", id, " is ", in_quotes(piece), ", expected UTF-8");
      ids_.emplace(piece, id);
      tokens_.push_back(processor_.IsUnknown(id) ? unknown_text : piece);
    }
  }

  void encode(std::string_view text, bool, std::vector<int64_t>& ids) const override {
    std::vector<int> out;
    const auto status = processor_.Encode(text, &out);
    KVC_CHECK(status.ok(), "tokenizer: sentencepiece: ", in_quotes(status.ToString()));
    ids.insert(ids.end(), out.begin(), out.end());
  }
  std::optional<int64_t> id(std::string_view token) const override {
    const auto found = ids_.find(std::string(token));
    return found == ids_.end() ? std::nullopt : std::optional(found->second);
  }
  const std::string* token(int64_t id) const override {
    return id < size() ? &tokens_[static_cast<size_t>(id)] : nullptr;
  }
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  const sentencepiece::SentencePieceProcessor& processor() const { return processor_; }

 private:
  // Why it cannot be loaded, or nothing. The library reports by a status, its trie of pieces by an exception.
  std::string load_(const std::string& file) {
    try {
      const auto status = processor_.LoadFromSerializedProto(file);
      return status.ok() ? "" : status.ToString();
    } catch (const std::exception& e) {
      return e.what();
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int64_t> ids_;
};

}  // namespace

std::unique_ptr<const TextModel> load_sentencepieces(const std::string& model, const std::string& where) {
  return std::make_unique<SentencePieceModel>(model, read_settings(model, where).unknown_text, where);
}

TokenizerParts read_sentencepiece(const std::filesystem::path& path) {
  const auto file = read_model_file(path);
  const auto settings = read_settings(file, path.string());
  auto model = std::make_unique<SentencePieceModel>(file, settings.unknown_text, path.string());
  const auto& processor = model->processor();
  const auto piece = [&](int id) { return id < 0 ? std::nullopt : std::optional(processor.IdToPiece(id)); };
  const SpecialTokenDefaults defaults{piece(processor.bos_id()), piece(processor.eos_id()), processor.bos_id() >= 0};

  TokenizerParts parts;
  parts.decoder = sentencepiece_decoder(settings.adds_space, settings.removes_spaces);
  for (int id = 0; id < processor.GetPieceSize(); ++id) {
    if (processor.IsControl(id)) parts.added.mark_special(id);
  }
  parts.model = std::move(model);
  read_special_tokens(path.parent_path(), defaults, parts);
  return parts;
}

}  // namespace kvc
