#include "jinja/template.h"

#include <charconv>

#include "jinja/evaluator.h"
#include "jinja/parser.h"
#include "text/message.h"
#include "text/utf8.h"

namespace kvc::jinja {

struct Template::Tree {
  Nodes nodes;
};

Template::Template(std::string source) : source_(std::move(source)) {
  check_utf8(source_, "the template");
  try {
    tree_ = std::make_unique<Tree>(Tree{Parser(source_).read()});
  } catch (const Error& e) {
    throw Error(in_one_line(e.what()));  // which may hold a name of any length
  }
}

Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

std::string Template::render(const Given& given) const {
  size_t n_input = source_.size();
  for (const auto& [name, value] : given.variables.items())
    n_input += value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).size();
  Run run(static_cast<int64_t>(n_input));
  try {
    Evaluator evaluator(run, given);
    return evaluator.render(tree_->nodes);
  } catch (const Error& e) {
    throw Error(in_one_line(concat("line ", run.line, ": ", e.what())));
  }
}

Day parse_day(const std::string& text) {
  Day day;
  const auto number = [&](size_t at, size_t n, int& value) {
    if (text.find_first_not_of("0123456789", at) < at + n) return false;
    return std::from_chars(text.data() + at, text.data() + at + n, value).ptr == text.data() + at + n;
  };
  const bool has_form = text.size() == 10 && text[4] == '-' && text[7] == '-' && number(0, 4, day.year) &&
                        number(5, 2, day.month) && number(8, 2, day.day);
  const bool is_leap = (day.year % 4 == 0 && day.year % 100 != 0) || day.year % 400 == 0;
  const int n_days[] = {31, is_leap ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool is_day = has_form && day.year >= 1900 && day.month >= 1 && day.month <= 12 && day.day >= 1 &&
                      day.day <= n_days[day.month - 1];
  KVC_CHECK(is_day, "the date is ", in_quotes(text), ", expected a day as 2024-07-26");
  return day;
}

}  // namespace kvc::jinja
