#include "worker/worker.h"

#include <ATen/Parallel.h>
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "checkpoint/safetensors.h"
#include "contract/stopwatch.h"
#include "generate/exact_cache.h"
#include "generate/generator.h"
#include "hosted/host_process.h"
#include "kvc/plugin.h"
#include "plugin_loader/build_compressor.h"
#include "probe/probe.h"
#include "sandbox/host_state.h"
#include "sandbox/ledger.h"
#include "sandbox/thrown.h"
#include "text/message.h"
#include "wire/worker_process.h"
#include "worker/admission.h"
#include "worker/bench_worker.h"
#include "worker/cache_size.h"
#include "worker/job_result.h"
#include "worker/load_model.h"

namespace kvc {
namespace {

constexpr double kMemoryForKv = 0.8;  // of what is free once the weights are there
constexpr double kTellSeconds = 0.2;  // between two words of how far it is

// What stays for the life of the process, and the jobs under way.
class Worker {
 public:
  Worker(const WorkerSetUp& set_up, WorkerChannel& channel)
      : channel_(channel),
        set_up_(set_up),
        model_(load_model(set_up.model_path, set_up.dtype, set_up.weights, set_up.devices, set_up.quantization)),
        tokenizer_(Tokenizer::load(set_up.model_path)),
        generator_(model_, tokenizer_, meter_, set_up.share_prefix),
        probe_(model_, tokenizer_, meter_),
        admission_(set_up.batch_size,
                   static_cast<int64_t>(kMemoryForKv * static_cast<double>(available_cache_bytes(set_up.devices)) /
                                        static_cast<double>(set_up.n_workers))) {
    ledger::set_limit(available_memory_bytes() / set_up.n_workers);
    HostProcess::set_patience(set_up.patience);
    HostProcess::set_memory_limit(available_memory_bytes() / set_up.n_workers);
    for (const auto* written : {&set_up.compressors, &set_up.references}) {
      for (const auto& one : *written) check_plugin_files(one);
    }
    compressors_.resize(set_up.compressors.size());
    references_.resize(set_up.references.size());
    generator_.on_entering([this](int64_t ticket, int i) {
      const Job* job = entered_job(ticket);
      channel_.enter(i < 0 || !job ? -1 : job->compressors[static_cast<size_t>(i)]);
      if (i >= 0 && starting_) tell_prefill();
    });
    probe_.on_entering([this](int i) { channel_.enter(i < 0 ? -1 : starting_->compressors[static_cast<size_t>(i)]); });
  }

  // Takes jobs as there is room for them, until the parent closes the channel.
  void serve() {
    bool asked = true;  // the parent gives the first job unasked
    while (true) {
      if (!asked && has_room()) {
        channel_.send({{"more", true}});
        asked = true;
      }
      if (const bool idle = generator_.n_sequences() == 0; idle || channel_.has_message()) {
        const auto message = channel_.receive();
        if (!message) return;
        asked = false;
        if (message->contains("use")) {
          use(message->get<OtherCompressors>());
          continue;
        }
        take(message->get<Job>());
      }
      for (auto& finished : generator_.step()) answer(finished);
      if (seconds_since(last_told_) > kTellSeconds) tell({});
    }
  }

 private:
  // A job, and the sequences of each of its compressors that have ended.
  struct ActiveJob {
    Job job;
    int64_t prompt_tokens = 0, final_tokens = 0;            // of the longest sequence
    size_t n_sequences = 0;                                 // of each compressor
    std::vector<std::vector<PlacedGeneration>> ended = {};  // by compressor
    size_t n_left = 0;                                      // compressors that have not answered
    HostProcess::Deaths deaths = HostProcess::deaths();     // when it began
  };
  struct Ticket {
    int64_t job;
    size_t prompt;  // index into its prompts
  };

