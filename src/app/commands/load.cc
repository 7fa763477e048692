// quire load: a load generator against any server that speaks OpenAI's API.
#include <cstdio>
#include <fstream>

#include "app/command.h"
#include "app/load/generator.h"

namespace quire {
namespace {

struct Args {
  std::string url, model, endpoint = "chat", api_key, timeline, extra;
  WorkloadOptions work;
  GeneratorOptions how;
  double temperature = 0;
  int timeout_s = 300;
  bool ignore_eos = false, json = false;
};

Status check(const Args& args) {
  if (args.endpoint != "chat" && args.endpoint != "completions")
    return fail(Code::invalid, "--endpoint must be chat or completions, got \"" + args.endpoint + "\"");
  return {};
}

// What every request's body holds.
Status set_fields(Args& args) {
  if (args.model.empty()) {
    HttpClient client = connect_to(args.how.remote, args.how.timeout_ms);
    QR_TRY(args.model, first_model(client, args.how.remote));
  }
  Json& fields = args.how.fields;
  fields.set("model", args.model);
  fields.set("temperature", args.temperature);
  if (args.ignore_eos) fields.set("ignore_eos", true);
  if (args.extra.empty()) return {};
  const Result<Json> extra = Json::parse(args.extra);
  if (!extra || extra->as_object() == nullptr) return fail(Code::invalid, "--fields must be a JSON object");
  for (const auto& [key, value] : *extra->as_object()) fields.set(key, value);
  return {};
}

Json settings(const Args& args, const Workload& workload) {
  Json out;
  out.set("url", args.url);
  out.set("model", args.model);
  out.set("loop", workload.open_loop() ? "open" : "closed");
  if (args.work.rate > 0) {
    out.set("arrivals", args.work.arrivals);
    out.set("rate", args.work.rate);
  }
  if (!args.work.trace.empty()) out.set("trace", args.work.trace);
  if (!workload.open_loop()) out.set("users", args.how.users);
  out.set("turns", args.work.turns);
  out.set("seed", static_cast<int64_t>(args.work.seed));
  return out;
}

Status run(Args& args) {
  QR_TRY_VOID(check(args));
  QR_TRY(args.how.remote, parse_remote(args.url));
  args.how.remote.api_key = args.api_key;
  args.how.chat = args.endpoint == "chat";
  args.how.timeout_ms = args.timeout_s * 1000;
  args.how.seconds = args.work.seconds;
  args.how.seed = args.work.seed;
  QR_TRY(const Workload workload, Workload::make(args.work));
  QR_TRY_VOID(set_fields(args));
  const LoadReport report = run_load(workload, args.how);
  if (!args.timeline.empty()) {
    std::ofstream out(args.timeline);
    out << report.timeline_csv();
    if (!out.flush()) return fail(Code::io, args.timeline + ": cannot write");
  }
  if (args.json) {
    Json out = report.json();
    out.set("settings", settings(args, workload));
    std::printf("%s\n", out.dump().c_str());
  } else {
    std::printf("%s", report.text().c_str());
  }
  if (report.n_ok() == 0 && report.n_ended() > 0 && args.how.leave < 1)
    return fail(Code::io, "no request was answered");
  return {};
}

void declare_workload(CommandLine& line, WorkloadOptions& work) {
  line.option("--rate", work.rate, {0, 1e6},
              "open loop: sessions per second, whatever the server does; 0: closed loop");
  line.option("--arrivals", work.arrivals, "of the open loop: poisson or fixed");
  line.option("--requests", work.n_sessions, {0, kMostInt}, "sessions, 0: by --duration");
  line.option("--duration", work.seconds, {0, 1e6}, "seconds within which sessions begin, 0: by --requests");
  line.option("--turns", work.turns, {1, 1000}, "questions of a session, each with the conversation before it");
  line.option("--prompt-tokens", work.prompt_tokens, {1, 1 << 24}, "of a question, about");
  line.option("--max-tokens", work.max_tokens, {1, 1 << 24}, "of an answer at most");
  line.option("--spread", work.spread, {0, 1}, "lengths vary evenly within ± this share");
  line.option("--shared-tokens", work.shared_tokens, {0, 1 << 24},
              "a start that sessions share (chat: the system prompt), about");
  line.option("--prefixes", work.n_prefixes, {1, 1 << 24}, "how many such starts there are");
  line.option("--tokens-per-word", work.tokens_per_word, {0.1, 100}, "by which the words of a prompt are counted out");
  line.option("--trace", work.trace,
              "arrivals and lengths from a file: .csv (TIMESTAMP,ContextTokens,GeneratedTokens) or .jsonl "
              "(timestamp, input_length, output_length, hash_ids)");
  line.option("--trace-speed", work.trace_speed, {1e-6, 1e6}, "the trace's gaps are divided by it");
  line.option("--trace-lengths", work.trace_lengths, {1e-3, 1e6}, "the trace's lengths are divided by it");
  line.option("--seed", work.seed, kSeeds, "of texts, lengths, arrivals and departures");
}

QR_REGISTER(Command,
            "load",
            Command{"load a server that speaks OpenAI's API and report what it kept up", false,
                    [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("URL", args->url, true, "such as http://127.0.0.1:8080");
                      line.option("--model", args->model, "the model to name; empty: the first of /v1/models");
                      line.option("--endpoint", args->endpoint, "chat or completions");
                      line.option("--api-key", args->api_key, "sent as a bearer token");
                      line.option("--users", args->how.users, {1, 16384}, "closed loop: sessions at once");
                      declare_workload(line, args->work);
                      line.option("--think", args->how.think_ms, {0, 1e9},
                                  "milliseconds between an answer and the next turn");
                      line.option("--leave", args->how.leave, {0, 1},
                                  "share of the requests whose client leaves within the answer");
                      line.option("--max-in-flight", args->how.max_in_flight, {1, 16384},
                                  "open loop: requests at once at most; what waits for that counts as latency");
                      line.option("--temperature", args->temperature, {0, 100}, "of every request");
                      line.flag("--ignore-eos", args->ignore_eos, "ask for answers of full length, where supported");
                      line.option("--fields", args->extra, "a JSON object that is added to every request's body");
                      line.option("--timeout", args->timeout_s, {1, 86400},
                                  "seconds without a byte after which a request failed");
                      line.option("--slo-ttft", args->how.slo.ttft_ms, {0, 1e9},
                                  "goodput: milliseconds to the first text at most, 0: any");
                      line.option("--slo-tpot", args->how.slo.tpot_ms, {0, 1e9},
                                  "goodput: mean milliseconds per token after the first at most, 0: any");
                      line.option("--slo-e2e", args->how.slo.e2e_ms, {0, 1e9}, "goodput: milliseconds at most, 0: any");
                      line.option("--timeline", args->timeline, "write what happened in each second to this CSV file");
                      line.flag("--json", args->json, "print one JSON object");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
