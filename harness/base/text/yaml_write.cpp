#include "text/yaml_write.h"

namespace kvc {
namespace {

void emit(YAML::Emitter& out, const YAML::Node& node) {
  if (node.IsMap()) {
    out << YAML::BeginMap;
    for (const auto& item : node) {
      out << YAML::Key;
      emit(out, item.first);
      out << YAML::Value;
      emit(out, item.second);
    }
    out << YAML::EndMap;
  } else if (node.IsSequence()) {
    out << YAML::BeginSeq;
    for (const auto& item : node) emit(out, item);
    out << YAML::EndSeq;
  } else if (node.IsScalar()) {
    if (node.Tag() == "!") out << YAML::DoubleQuoted;  // the parser's tag of quoted and block scalars
    out << node.Scalar();
  } else {
    out << YAML::Null;
  }
}

}  // namespace

std::string write_yaml(const YAML::Node& node) {
  YAML::Emitter out;
  emit(out, node);
  return std::string(out.c_str()) + "\n";
}

}  // namespace kvc