  // How far all sequences are, and what is said of a prefill.
  void tell(WorkerAt at) {
    std::map<std::pair<int64_t, int>, size_t> places;
    for (const auto& sequence : generator_.under_way()) {
      const auto ticket = tickets_.find(sequence.ticket);
      if (ticket == tickets_.end() || !active_.contains(ticket->second.job)) continue;
      const auto& active = active_.at(ticket->second.job);
      const int compressor = active.job.compressors[static_cast<size_t>(sequence.compressor)];
      const auto [place, is_new] = places.emplace(std::pair(ticket->second.job, compressor), at.answers.size());
      if (is_new) {
        at.answers.push_back({ticket->second.job, compressor, 0, 0});
        for (const auto& ended : active.ended[static_cast<size_t>(sequence.compressor)]) {
          const auto& out = ended.generation;
          at.answers.back().n_new_tokens += static_cast<int64_t>(out.ids.size());
          at.answers.back().seconds += out.encode_seconds + out.attend_seconds + out.other_seconds;
        }
      }
      at.answers[place->second].n_new_tokens += sequence.n_new_tokens;
      at.answers[place->second].seconds += sequence.seconds;
    }
    channel_.send({{"at", at}});
    last_told_ = Clock::now();
  }

  // A layer more of a prompt has gone to a sequence.
  void tell_prefill() {
    ++prefill_.n_calls;
    if (seconds_since(last_told_) < kTellSeconds) return;
    WorkerAt at;
    at.job = starting_->id, at.n_tokens = prefill_.n_tokens;
    at.prefilled = static_cast<double>(prefill_.n_calls) / static_cast<double>(prefill_.n_calls_in_all);
    at.prefill_seconds = seconds_since(prefill_.start);
    tell(std::move(at));
  }

  void begin_prefill(const std::vector<GenerationRequest>& requests) {
    prefill_ = {};
    prefill_.start = Clock::now();
    for (const auto& request : requests) {
      const auto n_sequences = request.compressors.size() * std::max<size_t>(1, request.continuations.size());
      prefill_.n_calls_in_all += model_.shape().n_layers * static_cast<int64_t>(n_sequences);
      prefill_.n_tokens += static_cast<int64_t>(request.prompt_ids.size()) - request.n_question_tokens;
    }
  }

  // Once a job's prompts are computed: what each took, prefix or not.
  void tell_prefilled(const Job& job) {
    WorkerAt at;
    at.job = job.id, at.prefilled = 1;
    std::set<int64_t> seen;
    for (const auto& sequence : generator_.under_way()) {
      const auto ticket = tickets_.find(sequence.ticket);
      if (ticket == tickets_.end() || ticket->second.job != job.id || !seen.insert(sequence.ticket).second) continue;
      at.n_tokens += sequence.n_prefilled;
      at.prefill_seconds += sequence.prefill_seconds;
    }
    tell(std::move(at));
  }

  std::vector<std::unique_ptr<Compressor>> build_all(const std::vector<CompressorChoice>& written) {
    std::vector<std::unique_ptr<Compressor>> built;
    for (const auto& one : written) built.push_back(build(one));
    return built;
  }

  std::unique_ptr<Compressor> build(const CompressorChoice& written) {
    if (written.kind == CompressorChoice::Kind::exact) return std::make_unique<ExactCompressor>();
    auto part = build_compressor(written, model_.shape()).part;
    keep_all_.erase(part.compressor.get());  // one that is gone may have had its place
    if (!part.capabilities.evicts) keep_all_.insert(part.compressor.get());
    return std::move(part.compressor);
  }

  // Where a job first asks for it, as that compressor's code: what a plugin does there costs its own cells, as later.
  // -> why it could not be made; or nothing
  std::string make(const CompressorChoice& written, int i, std::unique_ptr<Compressor>& made) {
    if (made) return "";
    std::string error;
    const HostState before;
    channel_.enter(i);
    try {
      made = build(written);
    } catch (...) {
      error = thrown();
    }
    const auto changed = before.put_back();
    channel_.enter(-1);
    if (error.empty() && !changed.empty()) {
      made.reset();
      error = concat("the compressor left ", changed, " changed when it was made");
    }
    return error;
  }

