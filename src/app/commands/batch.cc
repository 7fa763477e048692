// quire batch: OpenAI batch lines, as fast as the engine takes them. Results are written as they come; a run that was
// ended goes on where it was.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "app/batch_file.h"
#include "app/context_shift.h"
#include "app/local_server.h"
#include "app/output_file.h"
#include "app/progress.h"
#include "base/log.h"
#include "engine/option_ranges.h"

namespace quire {
namespace {

constexpr int kTries = 8;
constexpr int kTimeoutMs = 24 * 3600 * 1000;  // the engine may be busy with others first

struct Args {
  ModelOptions model;
  EngineOptions engine;
  std::string in, out, url, api_key;
  int in_flight = 0;
  bool restart = false;
};

// Lines of a file; 0 where it cannot be read, or not twice, as a pipe.
int64_t count_lines(const std::string& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none)) return 0;
  std::ifstream in(path, std::ios::binary);
  int64_t n = 0;
  for (std::string line; std::getline(in, line);) ++n;
  return n;
}

// Lines of the input that are still to be done, handed out one by one; the results' file.
class Batch {
 public:
  Batch(const Args& args, Remote remote) : args_(args), remote_(std::move(remote)) {}

  // OUT is first touched here, after all else was found well.
  Status run() {
    in_.open(args_.in, std::ios::binary);
    if (!in_) return fail(Code::io, args_.in + ": cannot read");
    std::error_code error;
    if (args_.restart && std::filesystem::is_regular_file(args_.out, error) && std::remove(args_.out.c_str()) != 0)
      return fail(Code::io, args_.out + ": cannot be removed");
    QR_TRY(done_, keep_done(args_.out));
    out_ = std::fopen(args_.out.c_str(), "ab");
    if (out_ == nullptr) return fail(Code::io, args_.out + ": cannot write");
    progress_.emplace(args_.in, count_lines(args_.in));
    std::vector<std::thread> threads;
    threads.reserve(static_cast<size_t>(args_.in_flight));
    for (int i = 0; i < args_.in_flight; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    progress_.reset();
    if (std::fclose(out_) != 0) write_failed_ = true;
    if (in_.bad()) return fail(Code::io, args_.in + ": cannot read");
    if (write_failed_) return fail(Code::io, args_.out + ": cannot write");
    log_info(std::to_string(n_done_) + " done, " + std::to_string(n_failed_) + " failed, " +
             std::to_string(n_skipped_) + " were done before");
    if (n_failed_ > 0) return fail(Code::invalid, std::to_string(n_failed_) + " lines failed: see " + args_.out);
    return {};
  }

 private:
  struct Work {
    int64_t n_line = 0;
    BatchLine line;
  };

  // The next line that is to be asked; false at the end.
  bool next(Work& work) {
    const std::lock_guard lock(mu_);
    for (std::string text; !write_failed_ && std::getline(in_, text);) {
      ++n_line_;
      if (text.find_first_not_of(" \t\r") == std::string::npos) continue;
      Result<BatchLine> line = parse_batch_line(text);
      if (!line) {
        ++n_failed_;
        write(batch_failure(n_line_, custom_id_in(text), "invalid_line",
                            "line " + std::to_string(n_line_) + ": " + line.error().message));
      } else if (!seen_.insert(line->custom_id).second) {
        ++n_failed_;
        write(batch_failure(n_line_, line->custom_id, "duplicate_custom_id",
                            "line " + std::to_string(n_line_) + ": an earlier line has the same custom_id"));
      } else if (done_.contains(line->custom_id)) {
        ++n_skipped_;
      } else {
        work = {n_line_, *std::move(line)};
        ++n_running_;
        return true;
      }
    }
    return false;
  }

  void work() {
    HttpClient client = connect_to(remote_, kTimeoutMs);
    for (Work work; next(work);) {
      const Result<HttpResponse> response = post(client, work.line);
      std::string result;
      bool good = false;
      if (!response) {
        result = batch_failure(work.n_line, work.line.custom_id, "request_failed", response.error().message);
      } else {
        good = response->status < 400;
        Result<Json> body = Json::parse(response->body);
        result = batch_result(work.n_line, work.line.custom_id, response->status,
                              body ? *std::move(body) : Json(response->body));
      }
      const std::lock_guard lock(mu_);
      ++(good ? n_done_ : n_failed_);
      --n_running_;
      write(result);
      progress_->update(n_line_ - n_running_);
    }
  }

  // A server that is full or not ready is asked again when it says.
  Result<HttpResponse> post(HttpClient& client, const BatchLine& line) const {
    ClientRequest request{"POST", remote_.base + line.url, {{"Content-Type", "application/json"}}, line.body.dump()};
    if (!remote_.api_key.empty()) request.headers.push_back({"Authorization", "Bearer " + remote_.api_key});
    for (int i = 1;; ++i) {
      Result<HttpResponse> response = client.request(request);
      const bool again = response && (response->status == 429 || response->status == 503);
      if (!again || i == kTries) return response;
      const std::string* after = response->header("retry-after");
      const int seconds = after != nullptr ? std::atoi(after->c_str()) : 1;
      std::this_thread::sleep_for(std::chrono::seconds(std::clamp(seconds, 1, 60)));
    }
  }

  // Under the lock; whole lines, so that a run that is killed leaves at most one that is cut off.
  void write(const std::string& line) {
    if (std::fprintf(out_, "%s\n", line.c_str()) < 0 || std::fflush(out_) != 0) write_failed_ = true;
  }

  const Args& args_;
  const Remote remote_;
  std::set<std::string> done_;  // of the runs before
  std::optional<Progress> progress_;
  std::mutex mu_;
  std::ifstream in_;
  std::FILE* out_ = nullptr;
  std::set<std::string> seen_;
  int64_t n_line_ = 0, n_running_ = 0, n_done_ = 0, n_failed_ = 0, n_skipped_ = 0;
  bool write_failed_ = false;
};

// What IN, OUT and MODEL name, before anything is written.
Status check_files(Args& args) {
  std::error_code error;
  const auto status = std::filesystem::status(args.in, error);
  if (std::filesystem::is_directory(status)) return fail(Code::invalid, "IN " + args.in + " is a folder");
  if (!std::filesystem::exists(status) || ::access(args.in.c_str(), R_OK) != 0)
    return fail(Code::io, args.in + ": cannot read");
  QR_TRY_VOID(check_not_read("OUT", args.out, {&args.in, 1}));
  Status results = args.restart ? Status{} : check_results(args.out);
  if (args.url.empty()) {
    QR_TRY_VOID(find_model(args.model));
    // Results are no file of the model's, even where they lie in its folder.
    if (args.restart || !results) QR_TRY_VOID(check_not_model("OUT", args.out, args.model.model));
  }
  return results;
}

Status run(Args& args) {
  if (args.in_flight < 0 || args.in_flight > 4096)
    return fail(Code::invalid, "--in-flight must be 0 to 4096, got " + std::to_string(args.in_flight));
  // A queue behind what runs keeps every step full.
  if (args.in_flight == 0) args.in_flight = std::min(2 * args.engine.max_seqs, 4096);
  args.engine.max_queue = std::max(args.engine.max_queue, args.in_flight);
  QR_TRY_VOID(check_files(args));
  if (!args.url.empty()) {
    QR_TRY(Remote remote, parse_remote(args.url));
    remote.api_key = args.api_key;
    return Batch(args, std::move(remote)).run();
  }
  QR_TRY(const std::unique_ptr<LocalServer> server, LocalServer::start(args.model, args.engine));
  return Batch(args, server->remote()).run();
}

QR_REGISTER(Command,
            "batch",
            Command{"answer the lines of an OpenAI batch file", false, [](CommandLine& line) -> std::function<int()> {
                      auto args = std::make_shared<Args>();
                      line.positional("IN", args->in, true, "requests, one JSON object a line");
                      line.positional("OUT", args->out, true, "results, one JSON object a line; a run goes on with it");
                      declare_model_options(line, args->model);
                      declare_shift_option(line, args->model);
                      line.option("--url", args->url, "ask this server instead of a MODEL in this process");
                      line.option("--api-key", args->api_key, "of that server");
                      line.option("--in-flight", args->in_flight, {0, kMostQueue},
                                  "requests at once, 0 for twice --max-seqs");
                      line.option("--ctx", args->engine.n_ctx, {2, kMostContext, 0},
                                  "prompt and answer together, 0 for what the model was trained for or what fits");
                      line.option("--max-seqs", args->engine.max_seqs, {1, kMostSeqs}, "sequences that run together");
                      line.flag("--restart", args->restart, "remove OUT first instead of going on with it");
                      return [args] { return exit_code(run(*args)); };
                    }});

}  // namespace
}  // namespace quire
