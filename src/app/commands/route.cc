// quire route: one address before many workers. Ready when it prints "listening on …"; SIGTERM, SIGINT or SIGHUP
// drains, a second one stops at once.
#include <unistd.h>

#include "app/access_options.h"
#include "app/command.h"
#include "app/stop_signals.h"
#include "base/line_writer.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/process.h"
#include "route/run.h"

namespace quire {
namespace {

struct Args {
  RouteOptions route;
  AccessOptions access;
  std::vector<std::string> workers;
  std::string directory;
  int drain_seconds = 30;
};

Status check(Args& args) {
  QR_TRY_VOID(in_range("--drain-timeout", args.drain_seconds, 0, 86400));
  const auto set_own = [&args](std::string_view name, int64_t value) {
    for (const RouteLimitRow& row : route_limit_rows()) {
      if (row.name != name) continue;
      args.route.limits.*row.value = value;
      return true;
    }
    return false;
  };
  QR_TRY_VOID(apply_door(args.access, set_own, args.route));
  if (args.workers.empty()) return fail(Code::invalid, "--worker is required: the URL of a server, may be repeated");
  if (!args.directory.empty()) {
    auto directory = parse_directory(args.directory);
    if (!directory) return fail(directory.error().code, "--directory: " + directory.error().message);
    args.route.directory = std::move(*directory);
  }
  for (const std::string& url : args.workers) {
    auto worker = parse_worker(url);
    if (!worker) return fail(worker.error().code, "--worker: " + worker.error().message);
    for (const WorkerSpec& other : args.route.workers)
      if (other == *worker) return fail(Code::invalid, "--worker: " + other.name() + " is given twice");
    args.route.workers.push_back(std::move(*worker));
  }
  return {};
}

Status run(Args& args) {
  const sigset_t signals = block_stop_signals();
  outlive_readers();
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

QR_REGISTER(Command,
            "route",
            Command{
                "one address before many servers", false, [](CommandLine& line) -> std::function<int()> {
                  auto args = std::make_shared<Args>();
                  line.option("--worker", args->workers, "a server that answers, http://HOST:PORT; may be repeated");
                  declare_door_options(line, args->access, args->route);
                  line.option("--policy", args->route.policy,
                              "which worker, for requests of no session: prefix, hash, least_load, two_choices or "
                              "round_robin");
                  line.option("--directory", args->directory,
                              "a Redis in which several routers share where sessions are, redis://HOST:PORT; with a "
                              "password better in QUIRE_DIRECTORY");
                  line.option("--worker-key", args->route.worker_key,
                              "the key that workers are sent, instead of the clients'; better in QUIRE_WORKER_KEY");
                  line.option("--health-path", args->route.health_path, "where a worker tells its health");
                  line.option("--io-threads", args->route.n_io_threads, "threads for sockets");
                  line.option("--drain-timeout", args->drain_seconds,
                              "seconds that running requests get after SIGTERM");
                  return [args] { return exit_code(run(*args)); };
                }});

}  // namespace
}  // namespace quire