  void take(Job job) {
    if (const auto* sizes = std::get_if<SizesJob>(&job.asked)) return measure(job, *sizes);  // it makes its own
    std::string of_reference;
    if (const auto* scored = std::get_if<LikelihoodJob>(&job.asked); scored && scored->reference >= 0) {
      const auto i = static_cast<size_t>(scored->reference);
      of_reference = make(set_up_.references.at(i), -1, references_.at(i));
    }
    std::erase_if(job.compressors, [&](int i) {
      const auto at = static_cast<size_t>(i);
      const auto error = of_reference.empty() ? make(set_up_.compressors.at(at), i, compressors_.at(at)) : of_reference;
      if (!error.empty()) send_failed(job.id, i, error);
      return !error.empty();
    });
    if (job.compressors.empty()) {
      channel_.send({{"done", job.id}});
    } else if (const auto* asked = std::get_if<ProbeJob>(&job.asked)) {
      probe(job, *asked);
    } else {
      start(job);
    }
  }

  void send_failed(int64_t job, int compressor, const std::string& error) {
    channel_.send(JobResult{job, compressor, FailedResult{error}});
  }

  // Says of a failure whether a compressor's own process died in the meantime, which may be why.
  static void note_deaths(const HostProcess::Deaths& before, JobResult& result) {
    auto* failed = std::get_if<FailedResult>(&result.answer);
    const auto now = HostProcess::deaths();
    if (!failed || now.n == before.n) return;
    failed->process = now.n_stuck > before.n_stuck ? FailedResult::Process::stuck : FailedResult::Process::died;
  }

  // The parent sends it when all jobs are done.
  void use(const OtherCompressors& others) {
    try {
      auto built = build_all(others.use);
      for (const auto& compressor : built) compressor->check_model(model_.shape());
      compressors_ = std::move(built);
      set_up_.compressors = others.use;
      channel_.send({{"ready", true}});
    } catch (const std::exception& e) {
      channel_.send({{"ready", false}, {"error", said_by(e)}});
    }
  }

  // A job's prefill runs before its ticket is known; null for a job that has failed.
  const Job* entered_job(int64_t ticket) const {
    const auto found = tickets_.find(ticket);
    if (found == tickets_.end()) return starting_;
    const auto active = active_.find(found->second.job);
    return active == active_.end() ? starting_ : &active->second.job;
  }

  // For another job like the last.
  bool has_room() const {
    Admission::Prompt next;
    Admission::Batch running{.n_sequences = generator_.n_sequences(), .kv_bytes = generator_.kv_bytes()};
    for (const auto& [id, active] : active_) {
      const auto n_each = static_cast<int64_t>(active.n_sequences);
      const auto n_left = n_each * static_cast<int64_t>(active.n_left);
      next.n_sequences = n_each * static_cast<int64_t>(active.job.compressors.size());
      next.final_tokens = next.n_sequences * active.final_tokens;
      running.final_tokens += n_left * active.final_tokens;
      running.cached_tokens += n_left * active.prompt_tokens;
    }
    return admission_.admits(next, running);
  }

  std::vector<const Compressor*> compressors_of(const Job& job) const {
    std::vector<const Compressor*> compressors;
    for (const int i : job.compressors) compressors.push_back(compressors_.at(static_cast<size_t>(i)).get());
    return compressors;
  }

  StopRule with_own_ends(StopRule rule) const {
    const auto& own = model_.config().eos_token_ids;
    rule.eos_ids.insert(rule.eos_ids.begin(), own.begin(), own.end());
    return rule;
  }

