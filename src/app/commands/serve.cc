// quire serve: the server. Ready when it prints "listening on …"; SIGTERM, SIGINT or SIGHUP drains, a second one stops
// at once.
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "app/access_options.h"
#include "app/adapters.h"
#include "app/byte_size.h"
#include "app/chat_options.h"
#include "app/context_shift.h"
#include "app/engine_names.h"
#include "app/kv_events.h"
#include "app/learned_prefixes.h"
#include "app/local_server.h"
#include "app/memory_plan.h"
#include "app/model_card.h"
#include "app/model_name.h"
#include "app/model_store.h"
#include "app/output_file.h"
#include "app/spec_options.h"
#include "app/step_needs.h"
#include "app/stop_signals.h"
#include "app/text_file.h"
#include "app/warm_prompts.h"
#include "app/wire.h"
#include "app/worker_directory.h"
#include "base/bounded_reader.h"
#include "base/cpu_clock.h"
#include "base/freed_memory.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/process.h"
#include "engine/limits.h"
#include "engine/option_ranges.h"
#include "engine/policy.h"
#include "engine/recording.h"
#include "engine/tenants.h"
#include "engine/watched_engine.h"
#include "kv/kv_policy.h"
#include "kv/tiers/remote_tier.h"
#include "serve/named_templates.h"
#include "serve/run.h"
#include "tensor/probe.h"

namespace quire {
namespace {

struct Args {
  Args() { engine.policy = "vtc"; }
  ModelOptions model;
  EngineOptions engine;
  ServeOptions serve;
  AccessOptions access;
  KvEventOptions kv_events;
  DirectoryPlace directory;
  std::string kv_memory = "auto", pin_memory = "auto", swap_memory = "auto", overlap = "auto", warm_prompts,
              kv_disk_size = "4G", kv_remote_password_file, record, record_limit = "1G";
  std::vector<std::string> aliases, public_prompts;  // the latter: files
  std::vector<std::string> prefixes, adapters;       // NAME=DIR
  std::string lora_root;
  SamplingChoice sampling;
  ChatChoice chat;
  SpecChoice spec;
  std::string chat_template, chat_template_file;
  std::string name;  // of the model; empty: its file's
  int64_t seed = -1;
  int max_tokens = 0;
  int drain_seconds = 30;
  bool no_prefix_cache = false, probe = false;
};

// What the metrics compare with. Probing reads and computes for a second, and only where it is asked for.
Result<MachineFacts> machine_facts(const Args& args, const ModelInfo& info) {
  MachineFacts out;
  const StepNeeds needs(info);
  out.step_bytes = needs.weight_bytes;
  out.kv_token_bytes = static_cast<double>(info.kv_layout.token_bytes());
  out.row_ops = needs.row_ops;
  out.head_ops = needs.head_ops;
  if (!args.probe) return out;
  QR_TRY(out.bandwidth, probe_read_bandwidth(n_threads(args.model)));
  QR_TRY(const UnitPeak peak, probe_peak(args.model));
  out.peak = peak.int8;
  return out;
}

// Nothing but refusals is answered while the model loads, so a signal then ends the process at once.
class LoadWatch {
 public:
  explicit LoadWatch(const sigset_t& set) : thread_([this, set] { watch(set); }) {}
  ~LoadWatch() {
    done_ = true;
    thread_.join();
  }

