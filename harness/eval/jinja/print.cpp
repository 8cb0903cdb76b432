// Values as text: str(), repr() and json.dumps() of Python.
#include <unicode/uchar.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "jinja/value.h"
#include "text/utf8.h"

namespace kvc::jinja {
namespace {

using Kind = Sequence::Kind;

bool is_printable(char32_t c) {
  const auto not_printable = U_GC_C_MASK | U_GC_Z_MASK;
  return c == ' ' || !(U_GET_GC_MASK(static_cast<UChar32>(c)) & not_printable);
}

std::string hex(char32_t c, int digits) {
  std::string text(static_cast<size_t>(digits), '0');
  for (auto at = text.rbegin(); at != text.rend(); ++at, c >>= 4) *at = "0123456789abcdef"[c & 15];
  return text;
}

std::string escaped(char32_t c) {
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  return c < 0x100 ? "\\x" + hex(c, 2) : c < 0x10000 ? "\\u" + hex(c, 4) : "\\U" + hex(c, 8);
}

void add_repr(Builder& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos,
             has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  out << std::string_view(&quote, 1);
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const auto c = point.value;
    if (c == static_cast<char32_t>(quote) || c == '\\') out << "\\";
    out << (is_printable(c) ? std::string(text.substr(at, point.n_bytes)) : escaped(c));
    at += point.n_bytes;
  }
  out << std::string_view(&quote, 1);
}

void add_repr(Run& run, Builder& out, const Value& value, int& depth);

void add_entries(Run& run, Builder& out, const Dict& dict, int& depth) {
  out << "{";
  for (size_t i = 0; i < dict.entries.size(); ++i) {
    if (i) out << ", ";
    add_repr(run, out, dict.entries[i].first, depth);
    out << ": ";
    add_repr(run, out, dict.entries[i].second, depth);
  }
  out << "}";
}

void add_sequence(Run& run, Builder& out, const Sequence& sequence, int& depth) {
  KVC_CHECK(sequence.kind != Kind::generator, "a generator has no text of its own; |list makes a list of it");
  if (sequence.kind == Kind::range) return void(out << sequence.in_words);
  const bool is_tuple = sequence.kind == Kind::tuple, is_view = sequence.kind >= Kind::keys;
  if (is_view) {
    out << (sequence.kind == Kind::keys     ? "dict_keys("
            : sequence.kind == Kind::values ? "dict_values("
                                            : "dict_items(");
  }
  out << (is_tuple ? "(" : "[");
  for (size_t i = 0; i < sequence.items.size(); ++i) {
    if (i) out << ", ";
    add_repr(run, out, sequence.items[i], depth);
  }
  if (is_tuple) return void(out << (sequence.items.size() == 1 ? ",)" : ")"));
  out << (is_view ? "])" : "]");
}

void add_repr(Run& run, Builder& out, const Value& value, int& depth) {
  const Level level(depth, kMaxNesting);
  run.step();
  if (value.undefined()) return void(out << "Undefined");
  if (const auto* text = value.text()) {
    if (text->is_safe) out << "Markup(";
    add_repr(out, text->utf8);
    if (text->is_safe) out << ")";
  } else if (const auto* sequence = value.sequence()) {
    add_sequence(run, out, *sequence, depth);
  } else if (const auto* dict = value.dict()) {
    add_entries(run, out, *dict, depth);
  } else if (const auto* names = value.name_space()) {
    out << "<Namespace ";
    add_entries(run, out, *names, depth);
    out << ">";
  } else {
    KVC_CHECK(value.is_none() || value.is_number(), "a ", type_name(value), " has no text");
    out << to_text(run, value);
  }
}

void add_json(Builder& out, std::string_view text, bool is_ascii) {
  out << "\"";
  for (size_t at = 0; at < text.size();) {
    const auto point = next_code_point(text, at);
    const auto c = point.value;
    const auto* named = c == '"'    ? "\\\""
                        : c == '\\' ? "\\\\"
                        : c == '\n' ? "\\n"
                        : c == '\r' ? "\\r"
                        : c == '\t' ? "\\t"
                        : c == '\f' ? "\\f"
                        : c == '\b' ? "\\b"
                                    : nullptr;
    if (named) {
      out << named;
    } else if (c >= 0x10000 && is_ascii) {
      out << concat("\\u", hex(0xD800 + ((c - 0x10000) >> 10), 4), "\\u", hex(0xDC00 + ((c - 0x10000) & 0x3FF), 4));
    } else if (c < 0x20 || (is_ascii && c > 0x7E)) {
      out << "\\u" + hex(c, 4);
    } else {
      out << text.substr(at, point.n_bytes);
    }
    at += point.n_bytes;
  }
  out << "\"";
}

class JsonWriter {
 public:
  JsonWriter(Run& run, const JsonStyle& style) : run_(run), style_(style), out_(run) {}