  // One for each of its prompts.
  std::vector<GenerationRequest> requests_of(const Job& job) const {
    std::vector<GenerationRequest> requests;
    const auto add = [&](const TokenPrompt& prompt) -> GenerationRequest& {
      auto& request = requests.emplace_back();
      static_cast<TokenPrompt&>(request) = prompt;
      request.compressors = compressors_of(job);
      request.keep_all = keep_all_;
      request.prefill = set_up_.prefill;
      request.sequence_key = job.sequence_key;
      return request;
    };
    if (const auto* asked = std::get_if<GenerateJob>(&job.asked)) {
      auto& request = add(asked->prompt);
      request.stop = with_own_ends(asked->stop);
      if (!asked->greedy) request.sampling = set_up_.sampling;
      return requests;
    }
    const auto& scored = std::get<LikelihoodJob>(job.asked);
    for (const auto& prompt : scored.prompts) {
      auto& request = add(prompt);
      if (scored.reference >= 0) request.reference = references_.at(static_cast<size_t>(scored.reference)).get();
    }
    return requests;
  }

  void start(const Job& job) {
    starting_ = &job;
    ActiveJob active{.job = job,
                     .ended = std::vector<std::vector<PlacedGeneration>>(job.compressors.size()),
                     .n_left = job.compressors.size()};
    std::vector<int64_t> tickets;
    try {
      auto requests = requests_of(job);
      begin_prefill(requests);
      for (auto& request : requests) {
        const auto n_prompt = static_cast<int64_t>(request.prompt_ids.size());
        auto longest = request.continuations.empty() ? request.stop.max_new_tokens : 0;
        for (const auto& ids : request.continuations) longest = std::max(longest, static_cast<int64_t>(ids.size()));
        active.prompt_tokens = std::max(active.prompt_tokens, n_prompt);
        active.final_tokens = std::max(active.final_tokens, n_prompt + longest);
        active.n_sequences += std::max<size_t>(1, request.continuations.size());
        tickets.push_back(generator_.add(std::move(request)));
        tickets_[tickets.back()] = {job.id, tickets.size() - 1};
      }
      active_.emplace(job.id, std::move(active));
      tell_prefilled(job);
    } catch (const std::exception& e) {  // the prompt's fault or the model's: it fails for all
      for (const int64_t ticket : tickets) tickets_.erase(ticket);  // their answers are discarded
      for (const int i : job.compressors) send_failed(job.id, i, said_by(e));
      channel_.send({{"done", job.id}});
    }
    starting_ = nullptr;
  }

  // To its end at once: a probe holds more than its caches, so nothing runs concurrently.
  void probe(const Job& job, const ProbeJob& asked) {
    starting_ = &job;
    const auto start = Clock::now();
    const auto deaths = HostProcess::deaths();
    try {
      auto probed =
          probe_.run({asked.prompt_ids, asked.answer_ids, compressors_of(job), job.sequence_key,
                      with_own_ends(asked.stop), set_up_.sampling, asked.settings, !asked.dump.empty(), keep_all_});
      std::vector<JobResult> results;  // told when all dumps are written
      for (size_t i = 0; i < probed.size(); ++i) {
        auto& [error, values, dump] = probed[i];
        auto& result = results.emplace_back(JobResult{job.id, job.compressors[i], ProbeResult{std::move(values)}});
        if (!error.empty()) {
          result.answer = FailedResult{error};
        } else if (!dump.empty()) {
          write_safetensors(concat(asked.dump, "-", job.compressors[i], ".safetensors"), dump);
        }
      }
      for (auto& result : results) {
        note_deaths(deaths, result);
        channel_.send(result);
      }
    } catch (const std::exception& e) {  // the prompt's fault, the model's or the disk's: it fails for all
      for (const int i : job.compressors) send_failed(job.id, i, said_by(e));
    }
    WorkerAt at;  // its compressors' memory besides the prompt counts as the prompt's
    at.job = job.id, at.prefilled = 1;
    at.n_tokens = static_cast<int64_t>(asked.prompt_ids.size()), at.prefill_seconds = seconds_since(start);
    tell(std::move(at));
    channel_.send({{"done", job.id}});
    starting_ = nullptr;
  }

