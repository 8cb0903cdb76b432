// The host's two visits of a plugin's options: to describe them, and to assign them from JSON.
#pragma once

#include "plugin_loader/plugin_library.h"

namespace kvc {

// Collects what the plugin says of each option; changes nothing.
class OptionDescriber final : public OptionVisitor {
 public:
  std::vector<OptionDescription> descriptions;

  void integer(const char* name, int64_t& value, int64_t min, int64_t max, const char* help) override;
  void integer_of(const char* name, int64_t& value, std::initializer_list<int64_t> allowed, const char* help) override;
  void real(const char* name, double& value, double min, double max, const char* help) override;
  void boolean(const char* name, bool& value, const char* help) override;
  void choice(const char* name, std::string& value, std::initializer_list<const char*> allowed,
              const char* help) override;
  void integers_of(const char* name, std::vector<int64_t>& value, std::initializer_list<int64_t> allowed,
                   const char* help) override;
  void file(const char* name, std::string& value, std::initializer_list<const char*> words, const char* help) override;
};

// Assigns each option that `given` names, after checking type and range, and records every option in `resolved`.
class OptionAssigner final : public OptionVisitor {
 public:
  OptionAssigner(std::string plugin, const nlohmann::json& given) : plugin_(std::move(plugin)), given_(given) {}
  nlohmann::json resolved = nlohmann::json::object();

  void integer(const char* name, int64_t& value, int64_t min, int64_t max, const char* help) override;
  void integer_of(const char* name, int64_t& value, std::initializer_list<int64_t> allowed, const char* help) override;
  void real(const char* name, double& value, double min, double max, const char* help) override;
  void boolean(const char* name, bool& value, const char* help) override;
  void choice(const char* name, std::string& value, std::initializer_list<const char*> allowed,
              const char* help) override;
  void integers_of(const char* name, std::vector<int64_t>& value, std::initializer_list<int64_t> allowed,
                   const char* help) override;
  void file(const char* name, std::string& value, std::initializer_list<const char*> words, const char* help) override;

 private:
  // Throws unless the given value passes; `allowed` completes the sentence.
  void check(bool passes, const char* name, const std::string& allowed) const;

  std::string plugin_;
  const nlohmann::json& given_;
};

// Takes the files that `options` names relative to `folder`; whether they are there is the assigner's to say.
class OptionFilePlacer final : public OptionVisitor {
 public:
  OptionFilePlacer(std::filesystem::path folder, nlohmann::json& options)
      : folder_(std::move(folder)), options_(options) {}

  void integer(const char*, int64_t&, int64_t, int64_t, const char*) override {}
  void integer_of(const char*, int64_t&, std::initializer_list<int64_t>, const char*) override {}
  void real(const char*, double&, double, double, const char*) override {}
  void boolean(const char*, bool&, const char*) override {}
  void choice(const char*, std::string&, std::initializer_list<const char*>, const char*) override {}
  void integers_of(const char*, std::vector<int64_t>&, std::initializer_list<int64_t>, const char*) override {}
  void file(const char* name, std::string& value, std::initializer_list<const char*> words, const char* help) override;
  void place(const std::string& name, const std::vector<std::string>& words);

 private:
  std::filesystem::path folder_;
  nlohmann::json& options_;
};

}  // namespace kvc