 private:
  void watch(const sigset_t& set) const {
    const timespec tick{0, 50'000'000};
    while (!done_) {
      if (sigtimedwait(&set, nullptr, &tick) <= 0) continue;
      log_info("stopped while loading");
      flush_log();
      _exit(kExitDone);
    }
  }
  std::atomic<bool> done_{false};
  std::thread thread_;
};

Result<int64_t> record_bytes(const Args& args) { return parse_bytes("--record-limit", args.record_limit); }

// Null when none was asked for.
Result<std::unique_ptr<RecordingWriter>> open_recording(const Args& args) {
  if (args.record.empty()) return nullptr;
  QR_TRY(const int64_t bytes, record_bytes(args));
  return RecordingWriter::create(args.record, bytes);
}

// A line break at the end is the editor's and no part of the text.
Result<std::string> read_prompt(const std::string& path) {
  constexpr int64_t kMostBytes = 1 << 20;
  QR_TRY(std::string text, read_text_file("--public-prompt", path, kMostBytes));
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) return fail(Code::invalid, "--public-prompt: " + path + " is empty");
  return text;
}

// "auto", "0" or a size; `out` keeps what stands for auto.
Status read_share(const char* option, const std::string& text, int64_t& out) {
  if (text == "0") {
    out = 0;
  } else if (text != "auto") {
    QR_TRY(out, parse_bytes_or_auto(option, text));
  }
  return {};
}

Status check_tier(const Args& args, const std::string& option, const std::string& value) {
  if (!value.empty() && args.no_prefix_cache)
    return fail(Code::invalid, option + " needs the prefix cache; leave out --no-prefix-cache");
  if (!value.empty() && !args.record.empty())
    return fail(Code::invalid, "--record and " + option + " exclude each other: what a tier brings is in no recording");
  return {};
}

// The first line of a file.
Result<std::string> read_password(const std::string& path) {
  constexpr int64_t kMostBytes = 4096;
  QR_TRY(std::string text, read_text_file("--kv-remote-password-file", path, kMostBytes));
  text.resize(std::min(text.size(), text.find_first_of("\r\n")));
  if (text.empty()) return fail(Code::invalid, "--kv-remote-password-file: " + path + ": its first line is empty");
  return text;
}

Status check_remote_tier(const EngineOptions& engine) {
  const bool any_file = !engine.kv_remote_ca.empty() || !engine.kv_remote_cert.empty() || !engine.kv_remote_key.empty();
  if (engine.kv_remote.empty() && any_file)
    return fail(Code::invalid, "--kv-remote-ca, --kv-remote-cert and --kv-remote-key need --kv-remote");
  if (engine.kv_remote.empty()) return {};
  const auto remote = parse_remote_tier(engine.kv_remote, engine.kv_remote_password,
                                        {engine.kv_remote_ca, engine.kv_remote_cert, engine.kv_remote_key});
  return remote ? Status{} : error_within("--kv-remote", remote.error());
}

// What is to stay in the cache.
Status check_pins(Args& args) {
  QR_TRY_VOID(read_share("--pin-memory", args.pin_memory, args.engine.pin_bytes));
  QR_TRY_VOID(read_share("--swap-memory", args.swap_memory, args.engine.swap_bytes));
  const int64_t n_pins = args.serve.limits.n_pins;
  QR_TRY_VOID(in_range("--limit n_pins", static_cast<double>(n_pins), 1, 1 << 16));
  args.engine.max_pins = static_cast<int>(n_pins);
  if (args.engine.pin_bytes <= 0 && args.warm_prompts.empty()) return {};
  const char* option = args.warm_prompts.empty() ? "--pin-memory" : "--warm-prompts";
  if (args.no_prefix_cache)
    return fail(Code::invalid, std::string(option) + " needs the prefix cache; leave out --no-prefix-cache");
  if (!args.record.empty())
    return fail(Code::invalid,
                "--record and " + std::string(option) + " exclude each other: no pins are in a recording");
  if (args.warm_prompts.empty()) return {};
  if (args.engine.pin_bytes == 0)
    return fail(Code::invalid, "--warm-prompts needs --pin-memory other than 0: its prompts are pinned");
  QR_TRY(args.serve.warm_prompts, read_warm_prompts(args.warm_prompts, n_pins));
  return {};
}

// A template by its text or name, or of a file.
Status read_chat_template(Args& args) {
  constexpr int64_t kMostBytes = 1 << 20;
  if (args.chat_template.empty() && args.chat_template_file.empty()) return {};
  if (!args.chat_template.empty() && !args.chat_template_file.empty())
    return fail(Code::invalid, "--chat-template and --chat-template-file exclude each other");
  if (args.chat_template_file.empty()) {
    QR_TRY(args.serve.chat_template, named_template(args.chat_template));
  } else {
    QR_TRY(args.serve.chat_template, read_text_file("--chat-template-file", args.chat_template_file, kMostBytes));
  }
  return check_chat_template(args.serve.chat_template);
}

// A recording takes the place of no file that is read.
Status check_record(Args& args) {
  if (args.record.empty()) return {};
  std::vector<std::string> read = args.public_prompts;
  read.insert(read.end(), {args.warm_prompts, args.kv_remote_password_file, args.engine.kv_remote_ca,
                           args.engine.kv_remote_cert, args.engine.kv_remote_key, args.chat_template_file,
                           args.access.key_file, args.serve.tls_certificate, args.serve.tls_key, args.spec.draft});
  for (const std::string& prefix : args.prefixes) read.push_back(prefix.substr(prefix.find('=') + 1));
  QR_TRY_VOID(check_not_read("--record", args.record, read));
  if (must_pull(args.model.model)) return {};  // so it is not there yet
  QR_TRY(args.model.model, model_path(args.model.model));
  return check_not_model("--record", args.record, args.model.model);
}

Status check_overlap(Args& args) {
  const std::string& wish = args.overlap;
  if (wish != "auto" && wish != "on" && wish != "off")
    return fail(Code::invalid, "--overlap must be auto, on or off, got \"" + wish + "\"");
  if (wish != "auto") args.engine.overlap = wish == "on";
  return {};
}

// What can be known to be wrong before there is a model.
Status check(Args& args) {
  QR_TRY_VOID(check(args.sampling));
  QR_TRY_VOID(find_entry<PolicyEntry>("--policy", args.engine.policy));
  QR_TRY_VOID(find_entry<KvPolicyEntry>("--kv-policy", args.engine.kv_policy));
  QR_TRY_VOID(load_options(args.model, nullptr));
  QR_TRY_VOID(read_chat_template(args));
  QR_TRY_VOID(apply(args.chat, args.serve));
  QR_TRY_VOID(check_prefixes(args.prefixes));
  QR_TRY_VOID(apply_access(args.access, args.serve));
  QR_TRY_VOID(check_adapters(args.adapters, args.aliases, args.serve.limits));
  if (!args.adapters.empty() && !args.record.empty())
    return fail(Code::invalid, "--record and --lora exclude each other: a recording holds no adapters");
  std::error_code error;
  if (!args.lora_root.empty() && !std::filesystem::is_directory(args.lora_root, error))
    return fail(Code::not_found, "--lora-root: there is no folder \"" + args.lora_root + '"');
  QR_TRY(args.engine.kv_bytes, parse_bytes_or_auto("--kv-memory", args.kv_memory));
  QR_TRY_VOID(check_overlap(args));
  args.engine.prefix_cache = !args.no_prefix_cache;
  QR_TRY_VOID(check_kv_events(args.kv_events, args.engine.prefix_cache));
  QR_TRY_VOID(check_directory_place(args.directory));
  QR_TRY_VOID(check_pins(args));
  QR_TRY_VOID(apply(args.spec, args.engine));
  if (args.engine.exit_layers > 0 && !args.record.empty())
    return fail(Code::invalid, "--record and --draft exit:E exclude each other: what guesses write is in no recording");
  add_grammars(args.spec, args.engine);
  QR_TRY(args.engine.kv_disk_bytes, parse_bytes("--kv-disk-size", args.kv_disk_size));
  QR_TRY_VOID(check_tier(args, "--kv-disk", args.engine.kv_disk));
  QR_TRY_VOID(record_bytes(args));
  QR_TRY_VOID(check_record(args));
  QR_TRY_VOID(check_tier(args, "--kv-remote", args.engine.kv_remote));
  if (!args.kv_remote_password_file.empty()) {
    QR_TRY(args.engine.kv_remote_password, read_password(args.kv_remote_password_file));
  }
  QR_TRY_VOID(check_remote_tier(args.engine));
  for (const std::string& path : args.public_prompts) {
    QR_TRY(args.serve.public_prompts.emplace_back(), read_prompt(path));
  }
  return {};
}

void apply_sampling(const Args& args, const LoadedModel& loaded, ServeOptions& serve) {
  serve.sampling = loaded.sampling;
  apply(args.sampling, serve.sampling);
  if (args.max_tokens > 0) serve.sampling.set("max_tokens", args.max_tokens, "option");
  if (args.seed >= 0) serve.sampling.seed = static_cast<uint64_t>(args.seed);
}

// None where the run is recorded, for what an adapter makes of a request is in no recording.
Result<std::unique_ptr<AdapterTable>> adapters_of(Args& args, const LoadedModel& loaded) {
  args.serve.no_adapters = "the run is recorded, and a recording holds none";
  if (!args.record.empty()) return nullptr;
  std::vector<std::string> taken = args.serve.models;
  for (const ServedPrefix& prefix : args.serve.prefixes) taken.push_back(prefix.name);
  QR_TRY_VOID(check_adapters(args.adapters, taken, args.serve.limits));
  QR_TRY(auto out, load_adapters(args.adapters, args.model, loaded, args.serve.limits));
  if (args.lora_root.empty()) return out;
  QR_TRY_VOID(out->allow_below(args.lora_root));
  return out;
}

void name_models(Args& args, const std::string& path) {
  args.serve.models = args.aliases;  // the first name is the one that answers carry
  if (args.name.empty())
    args.serve.models.push_back(model_name(path));
  else
    args.serve.models.insert(args.serve.models.begin(), args.name);
}

void log_draft_memory(const LoadedModel& loaded, const Drafter& drafter, const Engine& engine) {
  const bool loaded_one = drafter.model != nullptr || drafter.heads != nullptr || drafter.eagle != nullptr;
  if (!loaded_one && engine.options().exit_layers == 0) return;
  const DraftMemory its = draft_memory(*loaded.model, drafter, engine);
  log_info("memory of what drafts: " + std::to_string(its.weights) + " bytes of weights, " + std::to_string(its.cache) +
           " of cache, " + std::to_string(its.scratch) + " of scratch");
}

Status run(Args& args) {
  const sigset_t signals = block_stop_signals();
  outlive_readers();
  const FreedMemory freed_memory;
  const LogThread log_thread;
  QR_TRY_VOID(check(args));
  Metrics metrics;
  StepSignal signal;
  QR_TRY(const std::unique_ptr<Listening> listening, Listening::start(args.serve, metrics));
  QR_TRY_VOID(check_reachable(args.directory, listening->url()));
  auto watch = std::make_unique<LoadWatch>(signals);
  QR_TRY(ModelFile file, fit_memory(args.model, args.engine, draft_source(args.spec, args.model),
                                    adapter_bytes_of(args.adapters, args.serve.limits)));
  QR_TRY(const LoadedModel loaded, load(args.model, std::move(file)));
  QR_TRY(const Drafter drafter, load_drafter(args.spec, args.model, loaded));
  drop_if_costly(args.spec, loaded.model->info(), args.engine);
  watch.reset();
  if (!loaded.tokenizer)
    return fail(Code::unsupported, loaded.path + " has no tokenizer, so there is nothing to serve");
  SystemClock clock;
  EngineEnv env;
  env.clock = &clock;
  drafter.put_into(env);
  env.tokenizer = loaded.tokenizer.get();
  QR_TRY(const std::unique_ptr<RecordingWriter> recording, open_recording(args));
  env.recorder = recording.get();
  ProcessCpuClock cpu_clock;
  env.stage_clock = &cpu_clock;
  env.on_step_end = [&signal] { signal.fire(); };
  QR_TRY(LearnedPrefixes prefixes, load_prefixes(args.prefixes, *loaded.model));
  env.prefixes = prefixes.tokens;
  args.serve.prefixes = std::move(prefixes.served);
  name_models(args, loaded.path);
  QR_TRY(const std::unique_ptr<KvEvents> events,
         KvEvents::start(args.kv_events, args.serve.models.front(), args.engine.block_tokens, metrics));
  if (events != nullptr) args.serve.salt_name = [&events](uint64_t salt) { return events->salt_name(salt); };
  auto made = make_watched_engine(*loaded.model, *loaded.ops, args.engine, env, events.get());
  if (!made) return tl::make_unexpected(in_option_names(std::move(made).error()));
  const std::unique_ptr<Engine> engine = std::move(*made);
  const EngineStats stats = engine->stats();
  log_info(model_name(loaded.path) + ": " + loaded.ops->describe() + ", context " +
           std::to_string(engine->options().n_ctx) + ", " + std::to_string(stats.n_blocks) + " cache blocks of " +
           std::to_string(engine->options().block_tokens) + " tokens" +
           (stats.n_states > 0 ? " and " + std::to_string(stats.n_states) + " states" : "") +
           (stats.n_window_blocks > 0 ? " and " + std::to_string(stats.n_window_blocks) + " for windows (" : " (") +
           std::to_string(engine->options().kv_bytes >> 20) + " MiB)");
  log_info("memory: " + std::to_string(loaded.model->info().weight_bytes) + " bytes of weights, " +
           std::to_string(engine->options().kv_bytes) + " of cache, " +
           std::to_string(scratch_bytes(*loaded.model, engine->options())) + " of scratch");
  log_draft_memory(loaded, drafter, *engine);
  for (const TierStats& tier : stats.tiers) {
    if (tier.place != TierPlace::disk) continue;
    log_info("disk: " + std::to_string(tier.n_blocks) + " cached blocks, " + std::to_string(tier.bytes) + " of " +
             std::to_string(tier.most_bytes) + " bytes in " + args.engine.kv_disk +
             (tier.n_skipped_segments > 0
                  ? ", " + std::to_string(tier.n_skipped_segments) + " files are another's and are not read"
                  : ""));
  }
  apply_sampling(args, loaded, args.serve);
  QR_TRY(const std::unique_ptr<AdapterTable> adapters, adapters_of(args, loaded));
  args.serve.adapters = adapters.get();
  args.serve.card = model_card(loaded);
  QR_TRY(args.serve.machine, machine_facts(args, loaded.model->info()));
  if (recording) recording->begin(*engine, loaded.model->info(), env.prefixes);
  engine->start();
  if (!args.serve.warm_prompts.empty()) watch = std::make_unique<LoadWatch>(signals);
  QR_TRY(const std::unique_ptr<Serving> serving, listening->serve(args.serve, *engine, *loaded.tokenizer, signal));
  watch.reset();
  if (!serving->admin_url().empty()) log_info("metrics on " + serving->admin_url());
  LineWriter out(STDOUT_FILENO, {.bytes = 4096, .lines = 1}, [](uint64_t) { return std::string(); });
  std::unique_ptr<WorkerEntry> entry = enter_directory(args.directory, serving->url());
  out.write("listening on " + serving->url());  // whether somebody reads it or not
  wait_for_stop_signal(signals);
  entry.reset();
  drain_until_signal(signals, [&](int64_t ms) { serving->stop(ms); }, int64_t{args.drain_seconds} * 1000);
  engine->stop();
  return recording ? recording->finish() : Status{};
}

QR_REGISTER(
    Command,
    "serve",
    Command{
        "answer over HTTP", false, [](CommandLine& line) -> std::function<int()> {
          auto args = std::make_shared<Args>();
          declare_model_options(line, args->model);
          declare_shift_option(line, args->model);
          declare_access_options(line, args->access, args->serve);
          line.option("--ctx", args->engine.n_ctx, {2, kMostContext, 0},
                      "prompt and answer together, 0 for what the model was trained for or what fits");
          line.option("--kv-memory", args->kv_memory, "memory for cached keys and values: auto, or a size such as 4G");
          line.option("--pin-memory", args->pin_memory,
                      "how much of --kv-memory pinned prompts may hold: auto for a quarter, a size, or 0; "
                      "a whole context always keeps its room");
          line.option("--retain-share", args->engine.retain_share, {0, 1},
                      "share of the cache that requests may have stay for longer "
                      "(prompt_cache_retention), of one key half of it: 0 to 1");
          line.option("--recompute-share", args->engine.recompute_share, {0, 1},
                      "share of all computed tokens that may be lost and computed again because the cache "
                      "was too small: the less, the fewer requests run together; 1 for any: 0 to 1");
          line.option("--swap-memory", args->swap_memory,
                      "memory beside --kv-memory for preempted sequences of models with windows or states: "
                      "auto for a quarter of --kv-memory, a size, or 0");
          line.option("--warm-prompts", args->warm_prompts,
                      "a file of prompts to compute and pin at the start, for every key; each line is a "
                      "JSON string, or a JSON object with messages");
          line.option("--overlap", args->overlap,
                      "plan a step while the one before it runs: auto where a device computes, on (not beside guesses "
                      "other than --spec grammar, --step-target or --record) or off; the answers are the same");
          line.option("--kv-policy", args->engine.kv_policy,
                      "which cached block goes first when room is needed: cost_aware, lru or s3_fifo");
          line.option("--kv-disk", args->engine.kv_disk,
                      "a folder in which cached keys and values outlive the server, one server's; it "
                      "holds tokens of conversations");
          line.option("--kv-disk-size", args->kv_disk_size, "bytes that the folder may take, such as 4G");
          line.option("--kv-remote", args->engine.kv_remote,
                      "a Redis or Valkey in which several servers of one model share cached keys and "
                      "values: redis://HOST:PORT/DATABASE, or rediss:// over TLS. It holds tokens of conversations. An "
                      "address with a "
                      "password belongs into the variable QUIRE_KV_REMOTE, since others can read a command line");
          line.option("--kv-remote-password-file", args->kv_remote_password_file,
                      "a file whose first line is the password of --kv-remote");
          line.option("--kv-remote-ca", args->engine.kv_remote_ca,
                      "PEM file: certificates that the one of --kv-remote with rediss:// must be signed with; by "
                      "default those that this machine trusts");
          line.option("--kv-remote-cert", args->engine.kv_remote_cert,
                      "PEM file: the certificate that is shown to --kv-remote where it asks for one");
          line.option("--kv-remote-key", args->engine.kv_remote_key, "PEM file: the key of --kv-remote-cert");
          line.option("--kv-remote-ttl", args->engine.kv_remote_keep_s, {1, kMostRemoteKeepS},
                      "seconds that a block stays in the store of --kv-remote after it was stored or last read");
          declare_kv_event_options(line, args->kv_events);
          declare_directory_options(line, args->directory);
          line.option("--max-seqs", args->engine.max_seqs, {1, kMostSeqs}, "sequences that run together");
          line.option("--step-tokens", args->engine.step_tokens, {1, kMostStepTokens},
                      "tokens computed in one step at most");
          declare_sampling_options(line, args->sampling);
          line.option("--seed", args->seed, {0, static_cast<double>(std::numeric_limits<int64_t>::max()), -1},
                      "of requests that name none; -1: another one for each");
          line.option("--max-tokens", args->max_tokens, {0, 1e9},
                      "of an answer whose request does not say, 0: until the context is full");
          line.option("--policy", args->engine.policy,
                      "who goes first: vtc (who was served least), fcfs (turns), priority, deadlines (whose first "
                      "token is due first) or prefix (whose prompt is cached)");
          line.option("--allowance", args->engine.allowance, {0, kMostAllowance},
                      "how many tokens behind its share a key may be and still go before others; 0: none. "
                      "For --policy vtc, priority and deadlines");
          line.option("--itl-target", args->engine.itl_target_ms, {0, kMostTargetMs},
                      "milliseconds between two tokens of a stream that prompts may cause, 0 for no target");
          line.option("--step-target", args->engine.step_target_ms, {0, kMostTargetMs},
                      "milliseconds that a step may take while answers are written: prompts are cut, and where "
                      "more answers run than fit, they take turns; 0 for no target");
          line.option("--max-queue", args->engine.max_queue, {1, kMostQueue},
                      "waiting requests of one client; then 429");
          declare_spec_options(line, args->spec);
          line.flag("--no-prefix-cache", args->no_prefix_cache, "do not share the past between requests");
          line.option("--name", args->name, "what clients call the model, instead of its file's name");
          line.option("--alias", args->aliases, "another name for the model, may be repeated; answers carry the first");
          declare_prefix_option(line, args->prefixes);
          declare_lora_option(line, args->adapters);
          line.option(
              "--lora-root", args->lora_root,
              "adapters that are loaded over HTTP must lie below this folder, and a relative path begins there; "
              "empty: anywhere");
          line.option("--public-prompt", args->public_prompts,
                      "a file with a system prompt that is no secret: requests share its cached past "
                      "whatever their keys and salts; may be repeated");
          line.option("--chat-template", args->chat_template,
                      "in place of the model's own: Jinja text, or chatml, llama3 or command-r");
          line.option("--chat-template-file", args->chat_template_file, "the same, from a file");
          declare_chat_options(line, args->chat, args->serve);
          line.option("--tool-format", args->serve.tool_format,
                      "how the model writes calls of tools, such as hermes; default: as its template does");
          line.flag("--strict-model", args->serve.strict_model, "refuse requests that name another model");
          line.option("--io-threads", args->serve.n_io_threads, kIoThreads, "threads for sockets");
          line.flag("--llama-metrics", args->serve.llama_metrics,
                    "/metrics has the names of llama.cpp's server too (llamacpp:…)");
          line.flag("--probe", args->probe,
                    "measure memory bandwidth and operations first, so that metrics tell shares of them");
          line.option("--record", args->record,
                      "write all that the engine takes in and decides to this file, for `quire replay`; "
                      "it holds prompts and answers as token ids");
          line.option("--record-limit", args->record_limit, "where the recording ends, such as 1G");
          line.option("--drain-timeout", args->drain_seconds, kDrainSeconds,
                      "seconds that running requests get after SIGTERM");
          return [args] { return exit_code(run(*args)); };
        }});

}  // namespace
}  // namespace quire
