// Templates against what jinja2 3.1.6 renders in its immutable sandbox, and against templates that mean harm.
#include "jinja/template.h"

#include <gtest/gtest.h>

#include <chrono>

#include "kvc/check.h"
#include "support/message_of.h"

namespace kvc::jinja {
namespace {

using nlohmann::ordered_json;
using test::message_of;

const ordered_json kMessages = {{{"role", "system"}, {"content", " Be brief.\n"}},
                                {{"role", "user"}, {"content", "Hi ü🙂"}}};

std::string render(const std::string& text, ordered_json variables = ordered_json::object()) {
  variables["messages"] = kMessages;
  return Template(text).render({std::move(variables), {}, parse_day("2024-07-26")});
}

std::string error(const std::string& text, const ordered_json& variables = ordered_json::object()) {
  return message_of([&] { render(text, variables); });
}

struct Case {
  std::string text, expected;
};

void expect(const std::vector<Case>& cases) {
  for (const auto& [text, expected] : cases) EXPECT_EQ(render(text), expected) << text;
}

TEST(Template, DropsWhitespaceAsTrimBlocksAndLstripBlocksDo) {
  expect({{"a\n  {% if true %}\nb\n  {% endif %}\nc\n", "a\nb\nc"},
          {"a\n  {%+ if true %}\nb{% endif +%}\nc", "a\n  b\nc"},
          {"a {%- if true -%} \n b {%- endif -%} \n c", "abc"},
          {"  {{ 1 }}\n", "  1"},
          {"a\n {# c #}\nb", "a\nb"},
          {"a\n {#- c -#} \n b", "ab"},
          {"a\r\nb\rc\n\n", "a\nb\nc\n"},
          {"{% raw %}\n {{ x }} {% endif %}\n{% endraw %}\nb", "\n {{ x }} {% endif %}\nb"},
          {"x {%- raw -%} {{ 1 }} {%- endraw -%} y", "x{{ 1 }}y"},
          {"\xE3\x80\x80{%- set a = 1 -%}\xC2\xA0z", "z"}});
}

TEST(Template, CountsCodePointsNotBytes) {
  expect({{"{{ messages[1].content|length }}", "5"},
          {"{{ messages[1].content[3:] }}|{{ messages[1].content[-1] }}|{{ messages[1].content[::-1] }}",
           "ü🙂|🙂|🙂ü iH"},
          {"{{ 'ßa'.upper() }}{{ 'ǆ'.title() }}{{ 'ΑΣ'.lower() }}", "SSAǅας"},
          {"{{ '\\u3000 é '.strip() }}{{ 'ééa'.strip('é') }}{{ 'aéb'.find('b') }}", "éa2"},
          {"{{ ['é\\n', \"it's\"] }}", "['é\\n', \"it's\"]"},
          {"{{ 'é🙂<'|tojson }}{{ 'é🙂'|tojson(ensure_ascii=true) }}", "\"é🙂<\"\"\\u00e9\\ud83d\\ude42\""}});
}

TEST(Template, CalculatesAndPrintsAsPython) {
  expect({{"{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }} {{ 2 ** 3 ** 2 }}",
           "-4 2 -2 3.5 1024 4 64"},
          {"{{ 1e16 }} {{ 1e15 }} {{ 0.1 + 0.2 }} {{ 1e-5 }} {{ 100 / 3 }} {{ 2.0 }}",
           "1e+16 1000000000000000.0 0.30000000000000004 1e-05 33.333333333333336 2.0"},
          {"{{ none }} {{ true }} {{ [1, 'a', none] }} {{ (1,) }} {{ {'a': true} }} {{ missing }}|",
           "None True [1, 'a', None] (1,) {'a': True} |"},
          {"{{ 1 < 2 < 3 }} {{ 1 == 1.0 }} {{ 'a' in 'abc' }} {{ 'a' not in ['a'] }} {{ [1] == (1,) }}",
           "True True True False False"},
          {"{{ 1 ~ 2 ~ none }} {{ 'a' * 3 }} {{ 'b' if false }}|{{ 'x' or 'y' }}{{ '' and 'z' }}", "12None aaa |x"},
          {"{{ 2.5|round }} {{ 3.14159|round(2) }} {{ '3.9'|int }} {{ 'x'|int(5) }} {{ 7|float }}", "2.0 3.14 3 5 7.0"},
          {"{{ {'b': 1, 'a': [1.0, none]}|tojson }} {{ [1, {'a': 2}]|tojson(indent=2) }}",
           "{\"b\": 1, \"a\": [1.0, null]} [\n  1,\n  {\n    \"a\": 2\n  }\n]"}});
}

TEST(Template, SetsNamesWhereJinjaDoes) {
  expect({{"{% set x = 1 %}{% for i in [1, 2] %}{% set x = i + 5 %}{{ x }}{% endfor %}{{ x }}", "671"},
          {"{% if true %}{% set x = 1 %}{% endif %}{{ x }}", "1"},
          {"{% set ns = namespace(n=0) %}{% for i in range(4) %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}", "6"},
          {"{% set a, b = 1, 'x' %}{% set c %}<{{ a }}{{ b }}>{% endset %}{{ c }}{{ c|length }}", "<1x>4"},
          {"{% macro m(x, y=2) %}[{{ x }}{{ y }}{{ z }}]{% endmacro %}{% set z = 3 %}{{ m(1) }}{{ m(y='b', x='a') }}",
           "[123][ab3]"},
          {"{% macro m() %}<{{ caller('q') }}>{% endmacro %}{% call(v) m() %}{{ v }}!{% endcall %}", "<q!>"},
          {"{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{{ loop.last }}{% endfor %}", "a1True"},
          {"{% for i in [1, 2, 3] if i != 2 %}{{ loop.index }}:{{ i }}/{{ loop.length }} {% else %}none{% endfor %}",
           "1:1/2 2:3/2 "},
          {"{% for i in [] %}{% else %}none{% endfor %}{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ "
           "i }}{% endfor %}",
           "none1"},
          {"{% for m in messages %}{{ loop.previtem.role if loop.previtem is defined }}>{{ m['role'] }}{% endfor %}",
           ">systemsystem>user"},
          {"{% generation %}{% set q = 1 %}a{% endgeneration %}{{ q }}|", "a|"},
          {"{% set x = [1, 2]|select('odd') %}{% if x %}{{ x|list }}{{ x|list }}{% endif %}", "[1][]"}});
}

TEST(Template, KnowsTheDayThatItIsTold) {
  EXPECT_EQ(render("{{ strftime_now('%d %b %Y, %A %-d %f%Z') }}"), "26 Jul 2024, Friday 26 000000");
  EXPECT_EQ(message_of([] { parse_day("2023-02-29"); }), "the date is '2023-02-29', expected a day as 2024-07-26");
  for (const char* day : {"", "2024-7-26", "2024-07-26 ", "2024-13-01", "+024-07-26", "2024-00-10"}) {
    EXPECT_NE(message_of([&] { parse_day(day); }), "no error") << day;
  }
}

TEST(Template, RefusesByNameAndLineWhatItDoesNotKnow) {
  const std::vector<Case> cases = {
      {"a\n{% include 'x' %}", "line 2: {% include %} is not supported"},
      {"{% import 'x' as y %}", "line 1: {% import %} is not supported"},
      {"{% extends 'x' %}", "line 1: {% extends %} is not supported"},
      {"{% for i in x recursive %}{% endfor %}", "line 1: {% for ... recursive %} is not supported"},
      {"\n\n{{ 1|pprint }}", "line 3: the filter 'pprint' is not supported"},
      {"{{ ''.__class__ }}", "line 1: the attribute '__class__' of a value of type str is not supported"},
      {"{{ ''['__class__'] }}", "line 1: the attribute '__class__' of a value of type str is not supported"},
      {"{{ messages.append(1) }}", "line 1: the attribute 'append' of a value of type list is not supported"},
      {"{{ 'a'.format(1) }}", "line 1: the attribute 'format' of a value of type str is not supported"},
      {"{{ cycler(1) }}", "line 1: the function 'cycler' is not supported"},
      {"{{ open('/etc/passwd') }}", "line 1: 'open' is undefined"},
      {"\n{{ raise_exception('no\nsystem role') }}", "line 2: the template says: no system role"},
      {"{{ missing.a }}", "line 1: 'missing' is undefined"},
      {"{{ messages[0].x.y }}", "line 1: a value of type dict has no attribute 'x'"},
      {"{% set messages.x = 1 %}", "line 1: 'messages.x' is set, and 'messages' is no namespace"}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(error(text), expected) << text;
  EXPECT_EQ(error("{{ 1|trimm }}").substr(0, 54), "line 1: unknown filter 'trimm' (did you mean 'trim'?);");
  EXPECT_EQ(error("{{ 1 is defind }}").substr(0, 56), "line 1: unknown test 'defind' (did you mean 'defined'?);");
  EXPECT_EQ(error("{% unless x %}").substr(0, 29), "line 1: unknown tag 'unless';");
}

// As in Jinja, which defers unknown names in a branch to run time, but rejects those in a loop inside the branch.
TEST(Template, AnUnknownFilterOrTestInABranchFailsWhereItIsReached) {
  EXPECT_EQ(render("a{% if no %}{{ 1|from_json }}{% elif 1 is odd %}b{% else %}{{ 1 is jsonic }}{% endif %}"), "ab");
  EXPECT_EQ(render("{{ 1|from_json if no else 2 }}"), "2");
  EXPECT_EQ(error("{% if true %}\n{{ 1|from_json }}{% endif %}").substr(0, 35), "line 2: unknown filter 'from_json' ");
  for (const auto* text :
       {"{% if no %}{% for x in [1] %}{{ x|from_json }}{% endfor %}{% endif %}",
        "{% macro f(x) %}{{ x|from_json }}{% endmacro %}", "{% set x %}{{ 1|from_json }}{% endset %}",
        "{% if no %}{% with x = 1 %}{{ x|from_json }}{% endwith %}{% endif %}"}) {
    EXPECT_EQ(error(text).substr(0, 34), "line 1: unknown filter 'from_json'") << text;
  }
}

TEST(Template, RefusesBrokenText) {
  for (const char* text : {"{{",
                           "{{ 1",
                           "{% if",
                           "{% if x %}",
                           "{% endif %}",
                           "{{ 'a }}",
                           "{# a",
                           "{% raw %}",
                           "{{ (1 }}",
                           "{{ 1) }}",
                           "{{ [1 }}",
                           "{{ {1} }}",
                           "{{ }}",
                           "{% for %}",
                           "{% for a b %}",
                           "{% set %}",
                           "{% set 1 = 2 %}",
                           "{{ x. }}",
                           "{{ x[] }}",
                           "{{ 1 is }}",
                           "{{ f(a=1, 2) }}",
                           "{% macro m(a=1, b) %}{% endmacro %}",
                           "{% break %}",
                           "{{ '\\x4' }}",
                           "{{ '\\ud83d' }}",
                           "{{ 99999999999999999999 }}",
                           "{{ ? }}",
                           "\xFF",
                           "{% call x %}{% endcall %}",
                           "{% set none = 1 %}",
                           "{{ 1 is defined is none }}"}) {
    const auto message = error(text);
    EXPECT_NE(message, "no error") << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

std::string repeated(const std::string& text, size_t n) {
  std::string all;
  for (size_t i = 0; i < n; ++i) all += text;
  return all;
}

// Each takes one line to refuse, and neither time nor memory.
TEST(HostileTemplate, IsRefusedSoon) {
  const std::string loop9 = "{% for i in range(99999) %}";
  const std::vector<std::string> texts = {
      "{{ 'a' * 10 ** 12 }}",
      "{{ 'a' * 9223372036854775807 }}",
      "{{ [1] * 10 ** 9 }}",
      "{{ range(10 ** 9) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{{ 10 ** 1000 }}",
      "{{ 9223372036854775807 + 1 }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      loop9 + loop9 + "{{ i }}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(x) %}{{ m(x ~ x) }}{% endmacro %}{{ m('ab') }}",
      "{% set ns = namespace(x='a') %}" + loop9 + "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}" + loop9 + "{% set ns.x = [ns.x] %}{% endfor %}",
      "{% set ns = namespace(x={}) %}" + loop9 + "{% set ns.x = {'a': ns.x.get} %}{% endfor %}",
      "{% set ns = namespace(x=[]) %}" + loop9 + "{% for j in [ns.x] %}{% set ns.x = loop %}{% endfor %}{% endfor %}",
      "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns }}",
      "{% set x = [] %}" + repeated("{% set x = [x, x] %}", 60) + "{{ x }}",
      "{% set x = [] %}{% set y = [] %}" + repeated("{% set x = [x, x] %}{% set y = [y, y] %}", 60) + "{{ x == y }}",
      repeated("{{ (", 1) + repeated("(", 5000) + "1" + repeated(")", 5000) + " }}",
      "{{ " + repeated("[", 5000) + repeated("]", 5000) + " }}",
      "{{ " + repeated("not ", 5000) + "1 }}",
      "{{ " + repeated("-", 5000) + "1 }}",
      "{{ 1" + repeated(" + 1", 5000) + " }}",
      "{{ x" + repeated(".a", 5000) + " }}",
      "{{ 1" + repeated("|abs", 5000) + " }}",
      "{{ 1" + repeated(" if 1 else 1", 5000) + " }}",
      repeated("{% if 1 %}", 5000),
      "{% if 1 %}" + repeated("{% elif 1 %}", 5000) + "{% endif %}",
      "{{ ('a' * 1000000).rfind('b' + 'a' * 500000) }}" + loop9 + "{{ ('a' * 100000).find('b') }}{% endfor %}",
      "{{ ('a' * 1000000).replace('a', 'b' * 1000000) }}",
      "{{ ('a' * 1000000)|indent(1000000) ~ ('\n' * 1000000)|indent(1000000, true, true) }}",
      "{{ ''.center(10 ** 12) }}",
      "{{ [1]|batch(10 ** 12, 1)|list }}",
      "{{ [1]|tojson(indent=10 ** 12) }}",
      "{{ strftime_now('%c' * 1000000) }}",
      "{{ strftime_now('%999999999d') }}",
      loop9 + "{{ range(99999) }}{% endfor %}"};
  for (const auto& text : texts) {
    const auto begin = std::chrono::steady_clock::now();
    const auto message = error(text);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    EXPECT_NE(message, "no error") << text.substr(0, 80);
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    EXPECT_LT(message.size(), 300u) << message;
    EXPECT_LT(seconds.count(), 20) << text.substr(0, 80);
  }
}

TEST(HostileTemplate, MayHoldItself) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.a = ns %}{% set ns.b = [ns] %}{{ ns.a.a.b|length }}"), "1");
  EXPECT_EQ(render("{% for i in [1, 2] %}{{ loop.changed(loop) }}{% endfor %}"), "TrueFalse");
  EXPECT_EQ(render("{% macro a() %}x{% endmacro %}{% set ns = namespace(m=a) %}{{ ns.m() }}"), "x");
}

TEST(HostileTemplate, LeavesRoomForLongPrompts) {
  const std::string content = repeated("word é\n", 600'000);  // 4.8 MB
  ordered_json variables{{"content", content}};
  EXPECT_EQ(render("{{ content.split('</think>')[-1].strip() ~ '' }}{{ content|trim|length > 1 }}", variables),
            content.substr(0, content.size() - 1) + "True");
}

}  // namespace
}  // namespace kvc::jinja
