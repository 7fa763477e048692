#include "app/load/generator.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "app/progress.h"
#include "base/clock.h"
#include "base/rng.h"

namespace quire {
namespace {

constexpr uint64_t kLeaves = 0x1ea7e;

int64_t now_ns() { return SystemClock().now_ns(); }

// The steady clock is also the system clock's base, so a time of one is a time of the other.
void sleep_until(int64_t at_ns) {
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(at_ns)));
}

class Generator {
 public:
  Generator(const Workload& workload, const GeneratorOptions& options)
      : workload_(workload), options_(options), start_ns_(now_ns()), report_(options.slo, start_ns_) {}

  LoadReport run() {
    const int64_t n = std::min<int64_t>(workload_.open_loop() ? 1 : options_.users, workload_.size());
    for (int64_t i = 0; i < n; ++i) add_thread();
    while (true) {  // threads start threads, so the list grows while it is joined
      std::thread next;
      {
        const std::lock_guard lock(threads_mu_);
        if (n_joined_ == threads_.size()) break;
        next = std::move(threads_[n_joined_++]);
      }
      next.join();
    }
    return std::move(report_);
  }

 private:
  void add_thread() {
    const std::lock_guard lock(threads_mu_);
    ++n_free_;
    threads_.emplace_back([this] { workload_.open_loop() ? lead() : use(); });
  }

  // Open loop.
  void lead() {
    HttpClient client = connect_to(options_.remote, options_.timeout_ms);
    while (true) {
      int64_t i = 0;
      {
        const std::lock_guard lead(lead_mu_);
        if (next_ >= workload_.size()) break;
        i = next_++;
        sleep_until(start_ns_ + workload_.at_ns(i));
        const bool last_free = --n_free_ == 0;
        if (last_free && next_ < workload_.size() && n_threads() < options_.max_in_flight) add_thread();
      }
      run_session(client, workload_.session(i), i);
      ++n_free_;
    }
  }

  // Closed loop.
  void use() {
    HttpClient client = connect_to(options_.remote, options_.timeout_ms);
    const auto limit_ns = start_ns_ + static_cast<int64_t>(options_.seconds * 1e9);
    while (options_.seconds <= 0 || now_ns() < limit_ns) {
      const int64_t i = next_++;
      if (i >= workload_.size()) break;
      run_session(client, workload_.session(i), i);
    }
  }

  int n_threads() {
    const std::lock_guard lock(threads_mu_);
    return static_cast<int>(threads_.size());
  }

  void run_session(HttpClient& client, const LoadSession& session, int64_t index) {
    Json::Array messages;
    std::string text = session.system;
    if (!session.system.empty()) messages.push_back(message("system", session.system));
    int64_t due_ns = session.at_ns >= 0 ? start_ns_ + session.at_ns : now_ns();
    for (size_t t = 0; t < session.turns.size(); ++t) {
      const LoadTurn& turn = session.turns[t];
      Ask what{options_.chat, options_.fields};
      what.body.set("max_tokens", turn.max_tokens);
      text += (text.empty() ? "" : "\n") + turn.text;
      messages.push_back(message("user", turn.text));
      if (options_.chat) {
        what.body.set("messages", messages);
      } else {
        what.body.set("prompt", text);
      }
      int left = pieces_until_leaving(index, t, turn.max_tokens);
      if (left > 0) what.on_text = [&left](std::string_view) { return --left > 0; };
      const RemoteAnswer answer = ask(client, options_.remote, what);
      add(due_ns, answer);
      if (!answer.failure.empty() || answer.left || t + 1 == session.turns.size()) return;
      messages.push_back(message("assistant", answer.text));
      text += answer.text;
      due_ns = answer.done_ns + static_cast<int64_t>(options_.think_ms * 1e6);
      sleep_until(due_ns);
    }
  }

  // 0: stays.
  int pieces_until_leaving(int64_t index, size_t turn, int max_tokens) const {
    const uint64_t at = static_cast<uint64_t>(index) * 2000 + turn * 2;
    const uint64_t seed = mix64(options_.seed) ^ kLeaves;
    if (random_unit(seed, at) >= options_.leave) return 0;
    return 1 + static_cast<int>(random_unit(seed, at + 1) * max_tokens);
  }

  static Json message(const char* role, const std::string& content) {
    Json out;
    out.set("role", role);
    out.set("content", content);
    return out;
  }

  void add(int64_t due_ns, const RemoteAnswer& answer) {
    const std::lock_guard lock(report_mu_);
    report_.add(due_ns, answer);
    progress_.update(report_.n_ended());
  }

  const Workload& workload_;
  const GeneratorOptions& options_;
  const int64_t start_ns_;
  std::mutex lead_mu_;  // held by the thread that leads
  std::atomic<int64_t> next_{0};
  std::atomic<int> n_free_{0};
  std::mutex threads_mu_;
  std::vector<std::thread> threads_;
  size_t n_joined_ = 0;
  std::mutex report_mu_;
  LoadReport report_;
  Progress progress_{"requests", 0};
};

}  // namespace

LoadReport run_load(const Workload& workload, const GeneratorOptions& options) {
  return Generator(workload, options).run();
}

}  // namespace quire
