// quire route: one address before many workers, or before many models of this machine. Ready when it prints "listening
// on …"; SIGTERM, SIGINT or SIGHUP drains, a second one stops at once.
#include <unistd.h>

#include <algorithm>

#include "app/access_options.h"
#include "app/byte_size.h"
#include "app/command.h"
#include "app/local_models.h"
#include "app/model_card.h"
#include "app/stop_signals.h"
#include "base/bounded_reader.h"
#include "base/freed_memory.h"
#include "base/line_writer.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/process.h"
#include "route/run.h"

namespace quire {
namespace {

constexpr std::string_view kDirectoryScheme = "directory://";

struct Args {
  RouteOptions route;
  AccessOptions access;
  std::vector<std::string> workers, discover, events;
  std::string directory;
  RedisTlsFiles directory_tls;
  std::string models, keep_alive = "5m", model_memory = "auto";  // models: a folder
  std::vector<std::string> named, serve, of_models;
  bool pulled = false;
  int max_models = 3;
  int drain_seconds = 30;
};

// Models of this machine, and how their engines are started.
Status check_local(Args& args) {
  LocalOptions& local = args.route.local;
  LocalModelSource source;
  source.folder = args.models;
  source.pulled = args.pulled;
  source.keys = args.route.keys;
  if (!args.models.empty()) {
    std::vector<std::string> left_out;
    auto found = models_in(args.models, left_out);
    if (!found) return error_within("--local-models, --models", std::move(found).error());
    for (const std::string& path : left_out) log_warn("left out, because its name cannot be a model's: " + path);
    local.models = std::move(*found);
  }
  for (const std::string& text : args.named) {
    auto model = parse_local_model(text);
    if (!model) return error_within("--local-model, --model", std::move(model).error());
    source.named.push_back(*model);
    local.models.push_back(std::move(*model));
  }
  if (args.pulled)
    for (LocalModel& model : pulled_local_models()) local.models.push_back(std::move(model));
  QR_TRY_VOID(check_names(local.models));
  if (args.pulled && local.models.empty())
    return fail(Code::not_found, "--pulled: no model was pulled; quire pull ORG/NAME fetches one");
  local.rules.n_engines = args.max_models;
  QR_TRY(local.rules.bytes, parse_bytes_or_auto("--model-memory", args.model_memory));
  const auto keep_alive = parse_keep_alive(args.keep_alive);
  if (!keep_alive) return fail(Code::invalid, "--keep-alive " + keep_alive.error().message);
  local.rules.keep_alive_ms = *keep_alive;
  auto arguments = serve_arguments(args.serve);
  if (!arguments) return error_within("--serve-option", std::move(arguments).error());
  auto own = model_arguments(args.of_models, local.models, *arguments);
  if (!own) return error_within("--model-option", std::move(own).error());
  for (size_t i = 0; i < local.models.size(); ++i) {
    local.models[i].command = serve_command(local.models[i], (*own)[i], args.route.keys);
    local.models[i].variants = variants_of((*own)[i]);
    source.own.emplace(local.models[i].name, std::move((*own)[i]));
  }
  source.arguments = std::move(*arguments);
  local.show = [](const LocalModel& model) { return shown_model(model.path); };
  if (source.changes()) local.reread = [source = std::move(source)]() mutable { return source.read(); };
  return {};
}

Status check(Args& args) {
  const auto set_own = [&args](std::string_view name, int64_t value) {
    for (const RouteLimitRow& row : route_limit_rows()) {
      if (row.name != name) continue;
      args.route.limits.*row.value = value;
      return true;
    }
    return false;
  };
  QR_TRY_VOID(apply_door(args.access, set_own, args.route));
  QR_TRY_VOID(check_local(args));
  if (args.workers.empty() && args.discover.empty() && args.route.local.models.empty())
    return fail(Code::invalid,
                "nothing to route to: give --worker URL or --discover URL, or models of this machine with --models "
                "DIR, --model NAME=PATH or "
                "--pulled");
  const RedisTlsFiles& tls = args.directory_tls;
  if (args.directory.empty() && !(tls.ca + tls.certificate + tls.key).empty())
    return fail(Code::invalid, "--directory-ca, --directory-cert and --directory-key need --directory");
  if (!args.directory.empty()) {
    auto directory = parse_directory(args.directory, tls);
    if (!directory) return error_within("--directory", std::move(directory).error());
    args.route.directory = std::move(*directory);
  }
  for (const std::string& url : args.workers) {
    auto worker = parse_worker(url);
    if (!worker) return error_within("--worker", std::move(worker).error());
    for (const WorkerSpec& other : args.route.workers)
      if (other.name() == worker->name()) return fail(Code::invalid, "--worker: " + other.name() + " is given twice");
    args.route.workers.push_back(std::move(*worker));
  }
  for (const std::string& url : args.discover) {
    if (url == kDirectoryScheme) {
      if (args.directory.empty()) return fail(Code::invalid, "--discover directory:// needs --directory");
      args.route.workers_enter = true;
      continue;
    }
    if (url.starts_with(kKubeScheme)) {
      auto service = parse_kube_service(url);
      if (!service) return error_within("--discover", std::move(service).error());
      args.route.services.push_back(std::move(*service));
      continue;
    }
    auto name = parse_worker(url);
    if (!name) return error_within("--discover", std::move(name).error());
    args.route.names.push_back(std::move(*name));
  }
  if (!args.route.services.empty()) {
    auto api = kube_api_of_pod();
    if (!api) return error_within("--discover", std::move(api).error());
    args.route.kube_api = std::move(*api);
  }
  for (const std::string& text : args.events) {
    auto place = parse_event_place(text);
    if (!place) return error_within("--worker-events", std::move(place).error());
    const auto is_it = [&](const WorkerSpec& worker) { return worker.name() == place->worker; };
    if (!place->worker.empty() && std::ranges::none_of(args.route.workers, is_it))
      return fail(Code::invalid, "--worker-events: no --worker is that of \"" + text + "\"");
    args.route.events.push_back(std::move(*place));
  }
  if (!args.events.empty() && args.workers.empty() && args.discover.empty())
    return fail(Code::invalid, "--worker-events needs a --worker or --discover that publishes them");
  const auto is_tls = [](const WorkerSpec& worker) { return !worker.at.tls_name.empty(); };
  if (!args.route.worker_ca.empty() && std::ranges::none_of(args.route.workers, is_tls) &&
      std::ranges::none_of(args.route.names, is_tls) && !args.route.workers_enter)
    return fail(Code::invalid, "--worker-ca needs a --worker or --discover with https");
  return {};
}

Status run(Args& args) {
  const sigset_t signals = block_stop_signals();
  outlive_readers();
  const FreedMemory freed_memory;
  const LogThread log_thread;
  QR_TRY_VOID(check(args));
  Metrics metrics;
  QR_TRY(const std::unique_ptr<RouteServer> routing, start_router(args.route, metrics));
  if (!routing->admin_url().empty()) log_info("metrics on " + routing->admin_url());
  LineWriter out(STDOUT_FILENO, {.bytes = 4096, .lines = 1}, [](uint64_t) { return std::string(); });
  out.write("listening on " + routing->url());  // whether somebody reads it or not
  wait_for_stop_signal(signals);
  drain_until_signal(signals, [&](int64_t ms) { routing->stop(ms); }, int64_t{args.drain_seconds} * 1000);
  return {};
}

// The first names are longer because QUIRE_MODEL and QUIRE_MODELS mean something else already.
void declare_local_options(CommandLine& line, Args& args) {
  line.option("--local-models,--models", args.models,
              "serve every model in this folder; each is loaded when a request asks for it");
  line.option("--local-model,--model", args.named,
              "NAME=PATH: serve this file, folder or pulled model under this name; may be repeated");
  line.flag("--pulled", args.pulled, "serve every model that `quire list` shows");
  line.option(
      "--keep-alive", args.keep_alive,
      "how long a model stays loaded after its last request: 5m, 1h30m; 0: unload at once, -1: until another one needs "
      "the room");
  line.option("--max-models", args.max_models, {1, 1000},
              "how many models may be loaded at once; beyond it the least recently used is unloaded");
  line.option("--model-memory", args.model_memory,
              "the most bytes that the files of all loaded models may have together, such as 16G; auto: no limit");
  line.option(
      "--serve-option", args.serve,
      "NAME=VALUE: an option of `quire serve` that every model of this machine is loaded with, such as ctx=8192; may "
      "be repeated");
  line.option("--model-option", args.of_models,
              "MODEL=NAME=VALUE: the same for one model alone, such as large=ctx=8192; may be repeated");
}

QR_REGISTER(Command,
            "route",
            Command{"one address before many servers or models", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.option(
                          "--worker", args->workers,
                          "a server to send requests to, http://HOST:PORT or https://HOST:PORT; may be repeated");
                      line.option("--discover", args->discover,
                                  "http://NAME:PORT or https://NAME:PORT: every address that this name has is such a "
                                  "server, also those that it gets later; kubernetes://[NAMESPACE/]SERVICE[:PORT]: "
                                  "every pod of the service that is ready, PORT a port of the pods or the name of one "
                                  "of the service's ports; directory://: every server that enters itself in "
                                  "--directory; may be repeated");
                      line.option("--worker-events", args->events,
                                  "[WORKER=]EVENTS[,REPLAY]: where a worker publishes KV events and is asked for those "
                                  "that were missed (`quire serve --kv-events`, vLLM), each PORT of the worker, "
                                  "HOST:PORT or ipc://PATH; without WORKER, of every worker; may be repeated");
                      declare_local_options(line, *args);
                      declare_door_options(line, args->access, args->route);
                      line.option("--policy", args->route.policy,
                                  "how a worker is chosen for requests that belong to no session: prefix, predicted, "
                                  "hash, least_load, two_choices or round_robin");
                      line.option("--directory", args->directory,
                                  "a Redis server through which several routers know which worker has a session, "
                                  "redis://HOST:PORT, or rediss:// over TLS; give one with a password in "
                                  "QUIRE_DIRECTORY");
                      line.option("--directory-ca", args->directory_tls.ca,
                                  "PEM file: certificates that the Redis's own must be signed with where --directory "
                                  "is rediss://; by default those that this machine trusts");
                      line.option("--directory-cert", args->directory_tls.certificate,
                                  "PEM file: the certificate that is shown to --directory where it asks for one");
                      line.option("--directory-key", args->directory_tls.key, "PEM file: the key of --directory-cert");
                      line.option("--worker-ca", args->route.worker_ca,
                                  "PEM file: certificates that servers with https must be signed with; by default "
                                  "those that this machine trusts");
                      line.option("--worker-key", args->route.worker_key,
                                  "the API key to send to workers instead of the client's; better given in "
                                  "QUIRE_WORKER_KEY");
                      line.option("--health-path", args->route.health_path,
                                  "the path of a worker that answers whether it is well; by default /ready of quire "
                                  "serve, and /health of other servers");
                      line.option("--io-threads", args->route.n_io_threads, kIoThreads, "threads for sockets");
                      line.option("--drain-timeout", args->drain_seconds, kDrainSeconds,
                                  "seconds that running requests get after SIGTERM");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
