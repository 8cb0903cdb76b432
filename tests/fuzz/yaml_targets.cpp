#include "experiment/bench_experiment.h"
#include "experiment/experiment.h"
#include "prompt/chat_form.h"
#include "prompt/model_chat.h"
#include "prompt/model_template.h"
#include "target.h"
#include "task/dataset.h"
#include "text/files.h"

namespace kvc_fuzz {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

const fs::path kSources = KVC_SOURCE_DIR;

json json_of(const YAML::Node& node) {
  if (node.IsSequence()) {
    auto list = json::array();
    for (const auto& item : node) list.push_back(json_of(item));
    return list;
  }
  if (node.IsMap()) {
    auto map = json::object();
    for (const auto& item : node) map[item.first.Scalar()] = json_of(item.second);
    return map;
  }
  if (node.IsNull()) return nullptr;
  const auto plain = node.Tag() == "?" ? json::parse(node.Scalar(), nullptr, false) : json(json::value_t::discarded);
  return plain.is_primitive() && !plain.is_discarded() ? plain : json(node.Scalar());
}

// Each file as it is, and as JSON.
std::vector<json> seeds_of(const std::vector<const char*>& files) {
  std::vector<json> seeds;
  for (const char* file : files) {
    seeds.push_back(kvc::read_file(kSources / file));
    seeds.push_back(json_of_yaml(kSources / file));
  }
  return seeds;
}

const std::vector<const char*> kExperiments = {"configs/quickstart.yaml",        "configs/bench_demo.yaml",
                                               "configs/capacity_demo.yaml",     "configs/probe_demo.yaml",
                                               "configs/compose.yaml",           "configs/papers/tada_4.yaml",
                                               "configs/papers/gear_fig2c.yaml", "configs/papers/qjl_fig2.yaml"};

std::vector<json> experiment_seeds() {
  auto seeds = seeds_of(kExperiments);
  seeds.push_back({{"name", "other"}, {"like", "like.yaml"}, {"limit", 3}, {"sizes", {4096}}});
  seeds.push_back({{"name", "other"},
                   {"like", "like.yaml"},
                   {"sampling", {{"temperature", 0.5}, {"top_k", 3}, {"top_p", 0.5}}},
                   {"weights", {{"bits", 4}, {"group_size", 64}}},
                   {"activations", {{"bits", 8}}},
                   {"smooth_quant", {{"alpha", 0.5}, {"calibration", "x"}}},
                   {"compressors", {{{"kivi", {{"bits", {2, 4}}, {"group_size", {32, 64}}}}, {"label", "{bits}"}}}}});
  return seeds;
}

void read_experiment(const fs::path& dir) {
  const auto file = dir / "x.yaml";
  const auto kind = kvc::experiment_kind(file, {});
  if (kind == kvc::RunKind::bench || kind == kvc::RunKind::capacity) {
    const auto bench = kvc::load_bench(file, {});
    promise(!bench.points.empty() || !bench.searches.empty(), "a bench without a point");
    return;
  }
  const auto experiment = kvc::load_experiment(file, {});
  promise(!experiment.tasks.empty() && !experiment.compressors.empty(), "nothing to run");
  promise(experiment.workers >= 1 && experiment.threads >= 1 && experiment.batch_size >= 0, "a count is below 1");
}

void prepare_tasks(const fs::path& dir) {
  for (const char* suite : {"demo", "gsm8k", "longbench", "mmlu", "piqa", "bbh", "lambada"}) {
    fs::copy(kSources / "tasks" / suite, dir / suite, fs::copy_options::recursive);
  }
  fs::create_directory(dir / "suite");
}

void read_task(const fs::path& dir) {
  const auto file = dir / "suite" / "x.yaml";
  const auto variants = kvc::task_variants(file);
  promise(!variants.empty(), "a task without a variant");
  const auto spec = kvc::load_task(kvc::TaskId{file, variants.front()});
  kvc::scoring_json(spec);
  kvc::data_files(spec);
  try {
    for (const auto& extract_case : spec.extract_cases) {
      const auto* extractor = kvc::find_extractor(spec, extract_case.extractor);
      promise(extractor, "a case of no extractor");
      kvc::extract_answer(*extractor, extract_case.text);
      for (const auto& gold : extract_case.gold.answers) kvc::gold_answer(*extractor, gold);
    }
  } catch (const kvc::Error& error) {  // a pattern that gives up on a text: a sample's error
    throw kvc::Error(kvc::concat(file.string(), ": ", error.what()));
  }
}

void read_chat(const fs::path& dir) {
  const auto form = kvc::load_chat_form(dir / "x.yaml");
  promise(!form.name.empty() && !form.text.empty(), "a chat format without a text");
}

// The model's own template: a file of it, or a key of tokenizer_config.json.
void write_template(const fs::path& dir, std::string text, Mutator&) {
  const bool is_json = text.starts_with("{\"");
  fs::remove(dir / (is_json ? "chat_template.jinja" : "tokenizer_config.json"));
  write_file(dir / (is_json ? "tokenizer_config.json" : "chat_template.jinja"), text);
}

void read_template(const fs::path& dir) {
  const auto chat = kvc::choose_chat_template({}, dir, kSources);
  if (!chat) return;
  try {
    kvc::render_turn(chat, "", " a \n");
    kvc::render_turn(chat, " be ", "é🙂");
  } catch (const kvc::Error& error) {  // its caller names the model
    throw kvc::Error(kvc::concat(dir.string(), ": ", error.what()));
  }
}

std::vector<json> template_seeds() {
  const std::string llama3 =
                        "{{ '<|start_header_id|>' + role + '<|end_header_id|>\n\n' + content | trim + '<|eot_id|>' }}",
                    mistral = "{% if x %}{{ '[INST] ' + content + ' [/INST]' }}{% endif %}";
  const std::string dates =
      "{%- macro say(x, y=none) -%}{{ x | upper }}{{ y or strftime_now('%d %b %Y') }}{%- endmacro -%}"
      "{%- set ns = namespace(n=0, seen=[]) -%}{%- for m in messages if m.role != 'system' -%}"
      "{%- set ns.n = ns.n + loop.index -%}{{ say(m['content'][1:-1].strip() ~ loop.last) }}"
      "{%- else -%}{{ raise_exception('none') }}{%- endfor -%}{{ ns.n // 2 }}{{ messages | tojson(indent=2) }}";
  const std::string filters =
      "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join(', ') | trim | "
      "default('x') }}"
      "{% set x %} {{ range(3) | list }} {% endset %}{{ x.split()[-1] | replace('2', 'é') }}{% call say() %}{% endcall "
      "%}";
  return {llama3,
          mistral,
          dates,
          filters,
          {{"chat_template", llama3}},
          {{"chat_template", {{{"name", "default"}, {"template", mistral}}, {{"name", "x"}, {"template", llama3}}}}}};
}

}  // namespace