  // No sequence is under way. The compressor is made again: what it holds itself is a size, too.
  void measure(const Job& job, const SizesJob& asked) {
    for (const int i : job.compressors) {
      channel_.enter(i);
      if (!likely_) likely_.emplace(model_);
      auto sizes = measure_sizes([&] { return build(set_up_.compressors.at(static_cast<size_t>(i))); }, model_,
                                 *likely_, asked.n_tokens, meter_,
                                 {job.sequence_key, [&](const auto& made) { return !keep_all_.contains(&made); }});
      channel_.enter(-1);
      channel_.send(JobResult{job.id, i, SizesResult{std::move(sizes)}});
    }
    channel_.send({{"done", job.id}});
  }

  void answer(Finished& finished) {
    const auto ticket = tickets_.find(finished.ticket);
    if (ticket == tickets_.end()) return;
    auto& active = active_.at(ticket->second.job);
    auto& ended = active.ended[finished.compressor];
    ended.push_back({ticket->second.prompt, finished.continuation, std::move(finished.generation)});
    if (ended.size() < active.n_sequences) return;
    const int compressor = active.job.compressors[finished.compressor];
    auto result = job_result(active.job, compressor, *compressors_[static_cast<size_t>(compressor)], model_, ended);
    note_deaths(active.deaths, result);
    channel_.send(result);
    ended.clear();
    if (--active.n_left > 0) return;
    channel_.send({{"done", active.job.id}});
    const int64_t job = active.job.id;
    std::erase_if(tickets_, [&](const auto& entry) { return entry.second.job == job; });
    active_.erase(job);
  }

  WorkerChannel& channel_;
  WorkerSetUp set_up_;
  MemoryMeter meter_;  // before the model: its weights are charged to it
  Transformer model_;
  Tokenizer tokenizer_;
  std::vector<std::unique_ptr<Compressor>> compressors_, references_;  // outlive the generator's caches
  std::set<const Compressor*> keep_all_;  // of all that were built, those that do not evict
  std::optional<LikelyTokens> likely_;    // once sizes are asked for
  Generator generator_;
  Probe probe_;
  Admission admission_;
  std::map<int64_t, ActiveJob> active_;  // by job
  std::map<int64_t, Ticket> tickets_;
  const Job* starting_ = nullptr;
  struct {
    int64_t n_calls = 0, n_calls_in_all = 0;  // of compressors, layer by layer
    int64_t n_tokens = 0;
    Clock::time_point start;
  } prefill_;  // that is under way
  Clock::time_point last_told_ = Clock::now();
};

// A decode step frees what the next one asks for. The C library would give it back to the system each time and have it
// zeroed page by page: half of the time of a compressor that works on tensors of a few megabytes. Blocks over 32 MiB,
// and what lies free beyond half a gigabyte, still go back.
void keep_what_is_freed() {
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 512 << 20);
}

int serve(WorkerChannel& channel) {
  const auto set_up = channel.receive();
  if (!set_up) return 0;
  if (set_up->contains("bench")) return run_bench_worker(*set_up, channel);
  std::optional<Worker> worker;
  try {
    const auto settings = set_up->get<WorkerSetUp>();
    at::set_num_threads(static_cast<int>(settings.threads));
    worker.emplace(settings, channel);
    channel.send({{"ready", true}});
  } catch (const std::exception& e) {
    channel.send({{"ready", false}, {"error", said_by(e)}});
    return 3;
  }
  worker->serve();
  return 0;
}

}  // namespace

int run_worker() {
  keep_what_is_freed();
  WorkerChannel channel;
  try {
    return serve(channel);
  } catch (const std::exception& e) {
    channel.send_last_words(said_by(e));
    return 3;
  }
}

}  // namespace kvc
