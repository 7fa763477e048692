// quire replay: what `quire serve --record` wrote, run again. Without a model the recorded answers take its place, with
// one it has to give them again; --what-if runs the same arrivals under other options.
#include "engine/replay.h"

#include <cstdio>

#include "app/learned_prefixes.h"
#include "app/wire.h"
#include "base/json.h"
#include "text/grammar/source.h"

namespace quire {
namespace {

struct Args {
  std::string file;
  ModelOptions model;
  std::vector<std::string> what_if, prefixes;
  bool json = false;
};

struct Knobs {
  EngineOptions options;
  int n_blocks = 0;
};

Status set_number(const std::string& name, const std::string& value, int& out) {
  char* end = nullptr;
  const long long number = std::strtoll(value.c_str(), &end, 10);
  if (value.empty() || *end != '\0' || number < 0 || number > (1 << 30)) {
    return fail(Code::invalid, "--what-if " + name + " must be a number up to 1073741824, got \"" + value + "\"");
  }
  out = static_cast<int>(number);
  return {};
}

// "step-tokens=128"
Status set_knob(const std::string& text, Knobs& knobs) {
  const size_t at = text.find('=');
  const std::string name = text.substr(0, at);
  const std::string value = at == std::string::npos ? "" : text.substr(at + 1);
  EngineOptions& o = knobs.options;
  const std::pair<const char*, int*> numbers[] = {{"max-seqs", &o.max_seqs},     {"step-tokens", &o.step_tokens},
                                                  {"max-chunk", &o.max_chunk},   {"block-tokens", &o.block_tokens},
                                                  {"n-blocks", &knobs.n_blocks}, {"ctx", &o.n_ctx}};
  for (const auto& [known, field] : numbers) {
    if (name == known) return set_number(name, value, *field);
  }
  if (name == "policy") {
    o.policy = value;
  } else if (name == "kv-policy") {
    o.kv_policy = value;
  } else if (name == "prefix-cache" && (value == "on" || value == "off")) {
    o.prefix_cache = value == "on";
  } else if (name == "itl-target" || name == "step-target") {
    int ms = 0;
    QR_TRY_VOID(set_number(name, value, ms));
    (name == "itl-target" ? o.itl_target_ms : o.step_target_ms) = ms;
  } else {
    return fail(Code::invalid,
                "--what-if takes max-seqs=N, step-tokens=N, max-chunk=N, block-tokens=N, n-blocks=N, ctx=N, policy=P, "
                "kv-policy=P, itl-target=MS, step-target=MS or prefix-cache=on|off, got \"" +
                    text + "\"");
  }
  return {};
}

struct Figure {
  const char* name;
  double value;
};

std::vector<Figure> figures(const ReplayOutcome& o) {
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  const auto count = [](int64_t n) { return static_cast<double>(n); };
  return {{"steps", count(o.stats.n_steps)},
          {"finished", count(o.stats.n_finished)},
          {"cancelled", count(o.stats.n_cancelled)},
          {"refused", count(o.n_refused)},
          {"preemptions", count(o.stats.n_preempted)},
          {"rows_recomputed", count(o.stats.spent.computed[static_cast<size_t>(Cause::recomputed)])},
          {"tokens_cached", count(o.stats.n_cached_tokens)},
          {"tokens_invented", count(o.n_invented)},
          {"duration_ms", ms(o.duration_ns)},
          {"ttft_p50_ms", ms(at_rank(o.ttft_ns, 0.5))},
          {"ttft_p99_ms", ms(at_rank(o.ttft_ns, 0.99))},
          {"itl_p50_ms", ms(at_rank(o.itl_ns, 0.5))},
          {"itl_p99_ms", ms(at_rank(o.itl_ns, 0.99))}};
}

Json json_of(const ReplayOutcome& outcome) {
  Json out = Json::Object{};
  for (const Figure& figure : figures(outcome)) out.set(figure.name, figure.value);
  return out;
}

// The recorded run, the same options under modelled steps, and the options asked about: the first two tell how far the
// model of the steps can be believed, the last two what the options change.
void print_table(const ReplayOutcome& recorded, const ReplayOutcome& modelled, const ReplayOutcome& changed) {
  const auto a = figures(recorded);
  const auto b = figures(modelled);
  const auto c = figures(changed);
  std::printf("%-18s %14s %14s %14s %10s\n", "", "recorded", "modelled", "what if", "change");
  for (size_t i = 0; i < a.size(); ++i) {
    const double change = b[i].value == 0 ? 0 : 100 * (c[i].value / b[i].value - 1);
    std::printf("%-18s %14.6g %14.6g %14.6g %+9.1f%%\n", a[i].name, a[i].value, b[i].value, c[i].value, change);
  }
}

Status what_if(const Args& args, const Recording& recording, const ReplayOutcome& exact, const StepCost& cost) {
  const Knobs same{recording.options, recording.n_blocks};
  Knobs knobs = same;
  for (const std::string& text : args.what_if) QR_TRY_VOID(set_knob(text, knobs));
  QR_TRY(const ReplayOutcome modelled, replay_under(recording, same.options, same.n_blocks, cost));
  QR_TRY(const ReplayOutcome changed, replay_under(recording, knobs.options, knobs.n_blocks, cost));
  if (!args.json) {
    print_table(exact, modelled, changed);
    return {};
  }
  Json out = Json::Object{};
  out.set("recorded", json_of(exact));
  out.set("modelled", json_of(modelled));
  out.set("what_if", json_of(changed));
  std::printf("%s\n", out.dump().c_str());
  return {};
}

void print_exact(const Args& args, const Recording& recording, const ReplayOutcome& outcome) {
  const bool same_hash = !recording.complete || outcome.hash == recording.hash;
  const std::string difference = !outcome.difference.empty() ? outcome.difference : same_hash ? "" : "the hash";
  if (args.json) {
    Json out = json_of(outcome);
    out.set("hash", std::to_string(outcome.hash));
    out.set("same", difference.empty());
    out.set("complete", recording.complete);
    if (!difference.empty()) out.set("difference", difference);
    std::printf("%s\n", out.dump().c_str());
    return;
  }
  for (const Figure& figure : figures(outcome)) std::printf("%-18s %14.6g\n", figure.name, figure.value);
  std::printf("%-18s %016llx\n", "hash", static_cast<unsigned long long>(outcome.hash));
  if (!recording.complete) std::printf("the recording has no last line: it was cut off\n");
  std::printf("%s\n", difference.empty() ? "every decision as recorded" : ("differs: " + difference).c_str());
}

// `loaded` outlives it.
RecordedRules rules_of(const LoadedModel& loaded) {
  RecordedRules out;
  if (loaded.tokenizer != nullptr) out.vocabulary = TokenTrie::of(*loaded.tokenizer, 0);
  out.compile = [&loaded,
                 vocabulary = out.vocabulary](const Constraint& recorded) -> Result<std::shared_ptr<const Constraint>> {
    if (vocabulary == nullptr) return fail(Code::unsupported, "the model's file has no tokenizer");
    QR_TRY(const GrammarSource source, GrammarSource::read(recorded.source));
    Constraint made{recorded.source, recorded.field, nullptr, vocabulary};
    QR_TRY(made.grammar, compile_grammar(source, *loaded.tokenizer, {}));
    return std::make_shared<const Constraint>(std::move(made));
  };
  return out;
}

// Whether every decision was the recorded one.
Result<bool> run(const Args& args) {
  QR_TRY(const Recording recording, read_recording(args.file));
  StepCost cost;
  QR_TRY(ReplayOutcome outcome, replay_exactly(recording, cost));
  if (!args.what_if.empty()) {
    QR_TRY_VOID(what_if(args, recording, outcome, cost));
    return true;
  }
  if (!args.model.model.empty()) {
    QR_TRY(const LoadedModel loaded, load(args.model));
    QR_TRY(LearnedPrefixes prefixes, load_prefixes(args.prefixes, *loaded.model));
    QR_TRY(outcome,
           replay_with_model(recording, *loaded.model, *loaded.ops, rules_of(loaded), std::move(prefixes.tokens)));
  }
  print_exact(args, recording, outcome);
  return outcome.difference.empty() && (!recording.complete || outcome.hash == recording.hash);
}

QR_REGISTER(Command,
            "replay",
            Command{"run a recording of the server again", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("FILE", args->file, true, "what `quire serve --record` wrote");
                      declare_model_options(line, args->model);
                      line.option("--what-if", args->what_if,
                                  "KNOB=VALUE: the same arrivals under another option; may be repeated");
                      declare_prefix_option(line, args->prefixes);
                      line.flag("--json", args->json, "print one JSON object");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