json json_of_yaml(const fs::path& file) { return json_of(YAML::Load(kvc::read_file(file))); }

Target experiment_target() {
  return {"experiment",
          4,
          experiment_seeds(),
          {"name",   "kind",  "like",    "like.yaml", "compressors", "tasks",        "limit", "bench",  "capacity",
           "search", "probe", "eval",    "model",     "chain",       "rules",        "where", "layers", "0-1",
           "tensor", "phase", "default", "use",       "options",     "label",        "block", "{bits}", "group_size",
           "device", "auto",  "cuda:0",  "row",       "int8",        "smooth_quant", "sizes", "2GB",    "1e400GB",
           "&a",     "*a",    "<<: *a",  "!!int",     "? ",          "- ",           "---\n", "|\n",    "\t",
           "yes",    "~",     ".inf",    "0x7f",      "#",           "../../x",      "%YAML", "''",     "null"},
          [](const fs::path& dir) { fs::copy_file(kSources / "configs/quickstart.yaml", dir / "like.yaml"); },
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "x.yaml", text); },
          read_experiment};
}

Target task_target() {
  return {"task",
          4,
          seeds_of({"tasks/demo/truth.yaml", "tasks/gsm8k/cot8.yaml", "tasks/mmlu/five_shot.yaml",
                    "tasks/bbh/navigate.yaml", "tasks/passkey/digits.yaml", "tasks/likelihood/longbench.yaml",
                    "tasks/piqa/validation.yaml", "tasks/longbench/trec.yaml", "tasks/ruler/vt.yaml",
                    "tasks/ruler/qa_1.yaml", "tasks/ruler/niah_single_2.yaml", "tasks/ruler/cwe.yaml"}),
          {"version",    "summary",
           "data",       "file",
           "root",       "fields",
           "gold",       "pattern",
           "prompt",     "template",
           "{x}",        "{",
           "}}",         "${variant}",
           "${",         "each",
           "like",       "mmlu/zero_shot",
           "demo/truth", "suite/x",
           "steps",      "regex",
           "which",      "last",
           "group",      "any_of",
           "compare",    "exact",
           "number",     "extract_cases",
           "buckets",    "below",
           "scoring",    "haystack",
           "lengths",    "depths",
           "stop",       "(a+)+$",
           "(?R)",       "(*UTF)",
           "\\K",        "(?<=a*)b",
           "[[:x:]]",    "(a{1,999}){1,999}",
           "&a",         "*a",
           "../../x",    "null",
           "choices",    "likelihood",
           "chat",       "turn",
           "json",       "csv",
           "lines",      "columns",
           "made",       "needles",
           "units",      "tokens",
           "replace",    "$9"},
          prepare_tasks,
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "suite" / "x.yaml", text); },
          read_task};
}

Target chat_target() {
  return {"chat",
          10,
          seeds_of({"prompts/chat/llama3.yaml", "prompts/chat/mistral.yaml", "prompts/chat/qwen2.yaml"}),
          {"version", "summary", "bos", "tokens", "template", "{{", "}}", "{%", "%}", "messages", "<s>", "&a", "*a",
           "null"},
          [](const fs::path&) {},
          [](const fs::path& dir, std::string text, Mutator&) { write_file(dir / "x.yaml", text); },
          read_chat};
}

Target template_target() {
  return {"template",
          24,
          template_seeds(),
          {"chat_template",
           "name",
           "template",
           "default",
           "<|im_start|>",
           "[INST] ",
           "{%",
           "{{",
           "%}",
           "}}",
           "{%-",
           "-%}",
           "{% endif %}",
           "{% for x in messages %}",
           "{% endfor %}",
           "{% set ns.x = [ns.x] %}",
           " * 999999999",
           "**",
           "'a' * ",
           "range(",
           "|join",
           "|tojson",
           "|list",
           "|batch(",
           " is ",
           " not ",
           " if ",
           " else ",
           "[::-1]",
           "[-1:]",
           "messages",
           "ns",
           "loop",
           ".items()",
           ".split(",
           "__class__",
           "namespace(",
           "(((((((((((((((("},
          [](const fs::path&) {},
          write_template,
          read_template};
}

}  // namespace kvc_fuzz
