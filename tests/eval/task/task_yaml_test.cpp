// Files that stand for several tasks, and tasks that are like others.
#include "task/task_yaml.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "support/message_of.h"
#include "support/temp_folder.h"
#include "text/program_paths.h"

namespace kvc {
namespace {

class TaskYamlTest : public testing::Test {
 protected:
  TaskId write(const std::string& name, const std::string& text, const std::string& variant = "") {
    return {folder_.write("tasks/s/" + name + ".yaml", text), variant};
  }
  std::string message(const std::function<void()>& read) { return folder_.relative(test::message_of(read)); }
  test::TempFolder folder_;
};

const char* const kEach = R"(each:
  a: {title: first one, items: [1, 2]}
  b: {title: second, items: []}
file: data/${variant}.csv
summary: the ${title}, ${variant}
items: ${items}
)";

TEST_F(TaskYamlTest, AVariantsValuesStandInTheirPlaces) {
  EXPECT_EQ(task_variants(write("t", kEach).yaml_file), (std::vector<std::string>{"a", "b"}));
  auto task = load_task_yaml(write("t", kEach, "a"));
  EXPECT_EQ(task.required("file").string(), "data/a.csv");
  EXPECT_EQ(task.required("summary").string(), "the first one, a");
  EXPECT_EQ(task.required("items").sequence().size(), 2u);
  EXPECT_EQ(load_task_yaml(write("t", kEach, "b")).required("items").sequence().size(), 0u);
  EXPECT_EQ(write("t", kEach, "b").name(), "s/t/b");
}

TEST_F(TaskYamlTest, AValueIsPutInAsItIs) {
  auto task = load_task_yaml(write("t", "each: {a: {t: {u: '${t}'}}}\ns: ${t}\n", "a"));
  EXPECT_EQ(task.required("s").map().required_string("u"), "${t}");
}

TEST_F(TaskYamlTest, VariantsAreNamedOrRefused) {
  EXPECT_EQ(message([&] { load_task_yaml(write("t", kEach)); }),
            "tasks/s/t.yaml:2:3: error: the file defines several tasks: name one of its variants");
  EXPECT_EQ(message([&] { load_task_yaml(write("t", kEach, "c")); }),
            "tasks/s/t.yaml:2:3: error: unknown variant 'c'; known: a, b");
  EXPECT_EQ(message([&] { load_task_yaml(write("t", "x: 1\n", "c")); }),
            "tasks/s/t.yaml:1:1: error: the task has no variants, and 'c' was asked for");
  EXPECT_EQ(message([&] { load_task_yaml(write("t", "each: {a: {t: x}}\ns: '${u}'\n", "a")); }),
            "tasks/s/t.yaml:2:4: error: unknown value of the variant 'u'; known: t, variant");
  EXPECT_EQ(message([&] { load_task_yaml(write("t", "each: {a: {t: [1]}}\ns: x${t}\n", "a")); }),
            "tasks/s/t.yaml:2:4: error: '${t}' is part of a text, but its value is not text");
}

TEST_F(TaskYamlTest, ATaskTakesFromTheOneThatItIsLike) {
  write("base", "version: 1\nsummary: base\nstop: [x]\n");
  auto task = load_task_yaml(write("t", "like: s/base\nsummary: own\n"));
  EXPECT_EQ(task.required("summary").string(), "own");
  EXPECT_EQ(task.required("stop").strings(), std::vector<std::string>{"x"});
  EXPECT_FALSE(task.optional("buckets"));
  EXPECT_EQ(message([&] { task.required("data"); }), "tasks/s/t.yaml:1:1: error: missing key 'data'");
  // Its own variants may be those of another file, and choose the variant that it is like.
  write("t", kEach);
  auto other = load_task_yaml(write("u", "each: s/t\nlike: s/t/${variant}\nsummary: u ${title}\n", "b"));
  EXPECT_EQ(other.required("summary").string(), "u second");
  EXPECT_EQ(other.required("file").string(), "data/b.csv");
}

TEST_F(TaskYamlTest, ATaskOfAUserIsLikeOneThatComesWithTheProgram) {
  auto task = load_task_yaml(write("t", "like: demo/truth\nsummary: own\n"));
  EXPECT_EQ(task.required("summary").string(), "own");
  EXPECT_EQ(task.required("prompt").file(), (find_paths().root / "tasks/demo/truth.yaml").string());
  write("truth", "summary: of the same folder\n");
  EXPECT_EQ(load_task_yaml(write("u", "like: s/truth\n")).required("summary").string(), "of the same folder");
}

TEST_F(TaskYamlTest, WhatNoTaskIsLikeIsRefused) {
  EXPECT_EQ(message([&] { load_task_yaml(write("t", "like: s/none\n")); }),
            "tasks/s/t.yaml:1:7: error: like is 's/none', which is no task");
  EXPECT_NE(message([&] { load_task_yaml(write("t", "like: s/" + std::string(5000, 'x'))); }).find("which is no task"),
            std::string::npos);
  write("a", "like: s/b\n");
  EXPECT_EQ(
      message([&] { load_task_yaml(write("b", "like: s/a\n")); }).find("tasks/s/b.yaml:1:7: error: more than 4 tasks"),
      0u);
}

}  // namespace
}  // namespace kvc