  void add(const Value& value) {
    run_.step();
    if (const auto* text = value.text()) return add_json(out_, text->utf8, style_.is_ascii);
    if (const auto* dict = value.dict()) return add_dict_(*dict);
    const auto* sequence = value.sequence();
    if (sequence && sequence->kind <= Kind::tuple) return add_list_(*sequence);
    out_ << plain_(value);
  }
  std::string finish() { return out_.finish(); }

 private:
  std::string plain_(const Value& value) const {
    if (value.is_none()) return "null";
    if (value.boolean()) return *value.boolean() ? "true" : "false";
    if (value.integer()) return std::to_string(*value.integer());
    KVC_CHECK(value.real(), "an object of type ", type_name(value), " is not JSON serializable");
    const double real = *value.real();
    if (std::isnan(real)) return "NaN";
    return std::isinf(real) ? (real > 0 ? "Infinity" : "-Infinity") : real_text(real);
  }

  void new_line_() {
    if (!style_.indent) return;
    out_ << "\n";
    for (int i = 0; i < level_; ++i) out_ << *style_.indent;
  }

  void add_list_(const Sequence& list) {
    if (list.items.empty()) return void(out_ << "[]");
    out_ << "[";
    ++level_;
    for (size_t i = 0; i < list.items.size(); ++i) {
      if (i) out_ << style_.between_items;
      new_line_();
      add(list.items[i]);
    }
    --level_;
    new_line_();
    out_ << "]";
  }

  void add_dict_(const Dict& dict) {
    if (dict.entries.empty()) return void(out_ << "{}");
    auto entries = dict.entries;
    if (style_.sorts_keys) {
      std::stable_sort(entries.begin(), entries.end(),
                       [&](const auto& a, const auto& b) { return is_less(run_, a.first, b.first); });
    }
    out_ << "{";
    ++level_;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (i) out_ << style_.between_items;
      new_line_();
      const auto& key = entries[i].first;
      add_json(out_, key.text() ? key.text()->utf8 : plain_(key), style_.is_ascii);
      out_ << style_.after_key;
      add(entries[i].second);
    }
    --level_;
    new_line_();
    out_ << "}";
  }

  Run& run_;
  const JsonStyle& style_;
  Builder out_;
  int level_ = 0;
};

}  // namespace

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[64];
  const auto shortest = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific);
  const std::string_view scientific(buffer, static_cast<size_t>(shortest.ptr - buffer));
  const auto e = scientific.find('e');
  const int exponent = std::stoi(std::string(scientific.substr(e + 1)));
  if (exponent < -4 || exponent >= 16) return std::string(scientific);
  const auto fixed = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed);
  std::string text(buffer, fixed.ptr);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string to_text(Run& run, const Value& value) {
  if (value.undefined()) return "";
  if (value.is_none()) return "None";
  if (value.boolean()) return *value.boolean() ? "True" : "False";
  if (value.integer()) return std::to_string(*value.integer());
  if (value.real()) return real_text(*value.real());
  if (value.text()) return value.text()->utf8;
  return to_repr(run, value);
}

std::string to_repr(Run& run, const Value& value) {
  Builder out(run);
  int depth = 0;
  add_repr(run, out, value, depth);
  return out.finish();
}

std::string to_json(Run& run, const Value& value, const JsonStyle& style) {
  JsonWriter writer(run, style);
  writer.add(value);
  return writer.finish();
}

}  // namespace kvc::jinja
